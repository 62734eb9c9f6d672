"""Which landmark is it? The interface, and the simplest answer that is right.

An `Association` is given one scan after the other, in their order, and keeps a `LandmarkBook`
up to date. What it decides may depend on nothing but the scans and the book: the same scans
give the same book, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from hylo_memory_ros.landmarks.book import LandmarkBook
from hylo_memory_ros.landmarks.columns import NEVER
from hylo_memory_ros.landmarks.fusion import RunningMean
from hylo_memory_ros.landmarks.landmark import KEY_DIGITS, landmark_key
from hylo_memory_ros.landmarks.scan import Scan
from hylo_memory_ros.landmarks.settings import LandmarkSettings
from hylo_memory_ros.model import MemoryItem

__all__ = ['NONE', 'Association', 'NearestAssociation', 'Outcome', 'nearest_rows']

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

NONE = -1
"""In a column of rows: no landmark."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What became of a scan."""

    landmarks: NDArray[np.int64]
    """Number of the landmark that each detection of the message was given to, 0 for none."""
    items: Sequence[MemoryItem]
    """Statements to be written, in their order."""


class Association(Protocol):
    """Gives detections to landmarks, and makes new ones."""

    def observe(self, scan: Scan, book: LandmarkBook) -> Outcome:
        """Take one scan into the book."""
        ...


class NearestAssociation:
    """The nearest landmark of the same label inside the gate, one to one within a message.

    The assignment minimises the sum of squared distances, where leaving a detection without a
    landmark costs the squared gate. Positions are running means. Things that the input names
    itself are found by that name, wherever they are; one that is suddenly outside the gate
    begins a new estimate, which is written once it is confirmed again.

    A forgotten landmark takes only what was observed up to the forget, and comes to nothing.

    Parameters
    ----------
    settings : LandmarkSettings
        Gates, confirmation, displacement.
    """

    def __init__(self, settings: LandmarkSettings) -> None:
        self._settings = settings
        self._fusion = RunningMean(settings)

    def observe(self, scan: Scan, book: LandmarkBook) -> Outcome:
        """Take one scan into the book."""
        given = np.zeros(scan.size, dtype=np.int64)
        book.keyframes.advance(scan.stamp_ns, scan.global_from_base)
        if not len(scan):
            return Outcome(given, ())
        rows = self._known_rows(scan, book)
        held_ns = np.where(rows == NONE, NEVER, book.state['forgotten_ns'][rows])
        swallowed = held_ns >= scan.stamp_ns
        new = np.flatnonzero(rows == NONE)
        for place in new.tolist():
            rows[place] = self._begin(scan, place, book)
        for place in np.flatnonzero((held_ns != NEVER) & ~swallowed).tolist():
            book.revive(int(rows[place]))
        items = self._fusion.update(scan, np.flatnonzero(~swallowed), rows, book)
        given[scan.indices] = book.state['number'][rows]
        if len(new):
            book.trim_tentative(self._settings.tentative_max)
        return Outcome(given, items)

    @staticmethod
    def _known_rows(scan: Scan, book: LandmarkBook) -> Rows:
        """Return the row of the landmark that each detection belongs to, or `NONE`."""
        rows = np.full(len(scan), NONE, dtype=np.int64)
        by_label: dict[str, list[int]] = {}
        for place, (label, name) in enumerate(zip(scan.labels, scan.instances, strict=True)):
            if name:
                row = book.row_of(name)
                rows[place] = NONE if row is None else row
            else:
                by_label.setdefault(label, []).append(place)
        for label, places in by_label.items():
            rows[places] = nearest_rows(label, scan.positions[places], scan.gate_m, scan.stamp_ns, book)
        return rows

    @staticmethod
    def _begin(scan: Scan, place: int, book: LandmarkBook) -> int:
        label, key = scan.labels[place], scan.instances[place]
        digits = KEY_DIGITS
        while not key or (key in book and not scan.instances[place]):
            key = landmark_key(
                label, scan.input, scan.stamp_ns, scan.digest, int(scan.indices[place]), digits
            )
            digits += 1
        return book.add(key, label, has_instance=bool(scan.instances[place]))


def nearest_rows(label: str, points: Array, gate_m: float, stamp_ns: int, book: LandmarkBook) -> Rows:
    """Return the landmark of each point: one to one, nearest in sum, inside the gate.

    Parameters
    ----------
    label : str
        Label of all points.
    points : ndarray, shape (n, 3)
        Metres, in the global frame.
    gate_m : float
        Largest distance, metres; the boundary belongs to it.
    stamp_ns : int
        When they were observed: later than that, a forgotten landmark takes nothing.

    Returns
    -------
    ndarray of int, shape (n,)
        Rows of the book, or `NONE`. Of two landmarks at one distance it is the one whose key
        comes first.
    """
    found = np.full(len(points), NONE, dtype=np.int64)
    of_point, of_row = book.near(label, points)
    step = points[of_point] - book.state['mean'][of_row]
    squared = step[:, 0] * step[:, 0] + step[:, 1] * step[:, 1] + step[:, 2] * step[:, 2]
    forgotten_ns = book.state['forgotten_ns'][of_row]
    inside = (squared <= gate_m * gate_m) & ((forgotten_ns == NEVER) | (stamp_ns <= forgotten_ns))
    of_point, of_row, squared = of_point[inside], of_row[inside], squared[inside]
    if not len(of_row):
        return found
    rows = np.array(sorted(set(of_row.tolist()), key=book.keys.__getitem__), dtype=np.int64)
    rank = np.empty(len(book.keys), dtype=np.int64)
    rank[rows] = np.arange(len(rows))
    column = rank[of_row]
    wanted_twice = np.bincount(column, minlength=len(rows)) > 1
    contested = np.zeros(len(points), dtype=bool)
    contested[of_point[wanted_twice[column]]] = True
    alone = ~contested[of_point]
    order = np.lexsort((column[alone], squared[alone], of_point[alone]))
    first = np.unique(of_point[alone][order], return_index=True)
    found[first[0]] = rows[column[alone][order][first[1]]]
    if contested.any():
        _assign(of_point[~alone], column[~alone], squared[~alone], gate_m, found, rows)
    return found


def _assign(of_point: Rows, column: Rows, squared: Array, gate_m: float, found: Rows, rows: Rows) -> None:
    points, place = np.unique(of_point, return_inverse=True)
    columns, at = np.unique(column, return_inverse=True)
    # Going without a landmark costs the squared gate; without that, a far pair could push a
    # near one apart just to have everything assigned.
    cost = np.full((len(points), len(columns) + len(points)), gate_m * gate_m)
    cost[:, : len(columns)] = np.inf
    cost[place, at] = squared
    for point, chosen in zip(*linear_sum_assignment(cost), strict=True):
        if chosen < len(columns):
            found[points[point]] = rows[columns[chosen]]
