"""Whether a thing that was found gone, and one like it that appeared elsewhere, are one that moved.

Places and labels alone do not prove that two things are one. It is taken for proved when the old
place was observed empty, and there is a single candidate on both sides: of one label, one landmark
was found gone and one began, after the other was last seen, both within a minute. Then it
keeps its key, and has two places in its history. In all other cases the new one is a new landmark.
Things that are known by name, and those of a label that is declared unique, are found by that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.existence.absence import logit
from hylo_memory_ros.perception.map.columns import NEVER
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import MOVED_WITHIN_S, LandmarkSettings

__all__ = ['Displacement', 'displace', 'displacements']

Rows = NDArray[np.int64]

_MOVED = (
    *('mean', 'covariance', 'extent', 'score', 'prior_information', 'prior_vector', 'slot'),
    *('n', 'since_ns', 'last_ns', 'existence', 'evidence', 'viewpoint', 'misses', 'stale', 'source'),
    *('rotation', 'rotation_n', 'flipped', 'flipped_n'),
)


class Displacement(NamedTuple):
    """One thing at two places, one after the other."""

    before: int
    """Row of the landmark that was found gone, and goes on."""
    after: int
    """Row of the one that began elsewhere, and proved to be the same."""


def displacements(stamp_ns: int, book: LandmarkMap, settings: LandmarkSettings) -> list[Displacement]:
    """Return what has moved, by all that is known at a stamp."""
    window_ns = round(MOVED_WITHIN_S * 1e9)
    gone = _gone(stamp_ns - window_ns, book, settings)
    if not len(gone):
        return []
    state, there = book.state, _there(stamp_ns - 2 * window_ns, book)
    found = []
    by_label: dict[str, list[int]] = {}
    for row in gone.tolist():
        by_label.setdefault(book.labels[row], []).append(row)
    for label in sorted(by_label):
        before, *others = by_label[label]
        new = [row for row in there.tolist() if book.labels[row] == label]
        new = [row for row in new if _began_after(state, row, before, window_ns)]
        if not others and len(new) == 1 and state['written_ns'][new[0]] != NEVER:
            found.append(Displacement(before, new[0]))
    return found


def _gone(since_ns: int, book: LandmarkMap, settings: LandmarkSettings) -> Rows:
    """Return rows of what was found gone since a stamp."""
    if book.newest_forgotten_ns < since_ns:
        return np.empty(0, dtype=np.int64)
    state = book.state
    rows = np.flatnonzero(state['forgotten_ns'][: len(book.keys)] >= since_ns)
    gone = _is_plain(rows, book) & (state['written_ns'][rows] != NEVER)
    found: Rows = rows[gone & (state['existence'][rows] < logit(settings.gone_below))]
    return found


def _there(since_ns: int, book: LandmarkMap) -> Rows:
    """Return rows of what began since a stamp, and is there."""
    state = book.state
    rows = np.flatnonzero(state['first_ns'][: len(book.keys)] >= since_ns)
    there = _is_plain(rows, book) & (state['forgotten_ns'][rows] == NEVER)
    found: Rows = rows[there & ~(state['pinned'][rows] | state['held'][rows])]
    return found


def _is_plain(rows: Rows, book: LandmarkMap) -> NDArray[np.bool_]:
    state = book.state
    plain: NDArray[np.bool_] = state['live'][rows] & ~state['has_instance'][rows]
    plain &= state['merged_into'][rows] == 0
    return plain


def _began_after(state: NDArray[np.void], row: int, before: int, window_ns: int) -> bool:
    first_ns = int(state['first_ns'][row])
    close = abs(first_ns - int(state['forgotten_ns'][before])) <= window_ns
    return close and first_ns > int(state['last_ns'][before])


def displace(one: Displacement, stamp_ns: int, book: LandmarkMap, *, ended: bool) -> None:
    """Let the landmark that was found gone go on at the place of the other.

    Parameters
    ----------
    ended : bool
        Whether its end was said: then it is elsewhere from there on, not before.
    """
    state = book.state
    before, after = one
    ended_ns = int(state['forgotten_ns'][before])
    book.restart(before)
    for name in _MOVED:
        state[name][before] = state[name][after]
    if ended:
        state['since_ns'][before] = max(int(state['since_ns'][before]), ended_ns)
    state['observations'][before] += state['observations'][after]
    state['forgotten_ns'][before] = NEVER
    state['reported'][before] = 0
    book.merge(after, before, stamp_ns)
    book.place(np.array([before]))
