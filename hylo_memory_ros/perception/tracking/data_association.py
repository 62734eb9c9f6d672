"""Data association: gating, one-to-one assignment, and the update of landmarks.

An `Association` receives one scan after the other in their order and updates a `LandmarkMap`. Its
decisions depend on nothing but the scans and the map: equal scans give an equal map, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.perception.ingestion.observation import Scan
from hylo_memory_ros.perception.map.landmark import KEY_DIGITS, NEVER, LandmarkEnding, landmark_key
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.receipts import Receipt, merge_receipt, scan_receipt
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.gating import Candidates, find_candidates
from hylo_memory_ros.perception.tracking.merging import find_merges, merge_duplicates, merge_landmarks
from hylo_memory_ros.perception.tracking.update import LandmarkUpdater

Array = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class AssociationResult:
    """Result of the data association of a scan."""

    landmarks: NDArray[np.int64]
    """Number of the landmark of each detection of the message, 0 for none."""
    items: Sequence[MemoryItem]
    """Statements to be written, in their order."""
    endings: Sequence[LandmarkEnding] = ()
    """Items to be ended after the statements are written."""
    receipts: Sequence[Receipt] = ()
    """Receipts of the decisions."""
    seen: NDArray[np.int64] | None = None
    """Rows of the landmarks that were observed; None: none was."""


class Association(Protocol):
    """Data association of detections with landmarks."""

    def observe(self, scan: Scan, landmarks: LandmarkMap) -> AssociationResult:
        """Update the landmarks with one scan."""


class GatedAssociation:
    """Global nearest neighbour association inside gates, one to one within a message.

    The assignment minimizes the sum of d^2 + ln|S|. Different labels add to the cost of a pair but do
    not exclude it: the label of a landmark is the one with the most votes. Instances that the input
    names, and labels declared unique, are found by name wherever they are; one outside the gate begins a
    new estimate, which is written once it is confirmed again.

    A forgotten landmark takes only detections up to the time of the forget, without effect. A held
    landmark takes all detections and does not change.

    Parameters
    ----------
    settings : LandmarkSettings
        Gates, uncertainty, confirmation, displacement.
    """

    def __init__(self, settings: LandmarkSettings) -> None:
        self._settings = settings
        self._unique = frozenset(settings.unique)
        self._update = LandmarkUpdater(settings)

    def observe(self, scan: Scan, landmarks: LandmarkMap) -> AssociationResult:
        """Update the landmarks with one scan."""
        given = np.zeros(scan.size, dtype=np.int64)
        before = len(landmarks.keyframes)
        if landmarks.keyframes.advance(scan.stamp_ns, scan.global_from_base) != before:
            landmarks.end_viewpoint()
        landmarks.count_chance(scan.input)
        if not len(scan):
            return AssociationResult(given, ())
        things = merge_duplicates(scan)
        whole, scan = scan, things.scan
        found = find_candidates(scan, landmarks, self._settings)
        rows, ignored = self._known_rows(scan, found, landmarks)
        forgotten_ns = np.where(rows == NONE, NEVER, landmarks.state['forgotten_ns'][rows])
        swallowed = (forgotten_ns >= scan.stamp_ns) | ignored
        new = np.flatnonzero((rows == NONE) & ~ignored)
        for place in new.tolist():
            rows[place] = self._begin(scan, place, landmarks)
        for place in np.flatnonzero((forgotten_ns != NEVER) & ~swallowed).tolist():
            landmarks.revive(int(rows[place]))
        taken = np.flatnonzero(~swallowed & ~landmarks.state['held'][rows])
        items = self._update.take(scan, things.votes, taken, rows, landmarks)
        numbers = np.where(ignored, 0, landmarks.state['number'][rows])
        given[whole.indices] = numbers[things.of]
        receipts = [scan_receipt(scan, rows, new, found, items, landmarks)]
        merged = self._merge(scan, found, rows, landmarks)
        if len(new):
            landmarks.trim_tentative(self._settings.tentative_max)
        receipts += merged.receipts
        return AssociationResult(given, [*items, *merged.items], merged.endings, receipts, rows[taken])

    def _known_rows(
        self, scan: Scan, found: Candidates, landmarks: LandmarkMap
    ) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the row of the landmark of each detection, or `NONE`, and flags of surplus detections."""
        rows = np.full(len(scan), NONE, dtype=np.int64)
        named = np.array([bool(name) for name in scan.instances], dtype=bool)
        ignored = np.zeros(len(scan), dtype=bool)
        for place in np.flatnonzero(named).tolist():
            row = landmarks.row_of(scan.instances[place])
            rows[place] = NONE if row is None else row
        if self._unique:
            for label in sorted(self._unique.intersection(scan.labels)):
                named |= self._find_unique(label, scan, rows, ignored, named, landmarks)
        free = np.flatnonzero(~named)
        if len(free):
            rows[free] = assign_landmarks(found, ~named, landmarks)[free]
        return rows, ignored

    @staticmethod
    def _find_unique(
        label: str,
        scan: Scan,
        rows: Rows,
        ignored: NDArray[np.bool_],
        named: NDArray[np.bool_],
        landmarks: LandmarkMap,
    ) -> NDArray[np.bool_]:
        """Assign the unique landmark of a label to the detection with the best score."""
        here = np.array([name == label for name in scan.labels], dtype=bool) & ~named
        places = np.flatnonzero(here)
        if len(places):
            best = places[np.argmax(scan.scores[places])]
            row = landmarks.unique_row(label)
            rows[best] = NONE if row is None else row
            ignored[places[places != best]] = True
        return here

    def _begin(self, scan: Scan, place: int, landmarks: LandmarkMap) -> int:
        label, key = scan.labels[place], scan.instances[place]
        digits = KEY_DIGITS
        while not key or (key in landmarks and not scan.instances[place]):
            key = landmark_key(
                label, scan.input, scan.stamp_ns, scan.digest, int(scan.indices[place]), digits
            )
            digits += 1
        has_instance = bool(scan.instances[place]) or label in self._unique
        return landmarks.add(key, label, has_instance=has_instance, source=scan.input)

    def _merge(self, scan: Scan, found: Candidates, rows: Rows, landmarks: LandmarkMap) -> AssociationResult:
        """Merge landmarks that prove to be one."""
        items: list[MemoryItem] = []
        endings: list[LandmarkEnding] = []
        receipts: list[Receipt] = []
        for proof in find_merges(scan, found, rows, landmarks, self._settings):
            state = landmarks.state
            if state['merged_into'][proof.gone] or state['merged_into'][proof.kept]:
                continue
            ending = merge_landmarks(proof.gone, proof.kept, scan.stamp_ns, landmarks, self._settings)
            endings += [ending] if ending else []
            items += self._update.written(scan, np.array([proof.kept]), landmarks)
            receipts.append(merge_receipt(scan, proof, landmarks))
        return AssociationResult(rows, items, endings, receipts)


