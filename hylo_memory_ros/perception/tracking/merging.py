"""Landmarks that prove to be one: near each other, and never seen beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.ingestion.scan import Scan
from hylo_memory_ros.perception.map.columns import NEVER
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.fusion import refuse
from hylo_memory_ros.perception.tracking.gating import Candidates, sizes_agree, squared_gate
from hylo_memory_ros.perception.tracking.localization_error import common_mode
from hylo_memory_ros.perception.tracking.sym3 import mahalanobis

__all__ = ['Ending', 'Proof', 'join', 'proofs']

Rows = NDArray[np.int64]

# Of two estimates of one place, this share lies nearer than the gate.
_PROBABILITY = 0.999
# How many messages with one of two it takes to outweigh one with both: a stray detection beside a
# thing proves little, but two things that are found half the time are found together half of that.
_BESIDE = 10
_LEAST = -1000
# Messages with one of two near landmarks, and hardly ever both, that prove them to be one.
_MERGE_N = 5


class Proof(NamedTuple):
    """Two landmarks that are one."""

    gone: int
    """Row of the younger one."""
    kept: int
    """Row of the older one."""
    distance_m: float
    """Between them."""
    squared: float
    """Squared Mahalanobis distance between them."""


def proofs(
    scan: Scan, found: Candidates, rows: Rows, book: LandmarkMap, settings: LandmarkSettings
) -> list[Proof]:
    """Take notice of what a scan says of landmarks that are near each other.

    That both were seen in it, beside each other, speaks for two. That only one was, and might as
    well have been the other, speaks for one; after five such messages they are one, if
    they are near each other.

    Parameters
    ----------
    found : Candidates
        Pairs inside the gates.
    rows : ndarray of int
        Row of the landmark that each observation was given to.
    """
    taken = rows[found.point]
    others = np.flatnonzero(taken != found.row)
    if not len(others):
        return []
    mine, other = taken[others], found.row[others]
    # A pair may be met from both sides.
    number = book.state['number']
    younger = np.where(number[mine] > number[other], mine, other)
    older = np.where(number[mine] > number[other], other, mine)
    beside = np.isin(other, rows)
    pairs: dict[tuple[int, int], bool] = {}
    for gone, kept, both in zip(younger.tolist(), older.tolist(), beside.tolist(), strict=True):
        pairs[gone, kept] = both or pairs.get((gone, kept), False)
    suspects = [pair for pair, both in pairs.items() if _weigh(*pair, both, book) >= _MERGE_N]
    return _proved(scan, sorted(suspects), book, settings)


def _weigh(gone: int, kept: int, both: bool, book: LandmarkMap) -> int:
    """Take a message into what speaks for two being one, and return that."""
    state = book.state[gone]
    number = int(book.state['number'][kept])
    rivals = state['rivals'].tolist()
    if number in rivals:
        place = rivals.index(number)
    else:
        # The one of which least is known leaves.
        place = int(np.argmin(np.abs(state['rivalry'])))
        state['rivals'][place], state['rivalry'][place] = number, 0
    weighed = int(state['rivalry'][place]) + (-_BESIDE if both else 1)
    state['rivalry'][place] = max(weighed, _LEAST)
    state['dirty'] = True
    return weighed


def _proved(
    scan: Scan, suspects: list[tuple[int, int]], book: LandmarkMap, settings: LandmarkSettings
) -> list[Proof]:
    """Return those that are also near each other, for all that is known of where they are."""
    if not suspects:
        return []
    state = book.state
    gone, kept = np.array(suspects, dtype=np.int64).T
    free = (state['forgotten_ns'][gone] == NEVER) & (state['forgotten_ns'][kept] == NEVER)
    for name in ('has_instance', 'pinned', 'held'):
        free &= ~(state[name][gone] | state[name][kept])
    free &= sizes_agree(state['extent'][gone], state['extent'][kept])
    gone, kept = gone[free], kept[free]
    if not len(gone):
        return []
    step = state['mean'][gone] - state['mean'][kept]
    # Estimates of many sightings are surer of themselves than localisation is over a while.
    spread = state['covariance'][gone] + state['covariance'][kept]
    spread = spread + common_mode(state['mean'][kept], scan.global_from_base, settings)
    squared = mahalanobis(step, spread)
    distance = np.sqrt((step * step).sum(axis=1))
    near = np.flatnonzero(squared <= squared_gate(_PROBABILITY, scan.dof)).tolist()
    return [
        Proof(int(gone[place]), int(kept[place]), float(distance[place]), float(squared[place]))
        for place in near
    ]


@dataclass(frozen=True, slots=True)
class Ending:
    """The item of a landmark that holds no longer."""

    key: str
    """Key of the landmark."""
    at_ns: int
    """Since when, nanoseconds."""
    reason: str
    """Why, such as ``merged into cup/6e71a7b059ab``."""
    merged_into: str = ''
    """Key of the landmark that it proved to be; empty: none."""


def join(gone: int, kept: int, at_ns: int, book: LandmarkMap, settings: LandmarkSettings) -> Ending | None:
    """Make one landmark of two; return the ending of the item that is no longer wanted, if any.

    Parameters
    ----------
    gone, kept : int
        Rows of the younger one, and of the one that it is from now on.
    at_ns : int
        Stamp of the message that proved it, or of the request.
    """
    state = book.state
    for label, score in book.scores[gone].items():
        book.scores[kept][label] = book.scores[kept].get(label, 0.0) + score
    for name, choose in (('first_ns', min), ('last_ns', max), ('since_ns', min)):
        state[name][kept] = choose(int(state[name][kept]), int(state[name][gone]))
    state['observations'][kept] += state['observations'][gone]
    book.merge(gone, kept, at_ns)
    if not (state['pinned'][kept] or state['held'][kept]):
        refuse(kept, book, settings)
    if state['written_ns'][gone] == NEVER:
        return None
    key = book.keys[kept]
    return Ending(book.keys[gone], max(at_ns, int(state['written_ns'][gone])), f'merged into {key}', key)
