"""Duplicate detections within a message: two labels of one thing, or two overlapping boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.ingestion.observation import Scan
from hylo_memory_ros.perception.tracking.gating import sizes_agree, squared_gate
from hylo_memory_ros.perception.tracking.sym3 import mahalanobis, rotation_matrix

__all__ = ['DistinctDetections', 'merge_duplicates']

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

# Of two detections of one thing, this share lies nearer than the gate.
_PROBABILITY = 0.95
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
    within = mahalanobis(step, noise) <= squared_gate(_PROBABILITY, scan.dof)
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
    doubles: dict[int, set[int]] = {}
    for a, b in zip(first.tolist(), second.tolist(), strict=True):
        doubles.setdefault(a, set()).add(b)
        doubles.setdefault(b, set()).add(a)
    of = np.arange(len(scan))
    # A chain of doubles is no double: each is compared with what stands, best first.
    stands: set[int] = set()
    for row in sorted(doubles, key=lambda row: (-scan.scores[row], row)):
        over = doubles[row] & stands
        if over:
            of[row] = min(over, key=lambda other: (-scan.scores[other], other))
        else:
            stands.add(row)
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
