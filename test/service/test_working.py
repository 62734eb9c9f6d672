"""Working memory: bounded by items and bytes, telling what it lets go, without a past."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.clock import NS, ManualClock

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import Change, MemoryItem, MemoryQuery, QueryResult
from hylo_memory_ros.service import MemoryService

WORKING = MemoryQuery(kinds=['working'])


def goal(key: str | None, content: str = 'x', **fields: Any) -> MemoryItem:
    return MemoryItem(kind='working', key=key, content=content, **fields)


def fact(key: str) -> MemoryItem:
    return MemoryItem(kind='semantic', key=key, content=key, valid_from=1)


def keys(result: QueryResult) -> set[str | None]:
    return {hit.item.key for hit in result}


def evicted(told: list[Change]) -> list[tuple[str, ...]]:
    return [change.keys for change in told if change.op == 'evict']


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def memory(clock: ManualClock) -> Iterator[MemoryService]:
    limits = MemoryConfig(working_capacity=4, working_item_bytes=1000, working_limit_bytes=2500)
    with MemoryService.open(clock=clock, config=limits) as opened:
        yield opened


@pytest.fixture
def told(memory: MemoryService) -> list[Change]:
    changes: list[Change] = []
    memory.subscribe(changes.append)
    return changes


def test_what_must_leave_is_told_with_ids_and_keys_at_the_sequence_of_then(
    memory: MemoryService, told: list[Change]
) -> None:
    memory.write([fact('a')])
    ids = memory.write([goal(f'g{n}') for n in range(4)]).ids
    assert [change.op for change in told] == ['write']
    memory.write([goal('g4'), fact('b'), goal('g5')])
    write, evict = told[1:]
    assert (write.op, write.sequence) == ('write', 2)
    assert (evict.op, evict.sequence, evict.ids, evict.keys, evict.outcomes) == (
        'evict', 2, ids[:2], ('g0', 'g1'), ('EVICT', 'EVICT'),
    )  # fmt: skip
    assert [change.op for change in memory.changes().changes] == ['write', 'write']


def test_twice_as_much_as_fits_leaves_the_newest_half(memory: MemoryService, told: list[Change]) -> None:
    for n in range(8):
        memory.write([goal(f'g{n}')])
    assert keys(memory.query(WORKING)) == {'g4', 'g5', 'g6', 'g7'}
    assert [change.keys for change in told] == [(f'g{n}',) for n in range(4)]


def test_bytes_are_bounded_too(memory: MemoryService, told: list[Change]) -> None:
    memory.write([goal('a', 'x' * 800), goal('b', 'x' * 800)])
    assert told == []
    memory.write([goal('c', 'x' * 800), goal('d')])
    assert [change.keys for change in told] == [('a',)]
    memory.write([goal('b', 'short')])
    memory.write([goal('e', 'x' * 800)])
    assert keys(memory.query(WORKING)) == {'b', 'c', 'd', 'e'}


def test_an_item_that_is_too_large_is_refused_with_its_size_and_nothing_is_stored(
    memory: MemoryService,
) -> None:
    with pytest.raises(InvalidRequestError, match=r'^items\[1\]: 1\d{3} bytes .*working_item_bytes 1000'):
        memory.write([fact('a'), goal('g', 'x' * 1000)])
    assert (memory.sequence, memory.counts()['working']) == (0, 0)


def test_an_item_that_could_never_stay_is_no_setting() -> None:
    with pytest.raises(ValueError, match='working_item_bytes: 65536 is more than working_limit_bytes 1000'):
        MemoryConfig(working_limit_bytes=1000)


def test_a_duplicate_and_a_retrieval_count_as_use(memory: MemoryService, told: list[Change]) -> None:
    memory.write([goal(key) for key in 'abcd'])
    memory.write([goal('a')])
    memory.query(MemoryQuery(key='b'))
    memory.write([goal('e'), goal('f')])
    assert [change.keys for change in told] == [('c', 'd')]


def test_items_without_a_key_are_as_many_as_they_say_different_things(
    memory: MemoryService, told: list[Change]
) -> None:
    events = memory.write([goal(None, text) for text in ('a', 'b', 'a')]).events
    assert [event.event for event in events] == ['ADD', 'ADD', 'SKIP_DUP']
    memory.write([goal(None, text) for text in 'cde'])
    assert [change.keys for change in told] == [('',)]
    assert {hit.item.content for hit in memory.query(WORKING)} == set('acde')


def test_a_dry_run_evicts_nothing(memory: MemoryService, told: list[Change]) -> None:
    memory.write([goal(key) for key in 'abcd'])
    memory.write([goal('e')], dry_run=True)
    assert (keys(memory.query(WORKING)), told) == (set('abcd'), [])


@pytest.mark.parametrize('operation', ['forget', 'retract', 'purge'])
def test_what_was_taken_away_makes_room_and_is_never_evicted(
    memory: MemoryService, told: list[Change], operation: str
) -> None:
    memory.write([goal(key, 'x' * 500) for key in 'abcd'])
    assert getattr(memory, operation)(MemoryQuery(key='a')) == 1
    memory.write([goal('e', 'x' * 500)])
    assert keys(memory.query(WORKING)) == set('bcde')
    assert evicted(told) == []
    memory.write([goal('f', 'x' * 500)])
    assert evicted(told) == [('b',)]


def test_a_past_belief_is_answered_by_what_was_there_then_and_still_is(
    memory: MemoryService, clock: ManualClock
) -> None:
    memory.write([goal('old'), fact('a')])
    clock.now_ns += 10 * NS
    memory.write([fact('b'), goal('new')])
    then = memory.query(MemoryQuery(kinds=['working'], known_seq=1))
    assert keys(then) == {'old'}
    assert then.excluded == {'working_keeps_no_history': 1}
    assert then.notes[0].startswith('working memory keeps no history')
    by_time = memory.query(MemoryQuery(kinds=['working'], known_at_ns=1005 * NS))
    assert (keys(by_time), by_time.excluded) == ({'old'}, {'working_keeps_no_history': 1})
    memory.write([goal('old', 'changed')])
    replaced = memory.query(MemoryQuery(kinds=['working'], known_seq=1))
    assert (len(replaced), replaced.excluded) == (0, {'working_keeps_no_history': 2})


def test_nothing_answers_for_a_time_before_it_began(memory: MemoryService) -> None:
    memory.write([goal('g', valid_from=500)])
    before = memory.query(MemoryQuery(kinds=['working'], as_of=400))
    assert (len(before), before.excluded) == (0, {'not_yet_valid': 1})
    assert before.notes[0].startswith('working memory keeps no history')
    since = memory.query(MemoryQuery(kinds=['working'], as_of=600))
    assert (keys(since), len(since.notes)) == ({'g'}, 1)


def test_the_note_is_there_when_it_was_meant_or_may_make_a_difference(memory: MemoryService) -> None:
    memory.write([fact('a')])
    memory.write([fact('b')])
    assert memory.query(MemoryQuery(kinds=['working'], as_of=400)).notes
    assert memory.query(MemoryQuery(as_of=400)).notes == ()
    memory.write([goal('g')])
    assert memory.query(MemoryQuery(as_of=400)).notes
    assert memory.query(MemoryQuery(known_seq=1)).notes
    assert memory.query(MemoryQuery(kinds=['semantic'], as_of=400)).notes == ()
    assert memory.query(MemoryQuery()).notes == memory.query(WORKING).notes == ()
    assert memory.query(MemoryQuery(known_seq=2, as_of=1000)).notes == ()


def test_a_scheduled_one_is_left_out_until_its_time(memory: MemoryService, clock: ManualClock) -> None:
    memory.write([goal('later', valid_from=1100)])
    result = memory.query(WORKING)
    assert (len(result), result.excluded, result.notes) == (0, {'not_yet_valid': 1}, ())
    clock.now_ns = 1100 * NS
    assert keys(memory.query(WORKING)) == {'later'}


def test_a_restore_empties_it(memory: MemoryService, tmp_path: Any, told: list[Change]) -> None:
    memory.write([goal('g'), fact('a')])
    memory.snapshot(str(tmp_path / 'copy.db'))
    memory.restore(str(tmp_path / 'copy.db'))
    assert memory.query(WORKING).total == 0
    assert 'evict' not in [change.op for change in told]


def test_a_repeated_request_gets_its_first_answer_and_changes_nothing(memory: MemoryService) -> None:
    first = memory.write([goal('a'), fact('door')], request_id='r1')
    memory.write([goal('a', 'y')])
    assert memory.write([goal('a'), fact('door')], request_id='r1') == first
    assert [hit.item.content for hit in memory.query(WORKING)] == ['y']
    with pytest.raises(InvalidRequestError, match='was used before for'):
        memory.write([goal('b')], request_id='r1')
    memory.purge(MemoryQuery(key='a', kinds=['working']))
    assert memory.write([goal('a'), fact('door')], request_id='r1').events[0].event == 'ADD'


@pytest.mark.parametrize('field', ['request_id', 'actor'])
def test_names_of_requests_and_of_who_asks_are_short(memory: MemoryService, field: str) -> None:
    with pytest.raises(InvalidRequestError, match=f'{field}: .* has 513 bytes, at most 512'):
        memory.write([goal('a')], **{field: 'x' * 513})  # type: ignore[arg-type]
    assert not memory.query(WORKING)
