"""What a correction does to a statement that has a place: position, orientation and covariance move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.frames import Transform
from hylo_memory_ros.frames.geometry import Quaternion, Vector
from hylo_memory_ros.landmarks.trajectory import Correction
from hylo_memory_ros.model import Pose
from hylo_memory_ros.model.pose import MAX_COORDINATE_M
from hylo_memory_ros.store.correction import Placed

__all__ = ['moved_poses']


def moved_poses(placed: Sequence[Placed], correction: Correction) -> list[Pose]:
    """Return the new pose of each statement, moved as the global frame was at its stamp.

    The stamp is that of the pose, else the time from which the statement is valid.

    Raises
    ------
    InvalidRequestError
        If something would be moved beyond all coordinates.
    """
    if not placed:
        return []
    stamps = np.array([_stamp(one) for one in placed], dtype=np.int64)
    motions = correction.at(stamps)
    positions = motions.positions(np.array([one.pose.position for one in placed]))
    turns = motions.rotation.as_quat().reshape(-1, 4).tolist()
    return [
        _moved(one, (x, y, z), (qx, qy, qz, qw))
        for one, (x, y, z), (qx, qy, qz, qw) in zip(placed, positions.tolist(), turns, strict=True)
    ]


def _moved(one: Placed, position: Vector, rotation: Quaternion) -> Pose:
    pose = one.pose
    if not max(map(abs, position)) <= MAX_COORDINATE_M:
        raise InvalidRequestError(
            f'new_from_old: moves {one.key or one.kind!r} from {pose.position} to {position}, '
            'which is no coordinate',
            field='new_from_old',
        )
    values: dict[str, Any] = {'frame_id': pose.frame_id, 'position': position, 'stamp_ns': pose.stamp_ns}
    if pose.orientation is not None or pose.covariance is not None:
        new_from_old = Transform((0.0, 0.0, 0.0), rotation)
        values['orientation'] = pose.orientation and new_from_old.orientation(pose.orientation)
        values['covariance'] = pose.covariance and new_from_old.covariance(pose.covariance)
    return Pose(**values)


def _stamp(one: Placed) -> int:
    return one.valid_from_ns if one.pose.stamp_ns is None else one.pose.stamp_ns
