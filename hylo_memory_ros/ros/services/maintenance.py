"""The action `~/maintain`: long operations on the whole memory.

A consolidation and its reversal have a thread of their own: they are many short changes, between which the
writer goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rclpy.action import ActionServer, CancelResponse
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from hylo_memory_ros.action import Maintain
from hylo_memory_ros.errors import InvalidRequestError, UnsupportedError
from hylo_memory_ros.model import Budget, ConsolidationReport, Reversion
from hylo_memory_ros.ros.convert.fields import MAX_SEQUENCE, checked_text, scope_of
from hylo_memory_ros.ros.perception.perception import Perception
from hylo_memory_ros.ros.runtime.dispatch import awaited_in_executor
from hylo_memory_ros.ros.runtime.request_guard import RequestGuard
from hylo_memory_ros.ros.runtime.worker_pool import WorkerPool
from hylo_memory_ros.service import MemoryService

__all__ = ['Maintenance', 'Progress', 'maintain_server']

# What an id takes in a report, at least.
_ID_BYTES = 32


@dataclass(frozen=True)
class Maintenance:
    """The operations on one memory that take long."""

    memory: MemoryService
    """What is maintained."""
    writer: WorkerPool
    """The one thread that writes; nothing else is written meanwhile."""
    readers: WorkerPool
    """Threads that read."""
    perception: Perception
    """Goes on in what a restore put in place."""
    slow: WorkerPool
    """A thread for what takes long beside all others."""
    reply_limit: int
    """Largest report, bytes."""

    async def perform(self, goal: Any, tell: Progress, result: Any) -> Any:
        """Do what a goal asks for.

        Parameters
        ----------
        goal : Maintain.Goal
            What to do.
        tell : Progress
            Takes the part that is done, and what is being done.
        result : Maintain.Result
            To be filled.

        Raises
        ------
        UnsupportedError
            For an operation that this version does not have.
        """
        op = checked_text(goal.op, 'op')
        ways = {
            Maintain.Goal.VERIFY: self._verify,
            Maintain.Goal.RESTORE: self._restore,
            Maintain.Goal.CONSOLIDATE: self._consolidate,
            Maintain.Goal.REVERT_CONSOLIDATION: self._revert,
        }
        if op not in ways:
            raise UnsupportedError(f'op: {op!r} is none of {", ".join(ways)}', field='op')
        if op != Maintain.Goal.CONSOLIDATE:
            _refuse(goal, op, 'scope', 'budget_items', 'budget_bytes')
        return await ways[op](goal, tell, result)

    async def _verify(self, goal: Any, tell: Progress, result: Any) -> Any:
        if goal.path:
            raise InvalidRequestError(f'path: {goal.path!r}: verify takes none', field='path')
        tell(0.0, 'recomputing timelines, hashes and the mirror')
        report = await self.readers.do(self.memory.verify)
        result.report_json = json.dumps({'ok': report.ok, **asdict(report)})
        result.digest = await self.readers.do(self.memory.snapshot)
        tell(1.0, 'done')
        return result

    async def _restore(self, goal: Any, tell: Progress, result: Any) -> Any:
        path = checked_text(goal.path, 'path')
        if not path:
            raise InvalidRequestError("path: '' names no file to restore from", field='path')
        if goal.dry_run:
            raise UnsupportedError(
                'dry_run: true: a restore verifies the copy first in any case', field='dry_run'
            )
        tell(0.0, f'verifying {path}')
        await self.writer.do(lambda: self.perception.replaced(lambda: self.memory.restore(path)))
        result.digest = await self.readers.do(self.memory.snapshot)
        result.report_json = json.dumps({'epoch': self.memory.epoch, 'sequence': self.memory.sequence})
        tell(1.0, 'done')
        return result

    async def _consolidate(self, goal: Any, tell: Progress, result: Any) -> Any:
        if goal.path:
            raise InvalidRequestError(f'path: {goal.path!r}: consolidate takes none', field='path')
        scope = scope_of(goal.scope, '')
        budget = _budget(goal)
        report = await self.slow.do(
            lambda: self.memory.consolidate(
                scope,
                budget,
                dry_run=goal.dry_run,
                tell=tell,
                cancelled=lambda: tell.cancel_requested or self.slow.closing,
                actor='maintain',
            )
        )
        tell.cancelled = report.cancelled
        result.report_json = _fitting(report, self.reply_limit)
        result.digest = report.digest_after
        result.message = 'cancelled: what the report tells was done' if report.cancelled else ''
        return result

    async def _revert(self, goal: Any, tell: Progress, result: Any) -> Any:
        name = checked_text(goal.path, 'path')
        if not name:
            raise InvalidRequestError("path: '' names no consolidation to revert", field='path')
        _refuse(goal, goal.op, 'dry_run')
        tell(0.0, f'reverting {name}')
        reversion = await self.slow.do(lambda: self.memory.revert_consolidation(name, actor='maintain'))
        result.report_json = _fitting(reversion, self.reply_limit)
        result.digest = reversion.digest
        tell(1.0, 'done')
        return result


def _refuse(goal: Any, op: str, *names: str) -> None:
    """Refuse fields that an operation has no use for."""
    for name in names:
        if getattr(goal, name):
            raise UnsupportedError(f'{name}: {getattr(goal, name)!r}: {op} takes none', field=name)


def _budget(goal: Any) -> Budget:
    limits = {'items': goal.budget_items, 'bytes': goal.budget_bytes}
    if not any(limits.values()):
        raise InvalidRequestError(
            'budget_items: 0 and budget_bytes: 0: one of them must say how much may stay',
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
    """What a client is told of its goal, and whether it wants no more.

    Threads: one at a time.

    Parameters
    ----------
    handle : ServerGoalHandle
        The goal.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._told: tuple[int, str] | None = None
        self.cancelled = False
        """Whether the goal was ended before its end."""

    def __call__(self, progress: float, stage: str) -> None:
        """Tell of each hundredth and each stage once."""
        now = round(progress * 100), stage
        if now != self._told:
            self._told = now
            self._handle.publish_feedback(Maintain.Feedback(progress=progress, stage=stage))

    @property
    def cancel_requested(self) -> bool:
        """Whether the client wants no more."""
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
        Takes a goal, something to tell progress to, and a result to fill.
    wake : callable
        Wakes the executor.
    """

    async def execute(handle: Any) -> Any:
        tell = Progress(handle)

        async def run(goal: Any, result: Any) -> Any:
            return await perform(goal, tell, result)

        guard.entered('maintain')
        try:
            answer = guard.wrapped('maintain', Maintain.Result, run)(handle.request, Maintain.Result())
            result = await awaited_in_executor(answer, wake)
            if tell.cancelled and handle.is_cancel_requested:
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
