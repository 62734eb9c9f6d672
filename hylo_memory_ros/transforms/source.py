"""Port of transform lookups between frames.

Implementations: `TransformBuffer` (this package), and in `hylo_memory_ros.ros.perception.transforms` the
same fed from the topics, and tf2. All pass one test suite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from hylo_memory_ros.transforms.geometry import Transform

LATEST = 0
"""Stamp that means "the latest time common to both frames"; for queries only, never for a stamped write."""


@runtime_checkable
class TransformSource(Protocol):
    """Rigid transforms between named frames, over the last seconds.

    The meaning of time is tf2's: samples are interpolated and never extrapolated, the first and
    the last stamp are inside, a static transform holds always, and a frame is at itself always,
    even if it was never heard of.

    No call waits. All may be made from any thread.
    """

    @property
    def refused(self) -> Mapping[str, int]:
        """Refused transforms, counted by reason."""

    def lookup(self, target_frame: str, source_frame: str, stamp_ns: int) -> Transform:
        """Return ``target_from_source`` at a stamp.

        Parameters
        ----------
        target_frame, source_frame : str
            Frame names; exactly one leading slash is stripped.
        stamp_ns : int
            Nanoseconds, or `LATEST`: then the result's own stamp says which time that was (0: all
            transforms between the frames are static).

        Raises
        ------
        InvalidRequestError
            If a name is no frame id, or the stamp is negative.
        UnknownFrameError
            If no transform has named one of the frames.
        DisconnectedFrameError
            If both are known, and no chain of transforms joins them.
        TransformTooOldError
            If the stamp lies before the oldest sample: waiting is useless.
        TransformTooNewError
            If the stamp lies after the newest sample: it may still arrive.
        """

    def frames(self) -> tuple[str, ...]:
        """Return the names of all known frames, sorted."""

    def clear(self) -> None:
        """Forget all transforms that change with time, and the frames only they named.

        Static transforms stay: they are latched, and their publisher will not say them again.
        """

    def on_change(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back after each message with transforms; return a function that removes the callback.

        The callback runs in the thread that delivered the message, outside of any lock.
        """
