"""What a correction does to a statement that has a place: position, orientation and covariance move."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import ValidationError

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.landmarks.trajectory import Correction
from hylo_memory_ros.model import Pose
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
    found = []
    for row, one in enumerate(placed):
        new_from_old = motions.transform(row)
        pose = one.pose
        values = {
            'frame_id': pose.frame_id,
            'position': tuple(positions[row].tolist()),
            'orientation': pose.orientation and new_from_old.orientation(pose.orientation),
            'covariance': pose.covariance and new_from_old.covariance(pose.covariance),
            'stamp_ns': pose.stamp_ns,
        }
        try:
            found.append(Pose(**values))
        except ValidationError as exc:
            raise InvalidRequestError(
                f'new_from_old: moves {one.key or one.kind!r} from {pose.position} to {values["position"]}, '
                'which is no coordinate',
                field='new_from_old',
            ) from exc
    return found


def _stamp(one: Placed) -> int:
    return one.valid_from_ns if one.pose.stamp_ns is None else one.pose.stamp_ns
