"""Handlers of maps: `~/set_map` and `~/correct_map`, after a loop closure or a relocalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from geometry_msgs.msg import Transform as TransformMsg
from nav_msgs.msg import Path

from hylo_memory_ros.errors import InvalidRequestError, UnknownFrameError
from hylo_memory_ros.model import CorrectionResult, normalize_frame
from hylo_memory_ros.model.pose import MAX_COORDINATE_M
from hylo_memory_ros.perception import RigidCorrection, Trajectory
from hylo_memory_ros.ros.convert.fields import checked_text, stamp_ns
from hylo_memory_ros.ros.services.registration import Handlers, service
from hylo_memory_ros.srv import CorrectMap, SetMap
from hylo_memory_ros.transforms import Transform

_ACTOR = 'correct_map'
_UNIT_TOLERANCE = 1e-2


class MapHandlers(Handlers):
    """Services that switch and move maps: ``set_map``, ``correct_map``."""

    @service(SetMap)
    async def set_map(self, request: SetMap.Request, response: SetMap.Response) -> SetMap.Response:
        """Switch to another map."""
        return await self.context.writer.do(lambda: self._set_map(request, response))

    @service(CorrectMap)
    async def correct_map(
        self, request: CorrectMap.Request, response: CorrectMap.Response
    ) -> CorrectMap.Response:
        """Move a map, or revert a correction."""
        return await self.context.writer.do(lambda: self._correct(request, response))

    def _set_map(self, request: SetMap.Request, response: SetMap.Response) -> SetMap.Response:
        map_id = checked_text(request.map_id, 'map_id')
        if not map_id:
            raise InvalidRequestError("map_id: '' names no map", field='map_id')
        response.previous = self.memory.set_map(map_id, create=request.create)
        if response.previous != map_id:
            self.context.perception.set_map(map_id)
            self.context.pending.finish('the map was switched')
            self.context.transforms.clear()
        return response

    def _correct(self, request: CorrectMap.Request, response: CorrectMap.Response) -> CorrectMap.Response:
        revert_id = checked_text(request.revert_id, 'revert_id')
        if revert_id:
            self._reject_others(request)
            result = self.context.perception.revert(revert_id, _ACTOR, request.dry_run)
        else:
            map_id = checked_text(request.map_id, 'map_id') or None
            result = self.context.perception.correct(
                self._correction(request), map_id, _ACTOR, request.dry_run
            )
        return _fill(response, result)

    @staticmethod
    def _reject_others(request: CorrectMap.Request) -> None:
        for name, given in (('path', bool(request.path.poses)), ('map_id', bool(request.map_id))):
            if given:
                raise InvalidRequestError(
                    f'{name}: given beside revert_id, which names map and motion already', field=name
                )

    def _correction(self, request: CorrectMap.Request) -> RigidCorrection | Trajectory:
        if request.path.poses:
            return path_of(request.path, self.context.config.global_frame)
        return rigid_of(request.new_from_old)


def rigid_of(transform: TransformMsg) -> RigidCorrection:
    """Return the motion of a ``geometry_msgs/Transform``.

    Raises
    ------
    InvalidRequestError
        If a number is not finite or the rotation no unit quaternion, or it moves nothing.
    """
    step, turn = transform.translation, transform.rotation
    translation = step.x, step.y, step.z
    rotation = turn.x, turn.y, turn.z, turn.w
    if not all(abs(part) <= MAX_COORDINATE_M for part in translation):
        raise InvalidRequestError(
            f'new_from_old.translation: {translation} is not finite, or beyond {MAX_COORDINATE_M:g} m',
            field='new_from_old.translation',
        )
    square = sum(part * part for part in rotation)
    if not abs(square - 1.0) <= _UNIT_TOLERANCE:
        raise InvalidRequestError(
            f'new_from_old.rotation: {rotation} expected a unit quaternion x y z w',
            field='new_from_old.rotation',
        )
    if not any(translation) and not any(rotation[:3]):
        raise InvalidRequestError(
            'new_from_old: moves nothing; give it, a path or a revert_id', field='new_from_old'
        )
    scale = 1.0 / math.sqrt(square)
    x, y, z, w = (part * scale for part in rotation)
    return RigidCorrection(Transform(translation, (x, y, z, w)))


def path_of(path: Path, global_frame: str) -> Trajectory:
    """Return the trajectory of a ``nav_msgs/Path``.

    Raises
    ------
    InvalidRequestError
        If a stamp or a number is invalid; it names the pose.
    UnknownFrameError
        If it is not in the global frame.
    """
    _check_frame(path.header.frame_id, global_frame, 'path.header.frame_id')
    stamps = []
    for index, pose in enumerate(path.poses):
        field = f'path.poses[{index}].header'
        if pose.header.frame_id:
            _check_frame(pose.header.frame_id, global_frame, f'{field}.frame_id')
        at_ns = stamp_ns(pose.header.stamp, f'{field}.stamp')
        if at_ns is None:
            raise InvalidRequestError(f'{field}.stamp: zero; each pose needs its own', field=f'{field}.stamp')
        stamps.append(at_ns)
    places = [pose.pose for pose in path.poses]
    positions = [_parts(place.position, 'xyz') for place in places]
    return Trajectory.of(stamps, positions, [_parts(place.orientation, 'xyzw') for place in places])


def _parts(message: Any, names: str) -> Sequence[float]:
    return [getattr(message, name) for name in names]


def _check_frame(given: str, global_frame: str, field: str) -> None:
    try:
        frame_id = normalize_frame(checked_text(given, field))
    except ValueError as exc:
        raise InvalidRequestError(f'{field}: {exc}', field=field) from exc
    if frame_id != global_frame:
        raise UnknownFrameError(
            f'{field}: {frame_id!r} is not {global_frame!r}, the frame that maps are in', field=field
        )


def _fill(response: CorrectMap.Response, result: CorrectionResult) -> CorrectMap.Response:
    response.correction_id = result.correction_id
    response.moved, response.merged, response.split = result.moved, result.merged, result.split
    response.sequence = result.sequence
    response.message = result.remark
    return response
