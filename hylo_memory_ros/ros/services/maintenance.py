"""Handlers of the whole memory: `~/flush`, `~/snapshot` and the action `~/maintain`.

A consolidation and its reversal have a thread of their own: they are many short changes, between which
the writer goes on.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rclpy.action import ActionServer, CancelResponse
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from hylo_memory_ros.action import Maintain
from hylo_memory_ros.errors import InvalidRequestError, UnsupportedError
from hylo_memory_ros.model import Budget, ConsolidationReport, Reversion
from hylo_memory_ros.ros.convert.fields import MAX_SEQUENCE, checked_text, scope_of, stamp_msg, stamp_ns
from hylo_memory_ros.ros.runtime.request_guard import RequestGuard
from hylo_memory_ros.ros.runtime.worker_pool import Settled, awaited_in_executor
from hylo_memory_ros.ros.services.registration import Handlers, service
from hylo_memory_ros.srv import Flush, Snapshot
from hylo_memory_ros.storage.engine.files import file_named

# Bytes of an id in a report, at least.
_ID_BYTES = 32
# How long a flush waits when its request does not say so, and at most, seconds.
FLUSH_S, MAX_FLUSH_S = 5.0, 3600.0


class MaintenanceHandlers(Handlers):
    """The services ``flush`` and ``snapshot``, and the operations of the action ``maintain``."""

    @service(Flush)
    async def flush(self, request: Flush.Request, response: Flush.Response) -> Flush.Response:
        """Process and commit what perception has received."""
        until_ns = stamp_ns(request.until, 'until')
        response.pending = await self._flush(until_ns, _timeout_s(request.timeout_s))
        response.watermark = stamp_msg(self.context.perception.status().watermark_ns)
        response.sequence = self.memory.sequence
        return response

    @service(Snapshot)
    async def snapshot(self, request: Snapshot.Request, response: Snapshot.Response) -> Snapshot.Response:
        """Flush, and answer with the digest of what is believed and open."""
        path = self._copy_target(checked_text(request.copy_path, 'copy_path'))
        pending = await self._flush(None, FLUSH_S)
        return await self.context.writer.do(lambda: self._snapshot(path, pending, response))

    def _copy_target(self, name: str) -> str:
        """Return where a copy goes: a name from the network cannot leave the directory of copies."""
        if not name:
            return ''
        database = self.memory.path
        directory = self.context.config.copy_directory or (str(database.parent) if database else '')
        if not directory:
            raise InvalidRequestError(
                'copy_path: a memory without a file has no directory of copies; set copy_directory',
                field='copy_path',
            )
        home = Path(directory).expanduser().resolve()
        target = file_named(home / name, room='')
        if not target.parent.resolve().is_relative_to(home) or target.name in ('', '..'):
            raise InvalidRequestError(
                f'copy_path: {name!r} leaves the directory of copies, {home} (parameter copy_directory)',
                field='copy_path',
            )
        if os.path.lexists(target):
            raise InvalidRequestError(
                f'copy_path: {name!r} exists; nothing is overwritten', field='copy_path'
            )
        return str(target)

    async def _flush(self, until_ns: int | None, timeout_s: float) -> int:
        """Flush until nothing waits any more, or the time is over; return how many messages still wait."""
        perception = self.context.perception
        deadline_s = time.monotonic() + timeout_s
        while True:
            changed = perception.changed()
            pending = await self.context.writer.do(lambda: perception.flush(until_ns))
            if not pending or time.monotonic() >= deadline_s:
                return pending
            await Settled((changed,))

    def _snapshot(self, path: str, pending: int, response: Snapshot.Response) -> Snapshot.Response:
        if path:
            self.memory.snapshot(path)
        manifest = dict(self.memory.manifest())
        response.digest = manifest.pop('digest')
        response.sequence = manifest.pop('sequence')
        response.complete = bool(manifest.pop('complete')) and not pending
        if pending:
            manifest['pending'] = pending
        response.manifest_json = json.dumps(manifest, default=str)
        return response

    async def perform(
        self, goal: Maintain.Goal, report_progress: Progress, result: Maintain.Result
    ) -> Maintain.Result:
        """Perform the operation of a goal.

        Parameters
        ----------
        goal : Maintain.Goal
            The operation.
        report_progress : Progress
            Takes the completed part and the current stage.
        result : Maintain.Result
            Result to fill.

        Raises
        ------
        UnsupportedError
            For an operation that this version does not have.
        """
        op = checked_text(goal.op, 'op')
        operations = {
            Maintain.Goal.VERIFY: self._verify,
            Maintain.Goal.RESTORE: self._restore,
            Maintain.Goal.CONSOLIDATE: self._consolidate,
            Maintain.Goal.REVERT_CONSOLIDATION: self._revert,
        }
        if op not in operations:
            raise UnsupportedError(f'op: {op!r}: expected one of {", ".join(operations)}', field='op')
        if op != Maintain.Goal.CONSOLIDATE:
            _reject_fields(goal, op, 'scope', 'budget_items', 'budget_bytes')
        return await operations[op](goal, report_progress, result)

    async def _verify(
        self, goal: Maintain.Goal, report_progress: Progress, result: Maintain.Result
    ) -> Maintain.Result:
        if goal.path:
            raise InvalidRequestError(f'path: {goal.path!r}: verify takes none', field='path')
        report_progress(0.0, 'recomputing timelines, hashes and the mirror')
        report = await self.context.readers.do(self.memory.verify)
        result.report_json = json.dumps({'ok': report.ok, **asdict(report)})
        result.digest = await self.context.readers.do(self.memory.snapshot)
        report_progress(1.0, 'done')
        return result

    async def _restore(
        self, goal: Maintain.Goal, report_progress: Progress, result: Maintain.Result
    ) -> Maintain.Result:
        path = checked_text(goal.path, 'path')
        if not path:
            raise InvalidRequestError("path: '' names no file to restore from", field='path')
        if goal.dry_run:
            raise UnsupportedError(
                'dry_run: true: a restore verifies the copy first in any case', field='dry_run'
            )
        report_progress(0.0, f'verifying {path}')
        await self.context.writer.do(
            lambda: self.context.perception.replace_memory(lambda: self.memory.restore(path))
        )
        result.digest = await self.context.readers.do(self.memory.snapshot)
        result.report_json = json.dumps({'epoch': self.memory.epoch, 'sequence': self.memory.sequence})
        report_progress(1.0, 'done')
        return result

    async def _consolidate(
        self, goal: Maintain.Goal, report_progress: Progress, result: Maintain.Result
    ) -> Maintain.Result:
        if goal.path:
            raise InvalidRequestError(f'path: {goal.path!r}: consolidate takes none', field='path')
        scope = scope_of(goal.scope, '')
        budget = _budget(goal)
        report = await self.context.slow.do(
            lambda: self.memory.consolidate(
                scope,
                budget,
                dry_run=goal.dry_run,
                on_progress=report_progress,
                cancelled=lambda: report_progress.cancel_requested or self.context.slow.closing,
                actor='maintain',
            )
        )
        report_progress.cancelled = report.cancelled
        result.report_json = _fitting(report, self.reply_limit)
        result.digest = report.digest_after
        result.message = 'cancelled: the report lists what was done before' if report.cancelled else ''
        return result

    async def _revert(
        self, goal: Maintain.Goal, report_progress: Progress, result: Maintain.Result
    ) -> Maintain.Result:
        name = checked_text(goal.path, 'path')
        if not name:
            raise InvalidRequestError("path: '' names no consolidation to revert", field='path')
        _reject_fields(goal, goal.op, 'dry_run')
        report_progress(0.0, f'reverting {name}')
        reversion = await self.context.slow.do(
            lambda: self.memory.revert_consolidation(name, actor='maintain')
        )
        result.report_json = _fitting(reversion, self.reply_limit)
        result.digest = reversion.digest
        report_progress(1.0, 'done')
        return result


def _reject_fields(goal: Maintain.Goal, op: str, *names: str) -> None:
    """Refuse fields that an operation has no use for."""
    for name in names:
        if getattr(goal, name):
            raise UnsupportedError(f'{name}: {getattr(goal, name)!r}: {op} takes none', field=name)


def _timeout_s(given_s: float) -> float:
    if not (math.isfinite(given_s) and 0.0 <= given_s <= MAX_FLUSH_S):
        raise InvalidRequestError(
            f'timeout_s: expected 0 to {MAX_FLUSH_S:g} s, got {given_s}', field='timeout_s'
        )
    return given_s or FLUSH_S


def _budget(goal: Maintain.Goal) -> Budget:
    limits = {'items': goal.budget_items, 'bytes': goal.budget_bytes}
    if not any(limits.values()):
        raise InvalidRequestError(
            'budget_items: 0 and budget_bytes: 0: give one of them',
            field='budget_items',
        )
    for name, limit in limits.items():
        if limit > MAX_SEQUENCE:
            raise InvalidRequestError(
                f'budget_{name}: {limit} is more than {MAX_SEQUENCE}', field=f'budget_{name}'
            )
    return Budget(**{name: limit for name, limit in limits.items() if limit})


def _fitting(report: ConsolidationReport | Reversion, most_bytes: int) -> str:
    """Return a report as JSON, with as much of its lists as fits into a reply."""
    most = most_bytes // _ID_BYTES
    while True:
        text = json.dumps(report.as_dict(most))
        if not most or len(text) <= most_bytes:
            return text
        most //= 2


class Progress:
    """Progress of one goal, published to its client.

    Threads: one at a time.

    Parameters
    ----------
    handle : ServerGoalHandle
        The goal.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._published: tuple[int, str] | None = None
        self.cancelled = False
        """Whether the operation ended early because of that."""

    def __call__(self, progress: float, stage: str) -> None:
        """Publish each hundredth and each stage once."""
        now = round(progress * 100), stage
        if now != self._published:
            self._published = now
            self._handle.publish_feedback(Maintain.Feedback(progress=progress, stage=stage))

    @property
    def cancel_requested(self) -> bool:
        """True if the client has cancelled it."""
        return bool(self._handle.is_cancel_requested)


