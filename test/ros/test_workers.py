"""Jobs are done in order, bounded, and awaited without waiting."""

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from hylo_memory_ros.errors import NotActiveError, StoreBusyError
from hylo_memory_ros.ros.workers import Awaited, Lane, Settled

pytestmark = pytest.mark.ros


class Wakes:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def test_one_thread_keeps_the_order() -> None:
    lane, done = Lane('w', 1, 100, Wakes()), []
    futures = [lane.submit(lambda n=n: done.append(n)) for n in range(50)]
    for future in futures:
        future.result(timeout=5)

    assert done == list(range(50))
    assert lane.close(5)


def test_beyond_the_limit_is_busy_and_what_is_queued_once_still_fits() -> None:
    lane, gate = Lane('w', 1, 2, Wakes()), threading.Event()
    started = threading.Event()
    lane.submit(lambda: (started.set(), gate.wait(5)))
    started.wait(5)
    waiting = [lane.submit(lambda: 1), lane.submit(lambda: 2)]

    with pytest.raises(StoreBusyError, match='queue_limit'):
        lane.submit(lambda: 3)
    extra = lane.submit(lambda: 4, always=True)

    gate.set()
    assert [future.result(timeout=5) for future in (*waiting, extra)] == [1, 2, 4]
    lane.close(5)


def test_closing_refuses_what_waits_and_lets_the_running_job_end() -> None:
    lane, gate, started = Lane('w', 1, 9, Wakes()), threading.Event(), threading.Event()
    running = lane.submit(lambda: (started.set(), gate.wait(5)))
    started.wait(5)
    waiting = lane.submit(lambda: 1)

    assert not lane.close(0.05)
    with pytest.raises(NotActiveError):
        waiting.result(timeout=5)
    gate.set()
    running.result(timeout=5)
    assert lane.close(5)
    with pytest.raises(NotActiveError):
        lane.submit(lambda: 1)


def test_a_job_that_raises_harms_no_other() -> None:
    lane = Lane('w', 1, 9, Wakes())
    with pytest.raises(ZeroDivisionError):
        lane.submit(lambda: 1 / 0).result(timeout=5)

    assert lane.submit(lambda: 7).result(timeout=5) == 7
    lane.close(5)


def steps(awaitable: Any) -> Any:
    """Run a coroutine as the executor does; yield its result once it has one."""

    async def run() -> Any:
        return await awaitable

    coroutine = run()
    while True:
        try:
            coroutine.send(None)
        except StopIteration as end:
            yield end.value
            return
        yield None


def test_what_is_awaited_wakes_the_executor_and_gives_its_result() -> None:
    future: Future[int] = Future()
    wakes = Wakes()
    run = steps(Awaited(future, wakes))

    assert next(run) is None
    future.set_result(5)
    assert wakes.count == 1
    assert next(run) == 5


def test_settled_waits_for_all_and_raises_nothing() -> None:
    good, bad = Future[int](), Future[int]()
    run = steps(Settled((good, bad), Wakes()))
    good.set_result(1)
    assert next(run) is None
    bad.set_exception(ValueError())
    assert next(run) is None
    assert next(run, 'end') == 'end'
