"""Merging of landmarks that are near each other and are never seen side by side."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.ingestion.observation import Scan
from hylo_memory_ros.perception.map.landmark import NEVER, Ending
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.fusion import reestimate
from hylo_memory_ros.perception.tracking.gating import (
    Candidates,
    localisation_covariance,
    sizes_agree,
    squared_gate,
)
from hylo_memory_ros.perception.tracking.sym3 import mahalanobis

__all__ = ['MergeProof', 'find_merges', 'merge_landmarks']

Rows = NDArray[np.int64]

# Of two estimates of one place, this share lies nearer than the gate.
_PROBABILITY = 0.999
# Messages with only one of two near landmarks after which they are merged.
_MERGE_N = 5
# How many messages with one of two it takes to outweigh one with both: a stray detection beside a
# thing proves little, but two things that are found half the time are found together half of that.
_BESIDE = 10
_LEAST = -1000


class MergeProof(NamedTuple):
    """Two landmarks that are one thing."""

    gone: int
    """Row of the younger one."""
    kept: int
    """Row of the older one."""
    distance_m: float
    """Distance between them, metres."""
    squared: float
    """Squared Mahalanobis distance between them."""


def find_merges(
    scan: Scan, found: Candidates, rows: Rows, landmarks: LandmarkMap, settings: LandmarkSettings
) -> list[MergeProof]:
    """Update the evidence for neighbouring landmarks being one, and return those to be merged.

    A message with detections of both is evidence for two things. A message with one of them, whose
    detection was a candidate for the other too, is evidence for one; after five such messages
    they are merged, if they are near each other.

    Parameters
    ----------
    found : Candidates
        Pairs inside the gates.
    rows : ndarray of int
        Row of the landmark of each observation.
    """
    taken = rows[found.point]
    others = np.flatnonzero(taken != found.row)
    if not len(others):
        return []
    mine, other = taken[others], found.row[others]
    # A pair may be met from both sides.
    number = landmarks.state['number']
    younger = np.where(number[mine] > number[other], mine, other)
    older = np.where(number[mine] > number[other], other, mine)
    beside = np.isin(other, rows)
    pairs: dict[tuple[int, int], bool] = {}
    for gone, kept, both in zip(younger.tolist(), older.tolist(), beside.tolist(), strict=True):
        pairs[gone, kept] = both or pairs.get((gone, kept), False)
    suspects = [pair for pair, both in pairs.items() if _weigh(*pair, both, landmarks) >= _MERGE_N]
    return _proved(scan, sorted(suspects), landmarks, settings)


def _weigh(gone: int, kept: int, both: bool, landmarks: LandmarkMap) -> int:
    """Add the evidence of a message for a merge; return the sum."""
    state = landmarks.state[gone]
    number = int(landmarks.state['number'][kept])
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
    scan: Scan, suspects: list[tuple[int, int]], landmarks: LandmarkMap, settings: LandmarkSettings
) -> list[MergeProof]:
    """Return the pairs whose estimated positions agree."""
    if not suspects:
        return []
    state = landmarks.state
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
    spread = spread + localisation_covariance(state['mean'][kept], scan.global_from_base, settings)
    squared = mahalanobis(step, spread)
    distance = np.sqrt((step * step).sum(axis=1))
    near = np.flatnonzero(squared <= squared_gate(_PROBABILITY, scan.dof)).tolist()
    return [
        MergeProof(int(gone[place]), int(kept[place]), float(distance[place]), float(squared[place]))
        for place in near
    ]


def merge_landmarks(
    gone: int, kept: int, at_ns: int, landmarks: LandmarkMap, settings: LandmarkSettings
) -> Ending | None:
    """Merge two landmarks; return the ending of the item of the younger one, if it was written.

    Parameters
    ----------
    gone, kept : int
        Rows of the younger one, and of the one that it is from now on.
    at_ns : int
        Stamp of the message that proved it, or of the request.
    """
    state = landmarks.state
    for label, score in landmarks.scores[gone].items():
        landmarks.scores[kept][label] = landmarks.scores[kept].get(label, 0.0) + score
    for name, choose in (('first_ns', min), ('last_ns', max), ('since_ns', min)):
        state[name][kept] = choose(int(state[name][kept]), int(state[name][gone]))
    state['observations'][kept] += state['observations'][gone]
    landmarks.merge(gone, kept, at_ns)
    if not (state['pinned'][kept] or state['held'][kept]):
        reestimate(kept, landmarks, settings)
    if state['written_ns'][gone] == NEVER:
        return None
    key = landmarks.keys[kept]
    at_ns = max(at_ns, int(state['written_ns'][gone]))
    return Ending(landmarks.keys[gone], at_ns, landmarks.map_id, f'merged into {key}', key)
