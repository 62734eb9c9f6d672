"""Registration of services: a decorated method of a handler class is a service of the node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from hylo_memory_ros.parameters import NodeConfig
from hylo_memory_ros.ros.open_memory import StampWatch
from hylo_memory_ros.ros.perception.perception import Perception
from hylo_memory_ros.ros.perception.placement import Placement
from hylo_memory_ros.ros.perception.transforms import NodeTransforms
from hylo_memory_ros.ros.runtime.worker_pool import Settled, WorkerPool
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.transforms import PendingLookups, Transform

F = TypeVar('F', bound=Callable[..., Any])
R = TypeVar('R')


@dataclass(frozen=True)
class ServiceContext:
    """Parts of a session that handlers work with."""

    memory: MemoryService
    """The memory."""
    config: NodeConfig
    """Settings of the node."""
    writer: WorkerPool
    """The one thread that writes."""
    readers: WorkerPool
    """Threads that answer what only reads."""
    slow: WorkerPool
    """A thread for long operations beside all others."""
    perception: Perception
    """Inputs and landmarks."""
    placement: Placement
    """Brings poses and centres into the global frame."""
    pending: PendingLookups
    """Requests that wait for transforms."""
    transforms: NodeTransforms
    """Transforms of the current map."""
    clock: Callable[[], int]
    """The node's clock, nanoseconds; 0 while it has not started."""
    watch: StampWatch
    """Warns of stamps far from the clock."""


class Handlers:
    """A group of services; each public coroutine marked by `service` is one.

    A handler takes a request and an empty response, and returns the response to send. It runs in
    whichever thread has what it awaits; what takes time it hands to a worker pool.

    Parameters
    ----------
    context : ServiceContext
        Parts of the session.
    """

    def __init__(self, context: ServiceContext) -> None:
        self.context = context
        self.memory = context.memory
        self.reply_limit = context.config.reply_limit_bytes

    async def answer_centred(
        self, pool: WorkerPool, answer: Callable[[Future[Transform] | None], R | Future[Transform]]
    ) -> R:
        """Return an answer whose centre may still wait for its transform.

        Parameters
        ----------
        pool : WorkerPool
            Threads that answer.
        answer : callable
            Takes the transform of the centre, done, or None; returns the response, or the transform to
            wait for.
        """
        result = await pool.do(lambda: answer(None))
        if isinstance(result, Future):
            centre = result
            await Settled((centre,))
            result = await pool.do(lambda: answer(centre))
        assert not isinstance(result, Future)
        return result


def service(kind: type[Any]) -> Callable[[F], F]:
    """Register a method as the service ``~/<its name>`` of the type `kind`."""

    def register(handler: F) -> F:
        handler.service_type = kind  # type: ignore[attr-defined]
        return handler

    return register


def service_types(groups: Iterable[type[Handlers]]) -> Mapping[str, type[Any]]:
    """Return the types of the services of handler classes, by name."""
    return {
        name: method.service_type
        for group in groups
        for name, method in vars(group).items()
        if hasattr(method, 'service_type')
    }
