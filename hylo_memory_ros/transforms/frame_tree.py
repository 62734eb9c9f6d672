"""Frame tree: transforms over time, and lookups between any two frames."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from hylo_memory_ros.errors import (
    DisconnectedFrameError,
    FrameError,
    InvalidRequestError,
    TransformTooNewError,
    TransformTooOldError,
    UnknownFrameError,
)
from hylo_memory_ros.model import MAX_STAMP_NS, normalize_frame
from hylo_memory_ros.model.pose import MAX_COORDINATE_M
from hylo_memory_ros.transforms.geometry import (
    IDENTITY_ROTATION,
    Quaternion,
    Vector,
    mix,
    slerp,
    unit_quaternion,
)
from hylo_memory_ros.transforms.source import LATEST

_LOG = logging.getLogger(__name__)

HELD = 10
"""Longest stay of samples that a waiting message needs, in times of the retention."""

_name = lru_cache(maxsize=4096)(normalize_frame)


def validate_frame(name: str, field: str) -> str:
    """Return a normalized frame name.

    Raises
    ------
    InvalidRequestError
        If it is no frame id, naming the field and the value.
    """
    try:
        return _name(name)
    except ValueError as exc:
        rule = str(exc).partition(': ')[2] or str(exc)
        raise InvalidRequestError(f'{field}: {rule}', **{field: name}) from exc


class RawTransform(NamedTuple):
    """An unchecked transform as received: ``parent_from_child``."""

    parent: str
    child: str
    stamp_ns: int
    translation: Sequence[float]
    rotation: Sequence[float]


class FrameTree:
    """Tree of the received transforms, validated and ordered.

    It accepts what tf2 accepts and refuses what tf2 refuses. It also refuses infinite numbers,
    coordinates beyond 1e9 m, negative stamps, invalid frame names, and links that would close a loop. It
    is not thread-safe; the owner holds a lock.

    Parameters
    ----------
    keep_ns : int
        Retention of samples, measured from the newest stamp of each frame, nanoseconds.
    max_frames : int
        Largest number of frames: a publisher that invents names must not exhaust memory.
    keep_poses : bool
        False when something else (tf2) keeps the poses, and the tree only knows the times.
    """

    def __init__(self, keep_ns: int, *, max_frames: int = 4096, keep_poses: bool = True) -> None:
        self._keep_ns = keep_ns
        self._max_frames = max_frames
        self._keep_poses = keep_poses
        self._caches: dict[str, TransformCache] = {}
        self._names: set[str] = set()
        self._warned: set[tuple[str, str]] = set()
        self.refused: Counter[str] = Counter()
        self.origin = ''
        """Topics that the transforms come from, for messages; empty: none."""
        self.newest_ns = 0
        """Newest stamp of all samples; 0: none."""
        self.needed_ns: int | None = None
        """Stamp from which on samples are kept beyond the retention; None: no message waits for them."""

    def names(self) -> tuple[str, ...]:
        """Return all frame names, sorted."""
        return tuple(sorted(self._names))

    def clear(self) -> None:
        """Forget everything except static transforms."""
        self._caches = {
            child: cache for child, cache in self._caches.items() if isinstance(cache, StaticCache)
        }
        self._names = {name for child, cache in self._caches.items() for name in (child, cache.parent)}
        self.newest_ns = 0

    def cache(self, frame: str) -> TransformCache | None:
        """Return the transforms of a frame in its parent; None for the root of a tree."""
        return self._caches.get(frame)

    def insert(
        self,
        parent: str,
        child: str,
        stamp_ns: int,
        translation: Sequence[float],
        rotation: Sequence[float],
        *,
        static: bool = False,
    ) -> RawTransform | None:
        """Insert a transform, or count it under the reason for which it is refused.

        Parameters
        ----------
        parent, child : str
            Frame names; exactly one leading slash is stripped.
        stamp_ns : int
            Nanoseconds; without meaning when static.
        translation : sequence of float, length 3
            Origin of the child in the parent, metres.
        rotation : sequence of float, length 4
            Orientation of the child in the parent, quaternion x y z w; brought to unit length.
        static : bool
            Whether it holds at all times.

        Returns
        -------
        RawTransform or None
            The same with names and quaternion put right; None when refused.
        """
        checked = self._checked(parent, child, 0 if static else stamp_ns, translation, rotation)
        if isinstance(checked, str):
            self._refuse(checked, parent, child)
            return None
        name, link = checked
        if not self._keep(name, stamp_ns, link, static):
            self._refuse('old_data', parent, child)
            return None
        self._names |= {link.parent, name}
        return RawTransform(link.parent, name, stamp_ns, link.translation, link.rotation)

    def latest_common(self, target: str, source: str) -> int | None:
        """Return the latest time at which all links between two frames have data.

        Returns
        -------
        int or None
            Nanoseconds; 0 when all links are static; None when the frames are not joined.
        """
        path = self._path(target, source)
        if path is None:
            return None
        stamps = [newest for cache in path if (newest := cache.newest_ns)]
        return min(stamps, default=0)

    def refusal(self, target: str, source: str, stamp_ns: int) -> FrameError:
        """Return the error of a failed lookup, by the newest links.

        It names both frames, the stamp, the available interval, and the rule.
        """
        what = f'no transform from {source!r} to {target!r} at {_seconds(stamp_ns)}'
        details = {'target_frame': target, 'source_frame': source, 'stamp_ns': stamp_ns}
        unknown = [name for name in (source, target) if name not in self._names]
        if unknown:
            names = ' and '.join(map(repr, unknown))
            heard = f'{len(self._names)} frames' + (f' received on {self.origin}' if self.origin else '')
            why = f'frame {names} is unknown, none of the transforms among {heard} names it'
            return UnknownFrameError(f'{what}: {why}', **details)
        path = self._path(target, source)
        if path is None:
            why = f'{source!r} hangs below {self._root(source)!r}, {target!r} below {self._root(target)!r}'
            return DisconnectedFrameError(f'{what}: the frames are not connected ({why})', **details)
        if stamp_ns != LATEST and all(self._ends_at_root(name, stamp_ns) for name in (target, source)):
            return DisconnectedFrameError(f'{what}: the frames were not connected at that time', **details)
        return _out_of_time(path, stamp_ns, what, details)

    def _checked(
        self, parent: str, child: str, stamp_ns: int, translation: Sequence[float], rotation: Sequence[float]
    ) -> tuple[str, FrameLink] | str:
        """Return the child's name and its link, or the reason for a refusal."""
        try:
            parent, child = _name(parent), _name(child)
        except ValueError:
            return 'frame_id'
        if parent == child:
            return 'self_transform'
        x, y, z = translation
        if not (abs(x) <= MAX_COORDINATE_M and abs(y) <= MAX_COORDINATE_M and abs(z) <= MAX_COORDINATE_M):
            return 'translation'
        if not 0 <= stamp_ns <= MAX_STAMP_NS:
            return 'stamp'
        try:
            unit = unit_quaternion(rotation)
        except ValueError:
            return 'quaternion'
        return self._misplaced(parent, child) or (
            child,
            FrameLink(parent, (float(x), float(y), float(z)), unit),
        )

    def _misplaced(self, parent: str, child: str) -> str:
        """Return the reason why a link does not fit into the tree; empty if it does."""
        cache = self._caches.get(child)
        if cache is not None and cache.parent == parent:
            return ''
        if child in self._ancestors(parent):
            return 'loop'
        return 'too_many_frames' if len(self._names | {parent, child}) > self._max_frames else ''

    def _keep(self, child: str, stamp_ns: int, link: FrameLink, static: bool) -> bool:
        if not self._keep_poses:
            link = FrameLink(link.parent, (0.0, 0.0, 0.0), IDENTITY_ROTATION)
        if static:
            self._caches[child] = StaticCache(link)
            return True
        cache = self._caches.get(child)
        if not isinstance(cache, SampledCache):
            cache = self._caches[child] = SampledCache(self._keep_ns)
        self.newest_ns = max(self.newest_ns, stamp_ns)
        return cache.insert(stamp_ns, link, self.needed_ns)

    def _refuse(self, reason: str, parent: str, child: str) -> None:
        self.refused[reason] += 1
        if (reason, child) not in self._warned and len(self._warned) < self._max_frames:
            self._warned.add((reason, child))
            _LOG.warning(
                'transform of %r in %r refused (%s); logged once, then only counted', child, parent, reason
            )

    def _ancestors(self, frame: str) -> Iterator[str]:
        """Yield a frame and all above it, by the newest links."""
        seen: set[str] = set()
        while frame not in seen:
            seen.add(frame)
            yield frame
            cache = self._caches.get(frame)
            if cache is None:
                return
            frame = cache.parent

    def _root(self, frame: str) -> str:
        return list(self._ancestors(frame))[-1]

    def _ends_at_root(self, frame: str, stamp_ns: int) -> bool:
        """Return whether the links of one time lead to a frame without parent, not to a gap."""
        seen: set[str] = set()
        while frame not in seen:
            seen.add(frame)
            cache = self._caches.get(frame)
            if cache is None:
                return True
            link = cache.at(stamp_ns)
            if link is None:
                return False
            frame = link.parent
        return True

    def _path(self, target: str, source: str) -> list[TransformCache] | None:
        """Return the links that join two frames, up to their lowest common ancestor."""
        above = list(self._ancestors(source))
        place = {name: index for index, name in enumerate(above)}
        below: list[str] = []
        for name in self._ancestors(target):
            if name in place:
                return [self._caches[frame] for frame in above[: place[name]] + below]
            below.append(name)
        return None


