"""Transform buffer in plain Python with the results and failures of tf2."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.transforms.frame_tree import FrameTree, RawTransform, validate_frame
from hylo_memory_ros.transforms.geometry import (
    IDENTITY_ROTATION,
    Quaternion,
    Transform,
    Vector,
    add,
    conjugate,
    multiply,
    rotate,
)
from hylo_memory_ros.transforms.source import LATEST

DEFAULT_RETENTION_S = 30.0
"""Default retention of transforms, seconds."""

RigidTransform = tuple[Vector, Quaternion]
"""Translation and rotation, ``target_from_source`` without frame names."""

_ORIGIN: Vector = (0.0, 0.0, 0.0)


class ChangeCallbacks:
    """Callbacks on the arrival of transforms."""

    def __init__(self) -> None:
        self._callbacks: tuple[Callable[[], object], ...] = ()

    def add(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Add a callback; return a function that removes it."""
        self._callbacks = (*self._callbacks, callback)

        def remove() -> None:
            self._callbacks = tuple(known for known in self._callbacks if known is not callback)

        return remove

    def notify(self) -> None:
        """Call all callbacks."""
        for callback in self._callbacks:
            callback()


class TransformBuffer:
    """A `TransformSource` that is fed by hand or from the topics `tf` and `tf_static`.

    Parameters
    ----------
    keep_s : float
        How long samples are kept, measured from the newest stamp of each frame, seconds; up to `HELD` times
        as long while work waits that needs them, see `retain`.
    keep_poses : bool
        False in a subclass that keeps the numbers elsewhere; it overrides `_taken`, `_cleared`
        and `_join`, which run under the lock.

    Notes
    -----
    All methods may be called from any thread: one lock, held for microseconds. Callbacks of
    `on_change` run outside of it.

    Examples
    --------
    >>> tf = TransformBuffer()
    >>> tf.set_transform('map', 'base_link', 10**9, (1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    True
    >>> tf.set_transform('map', 'base_link', 3 * 10**9, (3.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    True
    >>> tf.lookup('map', 'base_link', 2 * 10**9).translation
    (2.0, 0.0, 0.0)
    """

    def __init__(self, keep_s: float = DEFAULT_RETENTION_S, *, keep_poses: bool = True) -> None:
        self._lock = threading.Lock()
        self._tree = FrameTree(round(keep_s * 1e9), keep_poses=keep_poses)
        self._keep_ns = round(keep_s * 1e9)
        self._observers = ChangeCallbacks()
        self._needs: tuple[Callable[[], int | None], ...] = ()

    @property
    def refused(self) -> Mapping[str, int]:
        """Refused transforms, counted by reason.

        ``frame_id``, ``self_transform``, ``translation``, ``quaternion``, ``stamp``, ``loop``,
        ``old_data``, ``too_many_frames``.
        """
        return MappingProxyType(self._tree.refused)

    def set_transform(
        self,
        parent: str,
        child: str,
        stamp_ns: int,
        translation: Sequence[float],
        rotation: Sequence[float],
        *,
        static: bool = False,
    ) -> bool:
        """Add ``parent_from_child`` at a stamp; return False when it is refused (and counted).

        Parameters
        ----------
        parent, child : str
            Frame names; exactly one leading slash is stripped.
        stamp_ns : int
            Nanoseconds; without meaning when static.
        translation : sequence of float, length 3
            Origin of the child in the parent, metres, x y z.
        rotation : sequence of float, length 4
            Orientation of the child in the parent, quaternion x y z w.
        static : bool
            Whether it holds at all times.
        """
        incoming = RawTransform(parent, child, stamp_ns, translation, rotation)
        return self.set_transforms([incoming], static=static) == 1

    def set_transforms(self, transforms: Iterable[RawTransform], *, static: bool = False) -> int:
        """Add the transforms of one message and notify once; return how many were accepted."""
        taken = 0
        with self._lock:
            needs = [stamp_ns for need in self._needs if (stamp_ns := need()) is not None]
            self._tree.needed_ns = min(needs, default=None)
            for item in transforms:
                entry = self._tree.insert(*item, static=static)
                if entry is not None:
                    taken += 1
                    self._taken(entry, static)
        if taken:
            self._observers.notify()
        return taken

    def on_change(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back after each message with accepted transforms; return a function that undoes it."""
        return self._observers.add(callback)

    def retain(self, needed_ns: Callable[[], int | None]) -> Callable[[], None]:
        """Keep what waiting work needs, though newer transforms arrive; return a function that ends this.

        Parameters
        ----------
        needed_ns : callable
            The stamp from which on transforms are needed, nanoseconds; None: nothing waits. It is called
            under the lock at each message, so it must return at once.
        """
        self._needs = (*self._needs, needed_ns)

        def remove() -> None:
            self._needs = tuple(known for known in self._needs if known is not needed_ns)

        return remove

    @property
    def horizon_ns(self) -> int:
        """Stamp before which transforms need not be kept now, nanoseconds."""
        return self._tree.newest_ns - self._keep_ns

    def frames(self) -> tuple[str, ...]:
        """Return the names of all known frames, sorted."""
        with self._lock:
            return self._tree.names()

    def clear(self) -> None:
        """Forget all transforms except static ones."""
        with self._lock:
            self._tree.clear()
            self._cleared()

    def lookup(self, target_frame: str, source_frame: str, stamp_ns: int) -> Transform:
        """Return ``target_from_source`` at a stamp; see `TransformSource.lookup`."""
        target, source = (
            validate_frame(target_frame, 'target_frame'),
            validate_frame(source_frame, 'source_frame'),
        )
        if stamp_ns < 0:
            raise InvalidRequestError(f'stamp_ns: {stamp_ns} is negative', stamp_ns=stamp_ns)
        with self._lock:
            at = stamp_ns
            if at == LATEST:
                at = self._tree.latest_common(target, source) or 0
            found = (_ORIGIN, IDENTITY_ROTATION) if target == source else self._join(target, source, at)
            if found is None:
                raise self._tree.refusal(target, source, stamp_ns)
        return Transform(*found, target, source, at)

    def _taken(self, transform: RawTransform, static: bool) -> None:
        """Handle an accepted transform with normalized names and quaternion."""

    def _cleared(self) -> None:
        """Handle the removal of all transforms except static ones."""

    def _join(self, target: str, source: str, stamp_ns: int) -> RigidTransform | None:
        """Return ``target_from_source`` through the lowest common ancestor at a stamp."""
        climbed = self._climb(source, target, stamp_ns)
        if target in climbed:
            return climbed[target]
        tree = self._tree
        frame, vector, quaternion = target, _ORIGIN, IDENTITY_ROTATION
        seen: set[str] = set()
        while frame not in climbed:
            seen.add(frame)
            cache = tree.cache(frame)
            link = cache.at(stamp_ns) if cache else None
            if link is None or link.parent in seen:
                return None
            vector = add(rotate(link.rotation, vector), link.translation)
            quaternion = multiply(link.rotation, quaternion)
            frame = link.parent
        top_vector, top_quaternion = climbed[frame]
        back = conjugate(quaternion)
        difference = (top_vector[0] - vector[0], top_vector[1] - vector[1], top_vector[2] - vector[2])
        return rotate(back, difference), multiply(back, top_quaternion)

    def _climb(self, source: str, target: str, stamp_ns: int) -> dict[str, RigidTransform]:
        """Return ``ancestor_from_source`` of all ancestors up to the target, as far as there is data."""
        frame, vector, quaternion = source, _ORIGIN, IDENTITY_ROTATION
        climbed = {frame: (vector, quaternion)}
        while frame != target:
            cache = self._tree.cache(frame)
            link = cache.at(stamp_ns) if cache else None
            if link is None or link.parent in climbed:
                break
            vector = add(rotate(link.rotation, vector), link.translation)
            quaternion = multiply(link.rotation, quaternion)
            frame = link.parent
            climbed[frame] = (vector, quaternion)
        return climbed
