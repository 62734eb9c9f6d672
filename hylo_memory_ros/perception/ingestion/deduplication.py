"""The ledger in memory: what was consumed since the last commit, and a window on all before."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.storage.landmarks.ledger import ConsumedBlock

__all__ = ['Consumed', 'Entry']

# A replay reads its blocks one after the other; a few cover the reordering around the place.
_BLOCKS_KEPT = 16

Find = Callable[[str, int], Sequence[ConsumedBlock]]


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One consumed message."""

    stamp_ns: int
    """Its stamp."""
    digest: int
    """Its digest."""
    landmarks: NDArray[np.int64]
    """Number of the landmark of each detection, 0 for none."""


@dataclass(slots=True)
class Consumed:
    """The consumed messages of one input.

    Parameters
    ----------
    name : str
        The input.
    find : callable
        Return the stored blocks of an input whose span holds a stamp.
    """

    name: str
    find: Find
    fresh: list[Entry] = field(default_factory=list)
    """What no commit has stored, in the order of processing."""
    _known: set[tuple[int, int]] = field(default_factory=set)
    _blocks: deque[ConsumedBlock] = field(default_factory=lambda: deque(maxlen=_BLOCKS_KEPT))

    def add(self, entry: Entry) -> None:
        """Take a message that was just processed."""
        self.fresh.append(entry)
        self._known.add((entry.stamp_ns, entry.digest))

    def holds(self, stamp_ns: int, digest: int) -> bool:
        """Return whether a message was consumed, however long ago."""
        message = (stamp_ns, digest)
        if message in self._known or any(message in block.messages for block in self._blocks):
            return True
        found = self.find(self.name, stamp_ns)
        self._blocks.extendleft(found)
        return any(message in block.messages for block in found)

    def stored(self, count: int) -> None:
        """Let go of the oldest entries, which a commit has stored."""
        for entry in self.fresh[:count]:
            self._known.discard((entry.stamp_ns, entry.digest))
        del self.fresh[:count]

    def clear(self) -> None:
        """Forget everything: the memory was replaced."""
        self.fresh.clear()
        self._known.clear()
        self._blocks.clear()