NONE = -1
"""Row number for no landmark."""


def assign_landmarks(found: Candidates, free: NDArray[np.bool_], landmarks: LandmarkMap) -> Rows:
    """Return the landmark of each observation at the least total cost.

    Parameters
    ----------
    found : Candidates
        Pairs inside the gates, and what it costs to leave an observation without a landmark.
    free : ndarray of bool
        Observations that are to be assigned.

    Returns
    -------
    ndarray of int
        Rows of the landmarks, or `NONE`. At equal cost it is the landmark whose key comes first.
    """
    rows = np.full(len(free), NONE, dtype=np.int64)
    kept = free[found.point]
    point, row, cost = found.point[kept], found.row[kept], found.cost[kept]
    if not len(row):
        return rows
    ordered = np.array(sorted(set(row.tolist()), key=landmarks.keys.__getitem__), dtype=np.int64)
    rank = np.empty(len(landmarks.keys), dtype=np.int64)
    rank[ordered] = np.arange(len(ordered))
    column = rank[row]
    wanted_twice = np.bincount(column, minlength=len(ordered)) > 1
    contested = np.zeros(len(free), dtype=bool)
    contested[point[wanted_twice[column]]] = True
    alone = ~contested[point]
    order = np.lexsort((column[alone], cost[alone], point[alone]))
    first = np.unique(point[alone][order], return_index=True)
    rows[first[0]] = ordered[column[alone][order][first[1]]]
    if not alone.all():
        _contest(point[~alone], column[~alone], cost[~alone], found.none, rows, ordered)
    return rows


def _contest(point: Rows, column: Rows, cost: Array, none: Array, rows: Rows, ordered: Rows) -> None:
    points, place = np.unique(point, return_inverse=True)
    columns, at = np.unique(column, return_inverse=True)
    table = np.full((len(points), len(columns) + len(points)), np.inf)
    table[:, len(columns) :] = none[points][:, None]
    table[place, at] = cost
    for taken, chosen in zip(*linear_sum_assignment(table), strict=True):
        if chosen < len(columns):
            rows[points[taken]] = ordered[columns[chosen]]
