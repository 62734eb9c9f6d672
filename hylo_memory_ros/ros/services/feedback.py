"""What is said of answers afterwards: `~/feedback`.

The handler is a coroutine; what it changes runs in the one writer's thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from hylo_memory_ros.model.feedback import Verdict
from hylo_memory_ros.ros.convert.fields import checked_text, texts
from hylo_memory_ros.ros.runtime.worker_pool import WorkerPool
from hylo_memory_ros.service import MemoryService

__all__ = ['Judging']


@dataclass(frozen=True)
class Judging:
    """The handler that takes feedback on one memory."""

    memory: MemoryService
    """What they are of."""
    writer: WorkerPool
    """The one thread that writes."""

    async def feedback(self, request: Any, response: Any) -> Any:
        """Count whether remembered items helped."""
        return await self.writer.do(lambda: self._feedback(request, response))

    def _feedback(self, request: Any, response: Any) -> Any:
        judged = self.memory.feedback(
            cast('Verdict', checked_text(request.outcome, 'outcome')),  # any other word is refused there
            receipt_id=checked_text(request.receipt_id, 'receipt_id'),
            ids=texts(request.ids, 'ids'),
            episode=checked_text(request.episode, 'episode'),
            note=checked_text(request.note, 'note'),
            actor=checked_text(request.actor, 'actor'),
        )
        response.updated = len(judged)
        if judged.replaced:
            response.message = f'{judged.replaced} earlier verdicts were replaced'
        return response
