"""Handlers of reports and edits of landmarks: `~/report_absent`, `~/edit_landmark`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from std_msgs.msg import Header

from hylo_memory_ros.errors import ClockError, FrameError, InvalidRequestError
from hylo_memory_ros.model import MAX_STAMP_NS, MemoryKind, MemoryQuery, normalize_frame
from hylo_memory_ros.model.pose import MAX_COORDINATE_M
from hylo_memory_ros.perception import AbsenceReport
from hylo_memory_ros.perception.edits import Edit, EditOp
from hylo_memory_ros.ros.convert.fields import checked_text, stamp_ns, texts
from hylo_memory_ros.ros.runtime.worker_pool import Settled
from hylo_memory_ros.ros.services.registration import Handlers, service
from hylo_memory_ros.srv import EditLandmark, ReportAbsent
from hylo_memory_ros.transforms import LATEST, Transform
from hylo_memory_ros.transforms.geometry import unit_quaternion

_OPS: dict[str, EditOp] = {
    'pin': 'pin', 'unpin': 'unpin', 'correct': 'correct', 'split': 'split', 'merge': 'merge',
    'attach': 'attach', 'detach': 'detach', 'delete': 'delete',
}  # fmt: skip
# Operations that each field is for.
_MEANT = {
    'pose': ('correct', 'detach'),
    'label': ('correct',),
    'receipt_id': ('split',),
    'frame_id': ('attach',),
}


class LandmarkHandlers(Handlers):
    """Services that report on and edit landmarks: ``report_absent``, ``edit_landmark``."""

    @service(ReportAbsent)
    async def report_absent(
        self, request: ReportAbsent.Request, response: ReportAbsent.Response
    ) -> ReportAbsent.Response:
        """Take the report that something was looked for and not found."""
        config = self.context.config
        where = self._transform_of(request.where.header, 'where')
        at_ns = stamp_ns(request.where.header.stamp, 'where.header.stamp') or LATEST
        observer = self._transform_of(request.observed_from.header, 'observed_from')
        if observer is None:
            observer = self.context.pending.submit(config.global_frame, config.base_frame, at_ns)
        await Settled(future for future in (where, observer) if future is not None)
        return await self.context.writer.do(lambda: self._report(request, response, where, observer))

    @service(EditLandmark)
    async def edit_landmark(
        self, request: EditLandmark.Request, response: EditLandmark.Response
    ) -> EditLandmark.Response:
        """Pin, correct, split, merge, attach or delete landmarks."""
        op = checked_text(request.op, 'op')
        if op not in _OPS:
            raise InvalidRequestError(f'op: {op!r}: expected one of {", ".join(_OPS)}', field='op')
        frame_id = _frame(request.pose.header.frame_id, 'pose.header.frame_id')
        given = {
            'pose': frame_id,
            'label': checked_text(request.label, 'label'),
            'receipt_id': checked_text(request.receipt_id, 'receipt_id'),
            'frame_id': _frame(request.frame_id, 'frame_id'),
        }
        for name, value in given.items():
            if value and op not in _MEANT[name]:
                raise InvalidRequestError(
                    f'{name}: {value!r} has no meaning for {op}, only for {", ".join(_MEANT[name])}',
                    field=name,
                )
        if not frame_id and _is_set(request.pose.pose.position):
            raise InvalidRequestError(
                "pose.header.frame_id: '' with a position set", field='pose.header.frame_id'
            )
        names = texts(request.ids, 'ids')
        place = self._transform_of(request.pose.header, 'pose')
        if place is None and op == 'detach' and len(names) == 1:
            keys = await self.context.writer.do(lambda: self.context.perception.resolve_names(names))
            if holder := self.context.perception.frame_of(keys[0]):
                place = self.context.pending.submit(self.context.config.global_frame, holder, LATEST)
        if place is not None:
            await Settled((place,))
        return await self.context.writer.do(lambda: self._edit(request, response, op, names, place))

    def _transform_of(self, header: Header, name: str) -> Future[Transform] | None:
        """Request the transform of a header into the global frame; None: its frame is not set."""
        global_frame = self.context.config.global_frame
        frame_id = _frame(header.frame_id, f'{name}.header.frame_id')
        if not frame_id:
            return None
        at_ns = stamp_ns(header.stamp, f'{name}.header.stamp') or LATEST
        if frame_id == global_frame:
            same: Future[Transform] = Future()
            same.set_result(Transform((0.0, 0.0, 0.0), target_frame=frame_id, source_frame=frame_id))
            return same
        return self.context.pending.submit(global_frame, frame_id, at_ns)

    def _now_ns(self, *stamps: int | None) -> int:
        """Return the first stamp that is given, else the clock."""
        now_ns = next((stamp for stamp in stamps if stamp), 0) or self.context.clock()
        if not now_ns:
            raise ClockError('header.stamp: 0, and the clock is not started: give the stamp')
        if now_ns > MAX_STAMP_NS:
            raise InvalidRequestError(f'header.stamp: {now_ns} ns is beyond all clocks', field='header.stamp')
        return now_ns

    def _report(
        self,
        request: ReportAbsent.Request,
        response: ReportAbsent.Response,
        where: Future[Transform] | None,
        observer: Future[Transform] | None,
    ) -> ReportAbsent.Response:
        point = request.where.point
        if where is None and (_is_set(point) or request.radius_m):
            raise InvalidRequestError(
                f"where.header.frame_id: '' with a place or the radius {request.radius_m} m set",
                field='where.header.frame_id',
            )
        answer = self.context.perception.report_absent(
            AbsenceReport(
                id=checked_text(request.id, 'id'),
                key=checked_text(request.key, 'key'),
                label=checked_text(request.label, 'label'),
                where=None if where is None else _position(_known(where, 'where'), point, 'where'),
                radius_m=request.radius_m,
                observed_from=self._observer(request, observer),
                at_ns=self._now_ns(
                    stamp_ns(request.observed_from.header.stamp, 'observed_from.header.stamp'),
                    stamp_ns(request.where.header.stamp, 'where.header.stamp'),
                ),
                confidence=request.confidence,
                actor=checked_text(request.actor, 'actor'),
            )
        )
        response.ids, response.existence = list(answer.ids), list(answer.existence)
        response.statuses, response.receipt_id = list(answer.statuses), answer.receipt_id
        return response

    @staticmethod
    def _observer(request: ReportAbsent.Request, observer: Future[Transform] | None) -> Transform | None:
        """Return the pose that was looked from; None: that of the robot's newest keyframe."""
        if observer is None:
            return None
        if not request.observed_from.header.frame_id:
            try:
                return observer.result(timeout=0)
            except FrameError:
                return None
        pose = request.observed_from.pose
        turn = (pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w)
        try:
            local = Transform(
                (pose.position.x, pose.position.y, pose.position.z),
                unit_quaternion(turn) if any(turn) else (0.0, 0.0, 0.0, 1.0),
            )
        except ValueError as exc:
            raise InvalidRequestError(f'observed_from.pose: {exc}', field='observed_from.pose') from exc
        return _known(observer, 'observed_from') @ local

    def _edit(
        self,
        request: EditLandmark.Request,
        response: EditLandmark.Response,
        op: str,
        names: Sequence[str],
        place: Future[Transform] | None,
    ) -> EditLandmark.Response:
        keys = self._keys(request, names)
        actor = checked_text(request.actor, 'actor')
        position = None
        if place is not None:
            position = _position(_known(place, 'pose'), request.pose.pose.position, 'pose')
        if op == 'delete':
            response.ids, response.sequence = self._deleted(keys, actor)
            return response
        edit = Edit(
            _OPS[op],
            keys,
            self._now_ns(stamp_ns(request.pose.header.stamp, 'pose.header.stamp')),
            position=position,
            label=request.label,
            frame_id=_frame(request.frame_id, 'frame_id'),
            actor=actor,
        )
        edited = self.context.perception.edit(edit)
        response.ids, response.sequence = self._ids(edited.keys), self.memory.sequence
        response.receipt_id = edited.receipts[0].id
        return response

    def _keys(self, request: EditLandmark.Request, names: Sequence[str]) -> list[str]:
        if names or not request.receipt_id:
            if not names:
                raise InvalidRequestError('ids: empty; an edit needs at least one', field='ids')
            return self.context.perception.resolve_names(names)
        receipt = self.context.perception.receipt(request.receipt_id) or self.memory.receipt(
            request.receipt_id
        )
        if receipt.get('kind') != 'merge':
            raise InvalidRequestError(
                f'receipt_id: {request.receipt_id!r} is not the receipt of a merge', field='receipt_id'
            )
        return self.context.perception.resolve_names([receipt['keys'][0]])

    def _deleted(self, keys: Sequence[str], actor: str) -> tuple[list[str], int]:
        """Retract every statement about landmarks, which never existed; return the ids."""
        self.context.perception.edit(Edit('delete', keys, self._now_ns(), actor=actor))
        query = self._query(keys, include_invalidated=True)
        removal = self.memory.retract(query, reason='edit_landmark: delete', actor=actor)
        return list(dict.fromkeys(removal.ids)), int(removal.sequence)

    def _ids(self, keys: Sequence[str]) -> list[str]:
        """Return the items of landmarks, and the keys of those that have none yet."""
        ids = {hit.item.key: hit.item.id for hit in self.memory.query(self._query(keys))}
        return [ids.get(key) or key for key in keys]

    def _query(self, keys: Sequence[str], **fields: Any) -> MemoryQuery:
        scope = {'map_id': self.memory.map_id} if self.memory.map_id else None
        return MemoryQuery(
            kinds=frozenset({MemoryKind.SPATIAL}), keys=tuple(keys), scope=scope, include_stale=True, k=1000,
            **fields,
        )  # fmt: skip


def _frame(frame_id: str, name: str) -> str:
    if not checked_text(frame_id, name):
        return ''
    try:
        return normalize_frame(frame_id)
    except ValueError as exc:
        raise InvalidRequestError(f'{name}: {exc}', field=name) from exc


def _is_set(point: Any) -> bool:
    return bool((point.x, point.y, point.z) != (0.0, 0.0, 0.0))


def _known(future: Future[Transform], name: str) -> Transform:
    try:
        return future.result(timeout=0)
    except FrameError as exc:
        raise type(exc)(f'{name}.header: {exc.message}', **exc.details) from exc


def _position(transform: Transform, point: Any, name: str) -> tuple[float, float, float]:
    given = point.x, point.y, point.z
    position = transform.position(given)
    # Comparisons with NaN are false.
    if not all(abs(value) <= MAX_COORDINATE_M for value in (*given, *position)):
        raise InvalidRequestError(
            f'{name}: expected finite coordinates of at most {MAX_COORDINATE_M:g} m, got {given}', field=name
        )
    return position
