"""What is kept of the transform from one frame to its parent: one frame, many stamps."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from hylo_memory_ros.transforms.geometry import Quaternion, Vector, mix, slerp

__all__ = ['Cache', 'Link', 'SampledCache', 'StaticCache']


class Link(NamedTuple):
    """``parent_from_child`` at one time."""

    parent: str
    translation: Vector
    rotation: Quaternion


class StaticCache:
    """A transform that holds at all times; a newer one replaces it."""

    __slots__ = ('link',)

    newest_ns: None = None
    oldest_ns: None = None

    def __init__(self, link: Link) -> None:
        self.link = link

    @property
    def parent(self) -> str:
        """The parent."""
        return self.link.parent

    def at(self, _stamp_ns: int, /) -> Link | None:
        """Return the transform, whatever the time."""
        return self.link


class SampledCache:
    """Samples of one transform, in the order of their stamps.

    Kept is what is not older than `keep_ns` before the newest stamp. As in tf2 that is decided
    when a sample arrives, by the newest stamp before it.

    Parameters
    ----------
    keep_ns : int
        Nanoseconds.
    """

    __slots__ = ('_keep_ns', '_links', '_stamps')

    def __init__(self, keep_ns: int) -> None:
        self._keep_ns = keep_ns
        self._stamps: list[int] = []
        self._links: list[Link] = []

    @property
    def parent(self) -> str:
        """The parent in the newest sample."""
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

    def insert(self, stamp_ns: int, link: Link) -> bool:
        """Take a sample, in any order of stamps; return False when it is too old to be kept.

        An exact repetition changes nothing. A different sample of the same stamp goes after the
        first one, and is the one that is found.
        """
        stamps, links = self._stamps, self._links
        if not stamps or stamp_ns > stamps[-1]:
            self._prune()
            stamps.append(stamp_ns)
            links.append(link)
            return True
        self._prune()
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

    def at(self, stamp_ns: int, /) -> Link | None:
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
        return Link(
            older.parent,
            mix(older.translation, newer.translation, fraction),
            slerp(older.rotation, newer.rotation, fraction),
        )

    def _prune(self) -> None:
        stamps = self._stamps
        if stamps and stamps[0] < stamps[-1] - self._keep_ns:
            drop = bisect_right(stamps, stamps[-1] - self._keep_ns - 1)
            del stamps[:drop], self._links[:drop]


Cache = StaticCache | SampledCache