def _out_of_time(path: list[TransformCache], stamp_ns: int, what: str, details: dict[str, Any]) -> FrameError:
    """Return the error for a stamp at which a link of a path has no data."""
    oldest = max((stamp for cache in path if (stamp := cache.oldest_ns) is not None), default=0)
    newest = min((stamp for cache in path if (stamp := cache.newest_ns) is not None), default=0)
    details = details | {'oldest_ns': oldest, 'newest_ns': newest}
    span = f'the buffer holds [{_seconds(oldest)}, {_seconds(newest)}]'
    if stamp_ns == LATEST or oldest > newest:
        span = (
            f'the links between them share no time yet (the last begins at {_seconds(oldest)}, '
            f'the first ends at {_seconds(newest)})'
        )
    if stamp_ns == LATEST:
        return TransformTooNewError(f'{what}: {span}', **details)
    if stamp_ns < oldest:
        rule = 'the past is not extrapolated and never arrives'
        return TransformTooOldError(f'{what}: {span}; {rule}', **details)
    if stamp_ns > newest:
        return TransformTooNewError(f'{what}: {span}; the future is not extrapolated', **details)
    return DisconnectedFrameError(f'{what}: the frames were not connected at that time', **details)


def _seconds(stamp_ns: int) -> str:
    """Format a stamp exactly, in seconds."""
    if stamp_ns == LATEST:
        return 'the latest common time'
    return f'{stamp_ns // 10**9}.{stamp_ns % 10**9:09d} s'


