"""What makes no sense is refused by name, and changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from service.episodes.pieces import an_episode, fact, keys_of
from support.clock import ManualClock
from support.tables import write_tables

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import (
    ClockError,
    HyloMemoryError,
    InvalidRequestError,
    NotFoundError,
    StoreError,
)
from hylo_memory_ros.service import MemoryService


class TestRefused:
    CALLS: dict[str, tuple[Callable[[MemoryService], Any], type[HyloMemoryError], str]] = {
        'end without begin': (lambda m: m.end_episode(outcome='x'), InvalidRequestError, 'none is open'),
        'end of an unknown id': (lambda m: m.end_episode('other', 'x'), NotFoundError, "no episode 'other'"),
        'end of one that ended': (lambda m: m.end_episode('used', 'x'), InvalidRequestError, 'ended before'),
        'an id used before': (lambda m: m.begin_episode('used'), InvalidRequestError, 'was the name of'),
        'a control character': (lambda m: m.begin_episode('a\tb'), InvalidRequestError, 'id: .*control'),
        'a blank id': (lambda m: m.begin_episode('  '), InvalidRequestError, 'id: .*blank'),
        'a long id': (lambda m: m.begin_episode('é' * 129), InvalidRequestError, 'id: .*258 bytes'),
        'a lone surrogate': (lambda m: m.begin_episode('\ud800'), InvalidRequestError, 'id: .*surrogate'),
        'a long note': (lambda m: m.begin_episode(note='n' * 16385), InvalidRequestError, 'note: 16385'),
        'a note that is no text': (lambda m: m.begin_episode(note='\udfff'), InvalidRequestError, 'note: '),
        'a scope without a name': (lambda m: m.begin_episode(scope={'': 'x'}), InvalidRequestError, 'scope'),
        'a scope without a value': (lambda m: m.begin_episode(scope={'x': ''}), InvalidRequestError, 'scope'),
        'a scope of one name twice': (
            lambda m: m.begin_episode(scope={'\u00e9': '1', 'e\u0301': '2'}), InvalidRequestError, 'twice',
        ),
        'a scope without end': (
            lambda m: m.begin_episode(scope={str(n): 'x' for n in range(65)}), InvalidRequestError, '65',
        ),
        'two names': (
            lambda m: m.begin_episode('a', {'episode_id': 'b'}), InvalidRequestError, 'scope: its episode_id',
        ),
        'a list from the end to the start': (
            lambda m: m.episodes(time_range_ns=(2, 1)), InvalidRequestError, 'time_range_ns',
        ),
        'a list of two beliefs': (
            lambda m: m.episodes(known_at_ns=1, known_seq=1), InvalidRequestError, 'known_seq',
        ),
        'a list before all time': (lambda m: m.episodes(known_seq=-1), InvalidRequestError, 'known_seq: -1'),
        'a list of nothing': (lambda m: m.episodes(limit=0), InvalidRequestError, 'limit: 0'),
        'a list of a blank outcome': (lambda m: m.episodes(' '), InvalidRequestError, 'outcome: .*blank'),
    }  # fmt: skip
    WHILE_OPEN: dict[str, tuple[Callable[[MemoryService], Any], type[HyloMemoryError], str]] = {
        'begin twice': (lambda m: m.begin_episode('next'), InvalidRequestError, "'run' is open"),
        'begin the same': (lambda m: m.begin_episode('run'), InvalidRequestError, "'run' is open"),
        'no outcome': (lambda m: m.end_episode(), InvalidRequestError, 'outcome: .*blank'),
        'a blank outcome': (lambda m: m.end_episode(outcome=' '), InvalidRequestError, 'outcome: .*blank'),
        'a long outcome': (lambda m: m.end_episode(outcome='x' * 513), InvalidRequestError, 'outcome: .*513'),
        'a line break': (lambda m: m.end_episode(outcome='a\nb'), InvalidRequestError, 'outcome: .*control'),
        'another id': (lambda m: m.end_episode('used', 'x'), InvalidRequestError, 'ended before'),
        'an unknown id': (lambda m: m.end_episode('other', 'x'), NotFoundError, "no episode 'other'"),
        'a long note': (lambda m: m.end_episode('', 'x', 'n' * 16385), InvalidRequestError, 'note: 16385'),
        'fewer events than none': (
            lambda m: m.end_episode(outcome='x', events=-1), InvalidRequestError, 'events: -1',
        ),
        'events without end': (
            lambda m: m.end_episode(outcome='x', events=1001), InvalidRequestError, 'events: 1001',
        ),
        'a restore': (lambda m: m.restore('/nowhere.db'), InvalidRequestError, "restore: .*'run' is open"),
    }  # fmt: skip

    @staticmethod
    def state(memory: MemoryService) -> tuple[Any, ...]:
        return memory.sequence, memory.snapshot(), memory.current_episode, memory.episodes(), keys_of(memory)

    def refused(self, memory: MemoryService, case: Any) -> None:
        call, error, named = case
        before = self.state(memory)
        with pytest.raises(error, match=named):
            call(memory)
        assert self.state(memory) == before

    @pytest.mark.parametrize('name', CALLS)
    def test_by_name_with_nothing_changed(self, memory: MemoryService, name: str) -> None:
        an_episode(memory, 'used', 'success')
        self.refused(memory, self.CALLS[name])

    @pytest.mark.parametrize('name', WHILE_OPEN)
    def test_by_name_while_one_is_open(self, memory: MemoryService, name: str) -> None:
        an_episode(memory, 'used', 'success')
        memory.begin_episode('run')
        self.refused(memory, self.WHILE_OPEN[name])
        memory.end_episode(outcome='success')

    def test_a_clock_before_the_begin(self, memory: MemoryService, clock: ManualClock) -> None:
        memory.begin_episode('run')
        clock.set(999.0)
        self.refused(memory, (lambda m: m.end_episode(outcome='x'), ClockError, 'lies before the begin'))
        clock.set(1000.0)
        memory.end_episode(outcome='success')

    def test_an_older_clock_that_was_accepted_ends_it(
        self, reopen: Callable[..., MemoryService], clock: ManualClock
    ) -> None:
        with reopen() as memory:
            memory.begin_episode('run')
        clock.set(1.0)
        with reopen(accept_older_clock=True) as memory:
            assert memory.end_episode(outcome='success').duration_s == 0.0

    def test_a_clock_before_the_first_valid_stamp(self) -> None:
        config = MemoryConfig(min_valid_stamp_s=1000.0)
        with MemoryService.open(clock=ManualClock(999.0), config=config) as memory:
            self.refused(memory, (lambda m: m.begin_episode(), ClockError, 'before the first valid stamp'))

    @pytest.mark.parametrize(
        ('call', 'fields'), [('begin_episode', {}), ('end_episode', {'outcome': 'x'}), ('episodes', {})]
    )
    def test_a_memory_that_is_closed(self, clock: ManualClock, call: str, fields: dict[str, str]) -> None:
        memory = MemoryService.open(clock=clock)
        memory.close()
        with pytest.raises(StoreError, match='closed'):
            getattr(memory, call)(**fields)

    def test_only_one_of_many_at_once_begins(self, memory: MemoryService) -> None:
        begun: list[str] = []

        def begin(number: int) -> None:
            try:
                begun.append(memory.begin_episode(f'run {number}').id)
            except InvalidRequestError:
                pass

        threads = [threading.Thread(target=begin, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert begun == [memory.current_episode]

    def test_what_was_tampered_with_is_found_out(self, clock: ManualClock) -> None:
        with MemoryService.open(clock=clock) as memory:
            an_episode(memory, 'run', 'success', fact('dock'))
            write_tables(
                memory, lambda c: c.exec_driver_sql("UPDATE txn SET episode = 'x' WHERE sequence = 2")
            )
            problems = ' '.join(memory.verify().problems)
            assert "episode 'run': not all transactions" in problems
            assert 'an episode that there is not' in problems
