"""Merging of duplicates: detections within a message, and landmarks that prove to be one.

Duplicate detections are two labels of one thing, or two overlapping boxes. Landmarks are merged when
they are near each other and are never seen side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.ingestion.observation import Scan
from hylo_memory_ros.perception.map.landmark import NEVER, LandmarkEnding
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.fusion import reestimate
from hylo_memory_ros.perception.tracking.gating import (
    Candidates,
    localization_covariance,
    sizes_agree,
    squared_gate,
)
from hylo_memory_ros.perception.tracking.sym3 import mahalanobis, rotation_matrix

Rows = NDArray[np.int64]

# Of two estimates of one place, this share lies nearer than the gate.
_MERGE_PROBABILITY = 0.999
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
    # Estimates of many sightings are surer of themselves than localization is over a while.
    spread = state['covariance'][gone] + state['covariance'][kept]
    levers = state['mean'][kept] - np.array(scan.global_from_base.translation)
    spread = spread + localization_covariance(levers, settings)
    squared = mahalanobis(step, spread)
    distance = np.sqrt((step * step).sum(axis=1))
    near = np.flatnonzero(squared <= squared_gate(_MERGE_PROBABILITY, scan.dof)).tolist()
    return [
        MergeProof(int(gone[place]), int(kept[place]), float(distance[place]), float(squared[place]))
        for place in near
    ]


def merge_landmarks(
    gone: int, kept: int, at_ns: int, landmarks: LandmarkMap, settings: LandmarkSettings
) -> LandmarkEnding | None:
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
    return LandmarkEnding(landmarks.keys[gone], at_ns, landmarks.map_id, f'merged into {key}', key)


Array = NDArray[np.float64]

# Of two detections of one thing, this share lies nearer than the gate.
_DUPLICATE_PROBABILITY = 0.95
# Boxes of one label whose intersection over union exceeds this are one thing.
_DUPLICATE_IOU = 0.7


class DistinctDetections(NamedTuple):
    """Detections of a message without duplicates."""

    scan: Scan
    """The scan with one row for each thing: its detection of the highest score."""
    of: Rows
    """Row of the thing that each detection of the whole scan belongs to."""
    votes: Sequence[Mapping[str, float]]
    """Scores by label of each thing."""


def merge_duplicates(scan: Scan) -> DistinctDetections:
    """Merge duplicate detections of a scan.

    Two detections are duplicates if their labels differ, their distance is explained by their noise and
    their sizes agree; or if their labels are equal and their boxes overlap by more than
    0.7. Instances that the input names are never merged.
    """
    alone = np.arange(len(scan))
    first, second = _pairs(scan)
    if not len(first):
        return DistinctDetections(scan, alone, [{label: score} for label, score in _labelled(scan)])
    of = _representatives(scan, first, second)
    kept, index = np.unique(of, return_inverse=True)
    votes: list[dict[str, float]] = [{} for _ in kept]
    for thing, (label, score) in zip(index.tolist(), _labelled(scan), strict=True):
        votes[thing][label] = max(score, votes[thing].get(label, 0.0))
    return DistinctDetections(_part(scan, kept), index, votes)


def _labelled(scan: Scan) -> list[tuple[str, float]]:
    return list(zip(scan.labels, scan.scores.tolist(), strict=True))


def _pairs(scan: Scan) -> tuple[Rows, Rows]:
    """Return pairs of duplicates, the lower row first."""
    names = {label: number for number, label in enumerate(dict.fromkeys(scan.labels))}
    labels = np.array([names[label] for label in scan.labels], dtype=np.int64)
    named = np.array([bool(name) for name in scan.instances], dtype=bool)
    sized = np.isfinite(scan.extents.sum(axis=1))
    if len(names) < 2 and not sized.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    # No pair further apart than this can be one: 0.95 of a gate, or half the largest boxes.
    reach = np.maximum(scan.gate_m, np.where(sized, scan.extents.max(axis=1, initial=0.0), 0.0))
    order = np.argsort(scan.positions[:, 0], kind='stable')
    x = scan.positions[order, 0]
    ends = np.searchsorted(x, x + reach.max(initial=0.0), side='right')
    counts = np.maximum(ends - np.arange(len(x)) - 1, 0)
    left = np.repeat(np.arange(len(x)), counts)
    right = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts) + left + 1
    first, second = np.minimum(order[left], order[right]), np.maximum(order[left], order[right])
    step = scan.positions[first] - scan.positions[second]
    near = (step * step).sum(axis=1) <= scan.gate_m**2
    free = ~(named[first] | named[second])
    same = labels[first] == labels[second]
    found = np.zeros(len(first), dtype=bool)
    other = np.flatnonzero(free & ~same & near)
    found[other] = _confusable(scan, first[other], second[other], step[other])
    boxed = np.flatnonzero(free & same & sized[first] & sized[second])
    found[boxed] = _overlap(scan, first[boxed], second[boxed], step[boxed]) > _DUPLICATE_IOU
    return first[found], second[found]


def _confusable(scan: Scan, first: Rows, second: Rows, step: Array) -> NDArray[np.bool_]:
    noise = scan.covariances[first] + scan.covariances[second]
    within = mahalanobis(step, noise) <= squared_gate(_DUPLICATE_PROBABILITY, scan.dof)
    alike: NDArray[np.bool_] = within & sizes_agree(scan.extents[first], scan.extents[second])
    return alike


def _overlap(scan: Scan, first: Rows, second: Rows, step: Array) -> Array:
    """Return the intersection over union of two boxes, along the axes of the message's frame."""
    axes = rotation_matrix(np.array([scan.global_from_sensor.rotation]))[0]
    offset = np.abs(np.stack([(step * axes[:, axis]).sum(axis=1) for axis in range(3)], axis=1))
    a, b = scan.extents[first], scan.extents[second]
    # A box that is flat in both has no thickness to compare.
    flat = (a == 0.0) & (b == 0.0)
    common = np.clip((a + b) / 2 - offset, 0.0, np.minimum(a, b))
    common, a, b = (np.where(flat, 1.0, part) for part in (common, a, b))
    shared = common.prod(axis=1)
    overlap: Array = shared / np.maximum(a.prod(axis=1) + b.prod(axis=1) - shared, 1e-300)
    return overlap


def _representatives(scan: Scan, first: Rows, second: Rows) -> Rows:
    """Return the representative of each detection: its best duplicate."""
    duplicates: dict[int, set[int]] = {}
    for a, b in zip(first.tolist(), second.tolist(), strict=True):
        duplicates.setdefault(a, set()).add(b)
        duplicates.setdefault(b, set()).add(a)
    of = np.arange(len(scan))
    # Duplicates are not transitive: each detection is compared with representatives, best first.
    representatives: set[int] = set()
    for row in sorted(duplicates, key=lambda row: (-scan.scores[row], row)):
        over = duplicates[row] & representatives
        if over:
            of[row] = min(over, key=lambda other: (-scan.scores[other], other))
        else:
            representatives.add(row)
    return of


def _part(scan: Scan, rows: Rows) -> Scan:
    return replace(
        scan,
        indices=scan.indices[rows],
        labels=[scan.labels[row] for row in rows.tolist()],
        instances=[scan.instances[row] for row in rows.tolist()],
        positions=scan.positions[rows],
        covariances=scan.covariances[rows],
        orientations=scan.orientations[rows],
        extents=scan.extents[rows],
        scores=scan.scores[rows],
    )
