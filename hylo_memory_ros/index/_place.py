"""All rows of one (map, frame): trees of what was there when they were built, blocks of what came since.

Three layers keep writes cheap and queries quick: the newest rows in two blocks (live and closed), folded
into a pair of small runs when the blocks fill, folded with everything else into the main pair when the
small ones have grown to a share of it. A fold happens on a thread of its own: `freeze` hands it the parts,
`settle` swaps in what it made. Both, and every change, are made under the mirror's lock; readers take
`parts` once and need none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

import numpy as np

from hylo_memory_ros.index._ball import Points
from hylo_memory_ros.index._block import Block
from hylo_memory_ros.index._part import TO_SEQ, VALID_TO, Index, Part, Rows, present
from hylo_memory_ros.index._rows import OPEN
from hylo_memory_ros.index._run import Run, gather

__all__ = ['Place', 'build_runs', 'fold']

_BLOCK_ROWS = 2048
_SMALL_SHARE = 16
_DEAD_ROWS = 256
_DEAD_SHARE = 8


class Place:
    """One (map, frame).

    Attributes
    ----------
    parts : tuple of Part
        What a query has to search; replaced whole.
    planar : bool
        Whether horizontal queries were seen, so that runs need a tree over x and y.
    """

    def __init__(self, main: tuple[Run, ...] = (), planar: bool = False) -> None:
        self.parts: tuple[Part, ...] = main
        self.planar = planar
        self._main = main
        self._small: tuple[Run, ...] = ()
        self._frozen: tuple[Block, ...] = ()
        self._live, self._closed = Block(True), Block(False)
        self._dead = 0
        self._touched = True
        self._journal: list[tuple[Rows, int | None]] | None = None
        self._patience = 1

    def __len__(self) -> int:
        return sum(len(part) - part.scrubbed for part in self.parts)

    def extend(
        self, rows: Sequence[tuple[int, ...]], points: Sequence[tuple[float, float, float]], cutoff_ns: int
    ) -> None:
        """Add rows, each with its point; those that end by the cutoff, or are not believed, as closed."""
        for block in (self._live, self._closed):
            chosen = [
                i
                for i, row in enumerate(rows)
                if (row[TO_SEQ] == OPEN and row[VALID_TO] > cutoff_ns) == block.live
            ]
            if chosen:
                block.extend([rows[i] for i in chosen], [points[i] for i in chosen])
        self._publish()

    def knows(self, version_rows: Rows) -> Index:
        """Return, sorted, the positions in `version_rows` of those that are here."""
        found = [np.flatnonzero(part.locate(version_rows) >= 0) for part in self.parts]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.intp)

    def end(self, version_rows: Rows, sequence: int) -> int:
        """End the belief in those of the rows that are here; return how many are."""
        if self._journal is not None:
            self._journal.append((version_rows, sequence))
        found, dead = _end(self.parts, version_rows, sequence)
        self._dead += dead
        self._touched = True
        return found

    def want_planar(self) -> None:
        """Have trees over x and y built from now on."""
        self.planar = self._touched = True

    def remove(self, version_rows: Rows) -> None:
        """Scrub those of the rows that are here, and see to it that a fold drops them."""
        if self._journal is not None:
            self._journal.append((version_rows, None))
        _scrub(self.parts, version_rows)
        self._touched = True

    def due(self) -> str | None:
        """Say which fold is due: ``deep``, ``small``, ``planar`` or none."""
        if self._journal is not None or not self._touched:
            return None
        kind = self._due()
        self._touched = kind is not None
        return kind

    def _due(self) -> str | None:
        fresh = len(self._live) + len(self._closed) + sum(map(len, self._frozen))
        main = sum(map(len, self._main))
        light = fresh + sum(map(len, self._small))
        live = sum(len(part) for part in self.parts if part.live)
        scrubbed = any(part.scrubbed for part in self.parts)
        if scrubbed or light > self._patience * max(_BLOCK_ROWS, main // _SMALL_SHARE):
            return 'deep'
        if self._dead > self._patience * max(_DEAD_ROWS, live // _DEAD_SHARE):
            return 'deep'
        if fresh > self._patience * _BLOCK_ROWS:
            return 'small'
        if self.planar and not all(run.planar for run in chain(self._main, self._small)):
            return 'planar'
        return None

    def freeze(self, deep: bool) -> tuple[Part, ...]:
        """Set the blocks aside and return the parts to fold; from now on changes are kept for `settle`."""
        self._frozen += tuple(block for block in (self._live, self._closed) if len(block))
        self._live, self._closed = Block(True), Block(False)
        self._journal = []
        self._publish()
        return (*(self._main if deep else ()), *self._small, *self._frozen)

    def settle(self, runs: tuple[Run, ...], deep: bool) -> None:
        """Put the folded runs in the place of what `freeze` returned."""
        dead = 0
        # Before a reader can see them.
        for version_rows, sequence in self._journal or ():
            if sequence is None:
                _scrub(runs, version_rows)
            else:
                dead += _end(runs, version_rows, sequence)[1]
        if deep:
            self._main, self._small, self._dead = runs, (), dead
        else:
            self._small = runs
        self._frozen = ()
        self._journal = None
        self._patience = 1
        self._publish()

    def thaw(self, failed: bool) -> None:
        """Give up a fold; the parts stay as they are."""
        self._journal = None
        if failed:
            self._patience *= 2

    def build_planar(self, stop: Callable[[], None]) -> None:
        """Build the missing trees over x and y; needs no lock, for a run is swapped only by a fold."""
        for run in chain(self._main, self._small):
            stop()
            run.build_planar()

    def _publish(self) -> None:
        blocks = (block for block in (self._live, self._closed) if len(block))
        self.parts = (*self._main, *self._small, *self._frozen, *blocks)
        self._touched = True


def _end(parts: Iterable[Part], version_rows: Rows, sequence: int) -> tuple[int, int]:
    """End the belief in rows of the parts; return how many are there, and how many live ones ended."""
    found = dead = 0
    for part in parts:
        if found == len(version_rows):
            break
        index = part.locate(version_rows)
        index = index[index >= 0]
        if len(index):
            found += len(index)
            ended = part.end(index, sequence)
            dead += ended if part.live else 0
    return found, dead


def _scrub(parts: Iterable[Part], version_rows: Rows) -> None:
    for part in parts:
        index = part.locate(version_rows)
        index = index[index >= 0]
        if len(index):
            part.scrub(index)


def build_runs(
    rows: Rows, points: Points, cutoff_ns: int, planar: bool, stop: Callable[[], None]
) -> tuple[Run, ...]:
    """Build the live and the closed run of rows, each with its point; scrubbed rows are dropped."""
    there = present(rows)
    live = there & (rows[TO_SEQ] == OPEN) & (rows[VALID_TO] > cutoff_ns)
    picks = (True, np.flatnonzero(live)), (False, np.flatnonzero(there & ~live))
    return tuple(Run.build(rows, points, pick, is_live, planar, stop) for is_live, pick in picks if len(pick))


def fold(parts: Sequence[Part], cutoff_ns: int, planar: bool, stop: Callable[[], None]) -> tuple[Run, ...]:
    """Build the live and the closed run of all rows in the parts."""
    return build_runs(*gather(parts), cutoff_ns, planar, stop)
