"""Which landmark is it? Gates, one-to-one assignment, and what follows for the landmarks.

An `Association` is given one scan after the other, in their order, and keeps a `LandmarkMap`
up to date. What it decides may depend on nothing but the scans and the book: the same scans
give the same book, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.perception.ingestion.scan import Scan
from hylo_memory_ros.perception.map.columns import NEVER
from hylo_memory_ros.perception.map.landmark import KEY_DIGITS, landmark_key
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.receipts import Receipt, merge_receipt, scan_receipt
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.assignment import NONE, assigned
from hylo_memory_ros.perception.tracking.duplicates import observed
from hylo_memory_ros.perception.tracking.gating import Candidates, candidates
from hylo_memory_ros.perception.tracking.merging import Ending, join, proofs
from hylo_memory_ros.perception.tracking.update import Update

__all__ = ['Association', 'Ending', 'GatedAssociation', 'Outcome']

Array = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What became of a scan."""

    landmarks: NDArray[np.int64]
    """Number of the landmark that each detection of the message was given to, 0 for none."""
    items: Sequence[MemoryItem]
    """Statements to be written, in their order."""
    endings: Sequence[Ending] = ()
    """Items to be ended, after those were written."""
    receipts: Sequence[Receipt] = ()
    """What was decided, and on what grounds."""
    seen: NDArray[np.int64] | None = None
    """Rows of the landmarks that took an observation; None: none did."""


class Association(Protocol):
    """Gives detections to landmarks, and makes new ones."""

    def observe(self, scan: Scan, book: LandmarkMap) -> Outcome:
        """Take one scan into the book."""
        ...


class GatedAssociation:
    """The likeliest landmarks inside the gates, one to one within a message.

    The assignment minimises the sum of d^2 + ln|S|. Labels that differ count against a pair, but
    do not exclude it: the label of a landmark is what most of its observations say. Things that
    the input names itself, and those whose label is declared unique, are found by that name
    wherever they are; one that is suddenly outside the gate begins a new estimate, which is
    written once it is confirmed again.

    A forgotten landmark takes only what was observed up to the forget, and comes to nothing. One
    that is held takes everything and does not change.

    Parameters
    ----------
    settings : LandmarkSettings
        Gates, uncertainty, confirmation, displacement.
    """

    def __init__(self, settings: LandmarkSettings) -> None:
        self._settings = settings
        self._unique = frozenset(settings.unique)
        self._update = Update(settings)

    def observe(self, scan: Scan, book: LandmarkMap) -> Outcome:
        """Take one scan into the book."""
        given = np.zeros(scan.size, dtype=np.int64)
        before = len(book.keyframes)
        if book.keyframes.advance(scan.stamp_ns, scan.global_from_base) != before:
            book.turn_over()
        book.give_chance(scan.input)
        if not len(scan):
            return Outcome(given, ())
        things = observed(scan)
        whole, scan = scan, things.scan
        found = candidates(scan, book, self._settings)
        rows, ignored = self._known_rows(scan, found, book)
        forgotten_ns = np.where(rows == NONE, NEVER, book.state['forgotten_ns'][rows])
        swallowed = (forgotten_ns >= scan.stamp_ns) | ignored
        new = np.flatnonzero((rows == NONE) & ~ignored)
        for place in new.tolist():
            rows[place] = self._begin(scan, place, book)
        for place in np.flatnonzero((forgotten_ns != NEVER) & ~swallowed).tolist():
            book.revive(int(rows[place]))
        taken = np.flatnonzero(~swallowed & ~book.state['held'][rows])
        items = self._update.take(scan, things.votes, taken, rows, book)
        numbers = np.where(ignored, 0, book.state['number'][rows])
        given[whole.indices] = numbers[things.of]
        receipts = [scan_receipt(scan, rows, new, found, items, book)]
        merged = self._merge(scan, found, rows, book)
        if len(new):
            book.trim_tentative(self._settings.tentative_max)
        receipts += merged.receipts
        return Outcome(given, [*items, *merged.items], merged.endings, receipts, rows[taken])

    def _known_rows(self, scan: Scan, found: Candidates, book: LandmarkMap) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the row of the landmark that each belongs to, or `NONE`; and what is one too many."""
        rows = np.full(len(scan), NONE, dtype=np.int64)
        named = np.array([bool(name) for name in scan.instances], dtype=bool)
        ignored = np.zeros(len(scan), dtype=bool)
        for place in np.flatnonzero(named).tolist():
            row = book.row_of(scan.instances[place])
            rows[place] = NONE if row is None else row
        if self._unique:
            for label in sorted(self._unique.intersection(scan.labels)):
                named |= self._find_unique(label, scan, rows, ignored, named, book)
        free = np.flatnonzero(~named)
        if len(free):
            rows[free] = assigned(found, ~named, book)[free]
        return rows, ignored

    @staticmethod
    def _find_unique(
        label: str,
        scan: Scan,
        rows: Rows,
        ignored: NDArray[np.bool_],
        named: NDArray[np.bool_],
        book: LandmarkMap,
    ) -> NDArray[np.bool_]:
        """Find the one thing of a label; of several detections the best one is it."""
        here = np.array([name == label for name in scan.labels], dtype=bool) & ~named
        places = np.flatnonzero(here)
        if len(places):
            best = places[np.argmax(scan.scores[places])]
            row = book.unique_row(label)
            rows[best] = NONE if row is None else row
            ignored[places[places != best]] = True
        return here

    def _begin(self, scan: Scan, place: int, book: LandmarkMap) -> int:
        label, key = scan.labels[place], scan.instances[place]
        digits = KEY_DIGITS
        while not key or (key in book and not scan.instances[place]):
            key = landmark_key(
                label, scan.input, scan.stamp_ns, scan.digest, int(scan.indices[place]), digits
            )
            digits += 1
        has_instance = bool(scan.instances[place]) or label in self._unique
        return book.add(key, label, has_instance=has_instance, source=scan.input)

    def _merge(self, scan: Scan, found: Candidates, rows: Rows, book: LandmarkMap) -> Outcome:
        """Make one of landmarks that prove to be one."""
        items: list[MemoryItem] = []
        endings: list[Ending] = []
        receipts: list[Receipt] = []
        for proof in proofs(scan, found, rows, book, self._settings):
            state = book.state
            if state['merged_into'][proof.gone] or state['merged_into'][proof.kept]:
                continue
            ending = join(proof.gone, proof.kept, scan.stamp_ns, book, self._settings)
            endings += [ending] if ending else []
            items += self._update.written(scan, np.array([proof.kept]), book)
            receipts.append(merge_receipt(scan, proof, book))
        return Outcome(rows, items, endings, receipts)
