"""Jobs are done in order and bounded; handlers go on where their result is."""

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from hylo_memory_ros.errors import NotActiveError, StoreBusyError
from hylo_memory_ros.ros.runtime.worker_pool import Awaited, Settled, WorkerPool, awaited_in_executor, drive

pytestmark = pytest.mark.ros


def test_one_thread_keeps_the_order() -> None:
    lane, done = WorkerPool('w', 1, 100), []
    futures = [lane.submit(lambda n=n: done.append(n)) for n in range(50)]
    for future in futures:
        future.result(timeout=60)

    assert done == list(range(50))
    assert lane.close(5)


def test_beyond_the_limit_is_busy_and_what_is_queued_once_still_fits() -> None:
    lane, gate = WorkerPool('w', 1, 2), threading.Event()
    started = threading.Event()
    lane.submit(lambda: (started.set(), gate.wait(5)))
    started.wait(5)
    waiting = [lane.submit(lambda: 1), lane.submit(lambda: 2)]

    with pytest.raises(StoreBusyError, match='requests already wait'):
        lane.submit(lambda: 3)
    extra = lane.submit(lambda: 4, always=True)

    gate.set()
    assert [future.result(timeout=60) for future in (*waiting, extra)] == [1, 2, 4]
    lane.close(5)


def test_closing_refuses_what_waits_and_lets_the_running_job_end() -> None:
    lane, gate, started = WorkerPool('w', 1, 9), threading.Event(), threading.Event()
    running = lane.submit(lambda: (started.set(), gate.wait(5)))
    started.wait(5)
    waiting = lane.submit(lambda: 1)

    assert not lane.close(0.05)
    with pytest.raises(NotActiveError):
        waiting.result(timeout=60)
    gate.set()
    running.result(timeout=60)
    assert lane.close(5)
    with pytest.raises(NotActiveError):
        lane.submit(lambda: 1)


def test_a_job_that_raises_harms_no_other() -> None:
    lane = WorkerPool('w', 1, 9)
    with pytest.raises(ZeroDivisionError):
        lane.submit(lambda: 1 / 0).result(timeout=60)

    assert lane.submit(lambda: 7).result(timeout=60) == 7
    lane.close(5)


def test_a_job_that_is_done_once_waits_for_nobody_and_what_it_raises_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lane, gate, done = WorkerPool('w', 1, 1), threading.Event(), list[int]()

    def refuse() -> None:
        gate.wait(5)
        raise StoreBusyError('not now')

    for number in range(3):
        lane.once('refused', refuse)
        lane.once('done', lambda n=number: done.append(n))
    gate.set()
    lane.submit(lambda: None, always=True).result(timeout=60)
    lane.once('done', lambda: done.append(3))
    lane.once('broken', lambda: done.append(1 // 0))
    lane.submit(lambda: None, always=True).result(timeout=60)
    assert done == [0, 3]
    assert [record.getMessage() for record in caplog.records] == ['refused: not now', 'broken failed']
    assert lane.close(5)
    lane.once('done', lambda: done.append(4))
    assert done == [0, 3]


class Waits:
    """A handler under test, and what it came to."""

    def __init__(self, awaitable: Any) -> None:
        self.results: list[Any] = []
        self.threads: list[str] = []

        async def handler() -> Any:
            result = await awaitable
            self.threads.append(threading.current_thread().name)
            return result

        drive(handler(), self.results.append)


def test_a_handler_goes_on_in_the_thread_that_has_its_result() -> None:
    future: Future[int] = Future()
    waits = Waits(Awaited(future))
    assert waits.results == []

    thread = threading.Thread(target=lambda: future.set_result(5), name='has-it')
    thread.start()
    thread.join()

    assert (waits.results, waits.threads) == ([5], ['has-it'])


def test_what_is_there_already_is_not_waited_for() -> None:
    future: Future[int] = Future()
    future.set_result(5)

    assert Waits(Awaited(future)).results == [5]


def test_settled_waits_for_all_and_raises_nothing() -> None:
    good, bad = Future[int](), Future[int]()
    waits = Waits(Settled((bad, good)))
    good.set_result(1)
    assert waits.results == []
    bad.set_exception(ValueError())
    assert waits.results == [None]


def test_an_answer_that_cannot_be_sent_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def handler() -> int:
        return 1

    drive(handler(), lambda _: 1 / 0)

    assert 'could not be sent' in caplog.text


def test_any_other_executor_is_woken() -> None:
    future: Future[int] = Future()
    woken: list[int] = []

    async def handler() -> int:
        return await Awaited(future)

    async def callback() -> int:
        return await awaited_in_executor(handler(), lambda: woken.append(1))

    task = callback()
    task.send(None)
    future.set_result(7)
    with pytest.raises(StopIteration) as end:
        task.send(None)
    assert (end.value.value, woken) == (7, [1])
