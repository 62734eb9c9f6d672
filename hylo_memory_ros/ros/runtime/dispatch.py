"""Dispatch of service coroutines to the threads that complete their futures.

In rclpy's executor each awaited future costs two turns of its loop and a wake: a third of the time of a
small query. Here the thread that completes a future continues the handler, and the last one sends the
reply; the executor only takes the request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

__all__ = ['Awaited', 'Settled', 'awaited_in_executor', 'drive']

T = TypeVar('T')
logger = logging.getLogger(__name__)


class Settled:
    """Awaitable completion of futures, with a result or an exception.

    Parameters
    ----------
    futures : iterable of concurrent.futures.Future
        Completed by any thread.
    """

    __slots__ = ('_futures',)

    def __init__(self, futures: Iterable[Future[Any]]) -> None:
        self._futures = tuple(futures)

    def __await__(self) -> Generator[Future[Any], None, None]:
        for future in self._futures:
            if not future.done():
                yield future


class Awaited(Generic[T]):
    """Awaitable result of one future, or its exception.

    Parameters
    ----------
    future : concurrent.futures.Future
        Completed by any thread.
    """

    __slots__ = ('_future',)

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def __await__(self) -> Generator[Future[T], None, T]:
        if not self._future.done():
            yield self._future
        return self._future.result()


def drive(handler: Coroutine[Any, Any, T], done: Callable[[T], None]) -> None:
    """Run a handler in this thread until it waits, then in the threads that complete its futures.

    Parameters
    ----------
    handler : coroutine
        Awaits `Settled` and `Awaited` only, and never raises.
    done : callable
        Takes its result, in the thread where it ends.
    """

    def step(_: object = None) -> None:
        try:
            waited_for = handler.send(None)
        except StopIteration as end:
            try:
                done(end.value)
            except Exception:
                logger.exception('an answer could not be sent')
        else:
            waited_for.add_done_callback(step)

    step()


def awaited_in_executor(handler: Coroutine[Any, Any, T], wake: Callable[[], None]) -> _InExecutor[T]:
    """Return an awaitable for a coroutine of rclpy's own executor: the result of a driven handler.

    Parameters
    ----------
    handler : coroutine
        As for `drive`.
    wake : callable
        Wakes the executor; without it the coroutine continues only at the next event.
    """
    future: Future[T] = Future()
    drive(handler, future.set_result)
    future.add_done_callback(lambda _: wake())
    return _InExecutor(future)


class _InExecutor(Generic[T]):
    __slots__ = ('_future',)

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def __await__(self) -> Generator[None, None, T]:
        while not self._future.done():
            yield
        return self._future.result()