def maintain_server(
    node: Node, guard: RequestGuard, group: CallbackGroup, perform: Any, wake: Callable[[], None]
) -> ActionServer:
    """Return the action server; a refusal is an aborted goal, whose result says why.

    Parameters
    ----------
    node : Node
        Whose action it is.
    guard : RequestGuard
        Stands before it.
    group : CallbackGroup
        A reentrant one.
    perform : callable
        Takes a goal, a progress callback and a result to fill.
    wake : callable
        Wakes the executor.
    """

    async def execute(handle: Any) -> Any:
        report_progress = Progress(handle)

        async def run(goal: Maintain.Goal, result: Maintain.Result) -> Maintain.Result:
            return await perform(goal, report_progress, result)

        guard.entered('maintain')
        try:
            answer = guard.wrapped('maintain', Maintain.Result, run)(handle.request, Maintain.Result())
            result = await awaited_in_executor(answer, wake)
            if report_progress.cancelled and handle.is_cancel_requested:
                handle.canceled()
            else:
                (handle.succeed if result.success else handle.abort)()
            return result
        finally:
            guard.left()

    def may_cancel(handle: Any) -> CancelResponse:
        # What is one step cannot be ended between two.
        slices = handle.request.op == Maintain.Goal.CONSOLIDATE
        return CancelResponse.ACCEPT if slices else CancelResponse.REJECT

    return ActionServer(
        node, Maintain, '~/maintain', execute, callback_group=group, cancel_callback=may_cancel
    )
