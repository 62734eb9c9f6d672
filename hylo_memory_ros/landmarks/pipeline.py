"""From messages to landmarks: what a node feeds, polls and commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from hylo_memory_ros.frames import TransformSource
from hylo_memory_ros.landmarks.observation import Message
from hylo_memory_ros.landmarks.settings import LandmarkSettings
from hylo_memory_ros.landmarks.status import PipelineStatus

__all__ = ["LandmarkPipeline", "Offer"]

Offer = Literal["pending", "repeated", "late", "refused", "dropped"]
"""What became of an offered message; all but ``pending`` are final."""


class LandmarkPipeline:
    """Orders observations, associates them with landmarks, and writes what changed.

    Parameters
    ----------
    memory : MemoryPort
        The memory that landmarks are written to (`MemoryService`); what an earlier pipeline left
        in it is restored.
    transforms : TransformSource
        Asked once per message for ``global_frame`` from the message's frame at its stamp.
    settings : LandmarkSettings
        Inputs, gates, limits.
    map_id : str
        The current map.
    clock : callable, optional
        The node's clock, nanoseconds, 0 while it has not started; only to refuse stamps far ahead.

    Notes
    -----
    All methods may be called from any thread, and none waits for anything but the memory. State
    follows from the messages alone: when `poll`, `on_transforms` and `commit` are called does not
    change it.
    """

    def __init__(
        self,
        memory: object,
        transforms: TransformSource,
        settings: LandmarkSettings,
        *,
        map_id: str = "",
        clock: Callable[[], int] | None = None,
    ) -> None:
        raise NotImplementedError

    def offer(self, message: Message) -> Offer:
        """Take a message, or say why not; processing is left to `poll`."""
        raise NotImplementedError

    def note_dropped(self, source: str, count: int = 1) -> None:
        """Count messages of an input that were dropped before they were decoded."""
        raise NotImplementedError

    def note_refused(self, source: str, reason: str, count: int = 1) -> None:
        """Count messages of an input that could not be decoded."""
        raise NotImplementedError

    def poll(self) -> int:
        """Process what the watermark and the transforms allow; return how many messages."""
        raise NotImplementedError

    def on_transforms(self) -> int:
        """Do the same after transforms have arrived; for `TransformSource.on_change`."""
        raise NotImplementedError

    def flush(self, until_ns: int | None = None) -> int:
        """Lift the watermark to a stamp, at most to the newest received; None: to that one.

        Returns
        -------
        int
            Messages up to there that still wait for a transform.
        """
        raise NotImplementedError

    def commit(self, *, force: bool = False) -> int:
        """Store what changed in one group transaction; return how many items were written.

        What is only statistics waits until stamps have advanced by ``statistics_interval_s``,
        unless forced. When the memory refuses, the error is raised and nothing is lost: the next
        commit tries again.
        """
        raise NotImplementedError

    def on_clock_jump(self) -> None:
        """Finish what can be resolved and drop the rest, before transforms are cleared."""
        raise NotImplementedError

    def set_map(self, map_id: str) -> None:
        """Finish or drop pending work, then go on in another map."""
        raise NotImplementedError

    def status(self) -> PipelineStatus:
        """Return counters and watermarks."""
        raise NotImplementedError

    def close(self) -> None:
        """Process everything received whose transform is known, and commit it; may be repeated."""
        raise NotImplementedError