class FrameLink(NamedTuple):
    """``parent_from_child`` at one time."""

    parent: str
    translation: Vector
    rotation: Quaternion


class StaticCache:
    """A static transform; a newer one replaces it."""

    __slots__ = ('link',)

    newest_ns: None = None
    oldest_ns: None = None

    def __init__(self, link: FrameLink) -> None:
        self.link = link

    @property
    def parent(self) -> str:
        """Parent frame."""
        return self.link.parent

    def at(self, _stamp_ns: int, /) -> FrameLink | None:
        """Return the transform at any stamp."""
        return self.link


class SampledCache:
    """Samples of one transform, ordered by stamp.

    Samples older than `keep_ns` before the newest stamp are dropped, unless a waiting message needs them and
    they are younger than `HELD` times that. As in tf2 this is decided when a sample arrives, by the newest
    stamp before it.

    Parameters
    ----------
    keep_ns : int
        Nanoseconds.
    """

    __slots__ = ('_keep_ns', '_links', '_stamps')

    def __init__(self, keep_ns: int) -> None:
        self._keep_ns = keep_ns
        self._stamps: list[int] = []
        self._links: list[FrameLink] = []

    @property
    def parent(self) -> str:
        """Parent frame of the newest sample."""
        return self._links[-1].parent

    @property
    def newest_ns(self) -> int:
        """Stamp of the newest sample."""
        return self._stamps[-1]

    @property
    def oldest_ns(self) -> int:
        """Stamp of the oldest sample that is kept."""
        return self._stamps[0]

    def __len__(self) -> int:
        return len(self._stamps)

    def insert(self, stamp_ns: int, link: FrameLink, needed_ns: int | None = None) -> bool:
        """Insert a sample, in any order of stamps; return False when it is too old.

        An exact repetition changes nothing. A different sample of the same stamp goes after the
        first one, and is the one that is found. Samples from `needed_ns` on are needed still.
        """
        stamps, links = self._stamps, self._links
        self._prune(needed_ns)
        if not stamps or stamp_ns > stamps[-1]:
            stamps.append(stamp_ns)
            links.append(link)
            return True
        if stamp_ns < stamps[-1] - self._keep_ns:
            return False
        place = bisect_right(stamps, stamp_ns)
        same = place
        while same and stamps[same - 1] == stamp_ns:
            same -= 1
            if links[same] == link:
                return True
        stamps.insert(place, stamp_ns)
        links.insert(place, link)
        return True

    def at(self, stamp_ns: int, /) -> FrameLink | None:
        """Return the transform at a stamp, or None when it is outside of the samples.

        Between samples with different parents the older one holds: the child was handed over at
        the newer one. Stamp 0 is the newest sample.
        """
        stamps, links = self._stamps, self._links
        if stamp_ns in (0, stamps[-1]):
            return links[-1]
        if stamp_ns == stamps[0]:
            return links[0]
        if not stamps[0] < stamp_ns < stamps[-1]:
            return None
        place = bisect_right(stamps, stamp_ns)
        older, newer = links[place - 1], links[place]
        start = stamps[place - 1]
        if start == stamp_ns or older.parent != newer.parent:
            return older
        fraction = (stamp_ns - start) / (stamps[place] - start)
        return FrameLink(
            older.parent,
            mix(older.translation, newer.translation, fraction),
            slerp(older.rotation, newer.rotation, fraction),
        )

    def _prune(self, needed_ns: int | None) -> None:
        stamps = self._stamps
        if not stamps or stamps[0] >= stamps[-1] - self._keep_ns:
            return
        oldest_ns = stamps[-1] - self._keep_ns
        if needed_ns is not None:
            # The sample before it is needed too, for the interpolation.
            before = bisect_right(stamps, needed_ns) - 1
            oldest_ns = min(oldest_ns, stamps[max(before, 0)])
            oldest_ns = max(oldest_ns, stamps[-1] - HELD * self._keep_ns)
        drop = bisect_right(stamps, oldest_ns - 1)
        del stamps[:drop], self._links[:drop]


TransformCache = StaticCache | SampledCache
