"""The action `~/maintain`: long operations on the whole memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rclpy.action import ActionServer
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from hylo_memory_ros.action import Maintain
from hylo_memory_ros.errors import InvalidRequestError, UnsupportedError
from hylo_memory_ros.ros.answering import awaited_in_executor
from hylo_memory_ros.ros.fields import checked_text
from hylo_memory_ros.ros.guard import Guard
from hylo_memory_ros.ros.perception import Perception
from hylo_memory_ros.ros.workers import Lane
from hylo_memory_ros.service import MemoryService

__all__ = ['Maintenance', 'maintain_server']


@dataclass(frozen=True)
class Maintenance:
    """The operations on one memory that take long."""

    memory: MemoryService
    """What is maintained."""
    writer: Lane
    """The one thread that writes; nothing else is written meanwhile."""
    readers: Lane
    """Threads that read."""
    perception: Perception
    """Goes on in what a restore put in place."""

    async def perform(self, goal: Any, tell: Callable[[float, str], None], result: Any) -> Any:
        """Do what a goal asks for.

        Parameters
        ----------
        goal : Maintain.Goal
            What to do.
        tell : callable
            Takes the part that is done, and what is being done.
        result : Maintain.Result
            To be filled.

        Raises
        ------
        UnsupportedError
            For an operation that this version does not have.
        """
        op = checked_text(goal.op, 'op')
        if op not in (Maintain.Goal.VERIFY, Maintain.Goal.RESTORE):
            raise UnsupportedError(f"op: {op!r}: this version has 'verify' and 'restore'", field='op')
        for name in ('scope', 'budget_items', 'budget_bytes'):
            if getattr(goal, name):
                raise UnsupportedError(
                    f'{name}: {getattr(goal, name)!r}: {op} is of the whole memory', field=name
                )
        return await (self._verify if op == Maintain.Goal.VERIFY else self._restore)(goal, tell, result)

    async def _verify(self, goal: Any, tell: Callable[[float, str], None], result: Any) -> Any:
        if goal.path:
            raise InvalidRequestError(f'path: {goal.path!r}: verify takes none', field='path')
        tell(0.0, 'recomputing timelines, hashes and the mirror')
        report = await self.readers.do(self.memory.verify)
        result.report_json = json.dumps({'ok': report.ok, **asdict(report)})
        result.digest = await self.readers.do(self.memory.snapshot)
        tell(1.0, 'done')
        return result

    async def _restore(self, goal: Any, tell: Callable[[float, str], None], result: Any) -> Any:
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


def maintain_server(
    node: Node, guard: Guard, group: CallbackGroup, perform: Any, wake: Callable[[], None]
) -> ActionServer:
    """Return the action server; a refusal is an aborted goal, whose result says why.

    Parameters
    ----------
    node : Node
        Whose action it is.
    guard : Guard
        Stands before it.
    group : CallbackGroup
        A reentrant one.
    perform : callable
        Takes a goal, something to tell progress to, and a result to fill.
    wake : callable
        Wakes the executor.
    """

    async def execute(handle: Any) -> Any:
        def tell(progress: float, stage: str) -> None:
            handle.publish_feedback(Maintain.Feedback(progress=progress, stage=stage))

        async def run(goal: Any, result: Any) -> Any:
            return await perform(goal, tell, result)

        guard.entered('maintain')
        try:
            answer = guard.wrapped('maintain', Maintain.Result, run)(handle.request, Maintain.Result())
            result = await awaited_in_executor(answer, wake)
            (handle.succeed if result.success else handle.abort)()
            return result
        finally:
            guard.left()

    return ActionServer(node, Maintain, '~/maintain', execute, callback_group=group)
