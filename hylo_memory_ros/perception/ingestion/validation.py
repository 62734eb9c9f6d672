"""Validation of messages and detections, and their transformation to the global frame.

============================  ============================================================
reason                        rule
============================  ============================================================
``not_finite``                a position or a score is not a finite number
``no_pose``                   the position is exactly zero: a detector without calibration
``below_score``               the score is below min_score of the input
``out_of_range``              outside the range limits of the input
``out_of_bounds``             further than 1e9 m from the origin of its or the global frame
``no_label``                  no class, or one that the label map of the input omits
``bad_label``                 a class that gives no valid key
``bad_instance``              an invalid instance name
``duplicate_instance``        a repeated instance in a message; the first one counts
``bad_covariance``            only the covariance is ignored: the default is used
``bad_score``                 only the score is changed: to the nearest one from 0 to 1
``bad_orientation``           only the orientation is ignored
``no_transform``              tf has no pose of this tag at the stamp
``camera_mismatch``           whole depth image: its CameraInfo is of another section
``zero_stamp``                whole message: its stamp is zero
``bad_stamp``                 whole message: its stamp is no valid time
``before_min_valid_stamp``    whole message: its stamp lies before min_valid_stamp
``ahead_of_clock``            whole message: its stamp lies ahead of the clock
``bad_frame``                 whole message: its frame name is invalid
============================  ============================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from hylo_memory_ros.model import MAX_STAMP_NS, normalize_frame, normalize_key
from hylo_memory_ros.model.pose import MAX_COORDINATE_M
from hylo_memory_ros.perception.ingestion.observation import Detections, Message, Scan
from hylo_memory_ros.perception.map.landmark import normalize_label
from hylo_memory_ros.perception.settings import InputSettings, LandmarkSettings
from hylo_memory_ros.perception.tracking.fusion import AXES, normalize_orientations
from hylo_memory_ros.perception.tracking.sym3 import determinant
from hylo_memory_ros.transforms import Transform

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Reject = Callable[[str, int], None]

# Detectors choose class names freely, so the number of names that are kept must be bounded.
_NAMES_KEPT = 4096
_VARIANCES = (0, 3, 5)
# A message stamped further ahead of the clock is refused: it would make all others late.
_MAX_AHEAD_S = 3600.0
# Limit of a singular covariance, relative to its variances or to the default.
_FLAT = 1e-3
# A real thing is detected at least half as often as expected.
_HIT_RATIO = 0.5
_UPPER = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


class DetectionValidator:
    """Validator of the messages of one input.

    Parameters
    ----------
    settings : InputSettings
        Labels, limits and default uncertainty of the input.
    reject : callable
        Called with a reason and how many detections it concerns.
    """

    def __init__(self, settings: InputSettings, reject: Reject) -> None:
        self._settings = settings
        self._reject = reject
        self._orientation_mode = settings.orientation_mode
        self._labels: dict[str, tuple[str, str]] = {}

    def validate(
        self, message: Message, global_from_sensor: Transform, global_from_base: Transform | None = None
    ) -> Scan:
        """Return the valid detections of a message in the global frame."""
        given = message.detections
        size = len(given)
        scores = np.ones(size) if given.scores is None else given.scores
        # Comparisons with NaN are false.
        bounded = np.where(np.abs(given.positions) <= MAX_COORDINATE_M, given.positions, 0.0)
        positions = global_from_sensor.positions(bounded)
        labels, reasons = self._label_columns(self._classes(given))
        kept = self._keep_measured(given.positions, scores, by_frame=given.frames is not None)
        kept = self._keep_near(kept, bounded, positions)
        for reason in ('no_label', 'bad_label'):
            kept = self._without(kept, np.array([found == reason for found in reasons], dtype=bool), reason)
        kept, instances = self._keep_instances(kept, given.instances)
        rows = np.flatnonzero(kept)
        if strange := int(np.count_nonzero((scores[rows] < 0.0) | (scores[rows] > 1.0))):
            self._reject('bad_score', strange)
        extents = np.full((size, 3), np.nan) if given.extents is None else given.extents
        sized = ((extents >= 0.0) & (extents <= MAX_COORDINATE_M)).all(axis=1) & (extents > 0.0).any(axis=1)
        return Scan(
            input=message.input,
            stamp_ns=message.stamp_ns,
            digest=message.digest,
            size=size,
            gate_m=self._settings.gate_m,
            hit_ratio=_HIT_RATIO * self._settings.detection_probability,
            global_from_sensor=global_from_sensor,
            global_from_base=global_from_base or global_from_sensor,
            indices=rows,
            labels=[labels[row] for row in rows.tolist()],
            instances=[instances[row] for row in rows.tolist()],
            positions=positions[rows],
            covariances=self._covariances(given.covariances, rows, global_from_sensor),
            orientations=self._orientations(given.orientations, rows, global_from_sensor),
            axis=AXES[self._settings.orientation_axis] if self._orientation_mode == 'axis' else None,
            extents=np.where(np.reshape(sized, (-1, 1)), extents, np.nan)[rows],
            scores=np.clip(scores, 0.0, 1.0)[rows],
            dof=2 if (bounded[:, 2] == 0.0).all() else 3,
        )

    def _keep_measured(self, given: Array, scores: Array, *, by_frame: bool) -> Flags:
        kept = np.ones(len(given), dtype=bool)
        kept = self._without(kept, ~(np.isfinite(given).all(axis=1) & np.isfinite(scores)), 'not_finite')
        missing = 'no_transform' if by_frame else 'no_pose'
        kept = self._without(kept, (given == 0.0).all(axis=1), missing)
        kept = self._without(kept, scores < self._settings.min_score, 'below_score')
        far_m = np.abs(given).max(axis=1, initial=0.0)
        return self._without(kept, far_m > MAX_COORDINATE_M, 'out_of_bounds')

    def _keep_near(self, kept: Flags, given: Array, positions: Array) -> Flags:
        settings = self._settings
        x, y, z = given.T
        range_m = np.sqrt(x * x + y * y + z * z)
        outside = (range_m < settings.min_range_m) | (range_m > settings.max_range_m)
        kept = self._without(kept, outside, 'out_of_range')
        far_m = np.abs(positions).max(axis=1, initial=0.0)
        return self._without(kept, far_m > MAX_COORDINATE_M, 'out_of_bounds')

    def _without(self, kept: Flags, refused: NDArray[Any], reason: str) -> Flags:
        """Exclude rejected detections, each counted under the first rule that it breaks."""
        refused = np.logical_and(kept, refused)
        if refused.any():
            self._reject(reason, int(refused.sum()))
            kept = np.logical_and(kept, ~refused)
        return kept

    def _classes(self, given: Detections) -> Sequence[str]:
        """Return the class of each detection; an instance with a label of its own is a class."""
        known = self._settings.labels
        if given.instances is None or not known:
            return given.labels
        pairs = zip(given.labels, given.instances, strict=True)
        return [name if name in known else kind for kind, name in pairs]

    def _label_columns(self, classes: Sequence[str]) -> tuple[list[str], list[str]]:
        known = self._labels
        found = [known.get(name) or self._learn(name) for name in classes]
        return [label for label, _ in found], [reason for _, reason in found]

    def _learn(self, name: str) -> tuple[str, str]:
        label = self._settings.label_of(name)
        normal = normalize_label(label)
        verdict = (normal, '') if normal else ('', 'bad_label' if label else 'no_label')
        if len(self._labels) >= _NAMES_KEPT:
            self._labels.clear()
        self._labels[name] = verdict
        return verdict

    def _keep_instances(self, kept: Flags, given: Sequence[str] | None) -> tuple[Flags, Sequence[str]]:
        if self._settings.instance is not None:
            given = [self._settings.instance] * len(kept)
        if given is None or not any(given):
            return kept, [''] * len(kept)
        instances = [_normal_key(name) if name else '' for name in given]
        kept = self._without(kept, np.array([name is None for name in instances]), 'bad_instance')
        seen: set[str] = set()
        twice = np.zeros(len(kept), dtype=bool)
        for row in np.flatnonzero(kept).tolist():
            name = instances[row]
            twice[row] = bool(name) and name in seen
            seen.add(name or '')
        return self._without(kept, twice, 'duplicate_instance'), [name or '' for name in instances]

    def _orientations(self, given: Array | None, rows: NDArray[np.int64], turn: Transform) -> Array:
        if self._orientation_mode == 'none':
            given = None
        known, bad = normalize_orientations(None if given is None else given[rows], len(rows))
        if bad.any():
            self._reject('bad_orientation', int(bad.sum()))
        there = np.isfinite(known).all(axis=1)
        if there.any():
            known[there] = (Rotation.from_quat(turn.rotation) * Rotation.from_quat(known[there])).as_quat()
        return known

    def _covariances(self, given: Array | None, rows: NDArray[np.int64], turn: Transform) -> Array:
        floor = self._settings.sigma_floor_m**2
        variance = max(self._settings.sigma_m**2, floor)
        covariances = np.tile([variance, 0.0, 0.0, variance, 0.0, variance], (len(rows), 1))
        if given is None or not len(rows):
            return covariances
        matrices = given[rows]
        unknown = (matrices == 0.0).all(axis=(1, 2)) | (matrices[:, 0, 0] == -1.0)
        bad = ~unknown & ~_is_covariance(matrices)
        if bad.any():
            self._reject('bad_covariance', int(bad.sum()))
        known = ~unknown & ~bad
        covariances[known] = _turned(matrices[known], turn)
        covariances[:, _VARIANCES] = np.maximum(covariances[:, _VARIANCES], floor)
        return self._invertible(covariances)

    def _invertible(self, covariances: Array) -> Array:
        """Widen covariances that are singular."""
        size = covariances[:, _VARIANCES].prod(axis=1)
        flat = determinant(covariances) <= _FLAT * size
        least = max(self._settings.sigma_floor_m, _FLAT * self._settings.sigma_m) ** 2
        covariances[np.ix_(flat, _VARIANCES)] += least
        return covariances


def _normal_key(name: str) -> str | None:
    try:
        return normalize_key(name, 'instance')
    except ValueError:
        return None


def _is_covariance(matrices: Array) -> Flags:
    """Return flags of finite, symmetric and positive semi-definite matrices."""
    finite = (np.abs(matrices) <= MAX_COORDINATE_M**2).all(axis=(1, 2))
    bounded = np.where(np.reshape(finite, (-1, 1, 1)), matrices, 0.0)
    variances = np.diagonal(bounded, axis1=1, axis2=2)
    size = np.abs(bounded).max(axis=(1, 2))[:, None, None]
    skew = np.abs(bounded - bounded.transpose(0, 2, 1)) <= 1e-6 * size
    bound = variances[:, :, None] * variances[:, None, :]
    correlated = bounded * bounded <= bound * (1.0 + 1e-6) + 1e-12 * size * size
    # Pairwise valid correlations may still be jointly impossible.
    whole = determinant(np.stack([bounded[:, i, j] for i, j in _UPPER], axis=1))
    together = whole >= -1e-6 * variances.prod(axis=1)
    ok: Flags = finite & (variances >= 0.0).all(axis=1) & (skew & correlated).all(axis=(1, 2)) & together
    return ok


def _turned(matrices: Array, turn: Transform) -> Array:
    """Return ``R C R^T`` by its upper triangle, as sums: the rounding of BLAS depends on the batch."""
    axes = Transform((0.0, 0.0, 0.0), turn.rotation).positions(np.eye(3)).T
    half = [row[0] * matrices[:, 0] + row[1] * matrices[:, 1] + row[2] * matrices[:, 2] for row in axes]
    parts = [
        axes[j, 0] * half[i][:, 0] + axes[j, 1] * half[i][:, 1] + axes[j, 2] * half[i][:, 2]
        for i, j in _UPPER
    ]
    return np.stack(parts, axis=1)


def find_violation(message: Message, settings: LandmarkSettings, now_ns: int) -> str:
    """Return the rule that a message breaks; empty: none.

    Parameters
    ----------
    now_ns : int
        The clock, nanoseconds; 0: it has not started.
    """
    stamp_ns = message.stamp_ns
    if stamp_ns == 0:
        return 'zero_stamp'
    if not 0 < stamp_ns <= MAX_STAMP_NS:
        return 'bad_stamp'
    if stamp_ns < settings.min_valid_stamp_s * 1e9:
        return 'before_min_valid_stamp'
    if now_ns and stamp_ns > now_ns + _MAX_AHEAD_S * 1e9:
        return 'ahead_of_clock'
    if message.needs_frame:
        try:
            normalize_frame(message.frame_id)
        except ValueError:
            return 'bad_frame'
    return ''
