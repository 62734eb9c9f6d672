"""What writes make of a timeline."""

from __future__ import annotations

import pytest
from storage.clauses.base import NS, Clauses, ManualClock, contents, fact, only, spans

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model import MemoryItem, MemoryQuery, WriteEvent
from hylo_memory_ros.service import MemoryService

ROWS = {
    'three versions': (
        [('A', 1), ('B', 2), ('A', 3)],
        [('A', 1, 2), ('B', 2, 3), ('A', 3, None)],
        ['ADD', 'INVALIDATE', 'INVALIDATE'],
    ),
    'a late fact splits a version, which resumes at its confirmation': (
        [('A', 1), ('A', 3), ('B', 2)],
        [('A', 1, 2), ('B', 2, 3), ('A', 3, None)],
        ['ADD', 'SKIP_DUP', 'INVALIDATE'],
    ),
    'an older fact leaves the newer one open': (
        [('green', 200), ('red', 100)],
        [('red', 100, 200), ('green', 200, None)],
        ['ADD', 'ADD'],
    ),
    'at one time the later write wins': (
        [('one', 100), ('two', 100)],
        [('two', 100, None)],
        ['ADD', 'INVALIDATE'],
    ),
    'the same, known to be true earlier': ([('B', 10), ('B', 5)], [('B', 5, None)], ['ADD', 'INVALIDATE']),
    'the same again': ([('A', 1), ('A', 2)], [('A', 1, None)], ['ADD', 'SKIP_DUP']),
    'the first of three at one time comes back': (
        [('one', 100), ('two', 100), ('one', 100)],
        [('one', 100, None)],
        ['ADD', 'INVALIDATE', 'INVALIDATE'],
    ),
    'a version that begins earlier than its confirmation': (
        [('A', 3), ('B', 2), ('A', 1)],
        [('A', 1, 2), ('B', 2, 3), ('A', 3, None)],
        ['ADD', 'ADD', 'ADD'],
    ),
    'two halves become one when what parted them is overruled': (
        [('A', 1), ('B', 2), ('A', 3), ('A', 2)],
        [('A', 1, None)],
        ['ADD', 'INVALIDATE', 'INVALIDATE', 'INVALIDATE'],
    ),
}


class TimelineClauses(Clauses):
    """Writes: timelines and events."""

    @pytest.mark.parametrize('one_call', [False, True], ids=['call by call', 'in one call'])
    @pytest.mark.parametrize(('written', 'line', 'events'), ROWS.values(), ids=ROWS)
    def test_a_timeline_follows_from_what_was_written(
        self,
        memory: MemoryService,
        written: list[tuple[str, int]],
        line: object,
        events: list[str],
        one_call: bool,
    ) -> None:
        memory.write([fact('apart', 1, key='other')])
        items = [fact(content, at) for content, at in written]
        calls = [items] if one_call else [[item] for item in items]
        answered = [event for call in calls for event in memory.write(call).events]
        assert spans(memory) == line
        assert [event.event for event in answered] == events
        assert spans(memory, 'other') == [('apart', 1, None)]
        assert memory.sequence == 1 + len(calls)

    def test_an_addition_names_its_id_and_key(self, memory: MemoryService) -> None:
        (event,) = memory.write([fact('A', 1)]).events
        assert event == WriteEvent('ADD', only(memory.query(MemoryQuery(key='mug'))).item.id or '', 'mug')
        assert event.id.startswith('semantic/')

    def test_an_invalidation_names_what_it_closed(self, memory: MemoryService) -> None:
        first = memory.write([fact('A', 1)]).ids[0]
        (event,) = memory.write([fact('B', 2)]).events
        assert (event.event, event.closed_id, event.reopened_id) == ('INVALIDATE', first, '')

    def test_a_late_fact_names_what_it_reopened(self, memory: MemoryService) -> None:
        first = memory.write([fact('A', 1)]).ids[0]
        assert memory.write([fact('A', 3)]).ids[0] == first
        (event,) = memory.write([fact('B', 2)]).events
        opened = only(memory.query(MemoryQuery(key='mug'))).item
        assert (opened.content, opened.valid_from) == ('A', 3)
        assert (event.closed_id, event.reopened_id) == (first, opened.id)
        assert event.id not in (first, opened.id)

    def test_an_older_fact_closes_nothing(self, memory: MemoryService) -> None:
        memory.write([fact('green', 200)])
        (event,) = memory.write([fact('red', 100)]).events
        assert (event.event, event.closed_id, event.reopened_id) == ('ADD', '', '')
        assert contents(memory.query(MemoryQuery(key='mug'))) == ['green']
        assert contents(memory.query(MemoryQuery(key='mug', as_of=150))) == ['red']
        assert not memory.query(MemoryQuery(key='mug', as_of=50))
        assert not memory.query(MemoryQuery(key='mug', as_of=150, known_seq=1))

    def test_an_earlier_beginning_closes_the_row_that_is_no_longer_believed(
        self, memory: MemoryService
    ) -> None:
        later = memory.write([fact('B', 10)]).ids[0]
        (event,) = memory.write([fact('B', 5)]).events
        assert (event.event, event.closed_id, event.reopened_id) == ('INVALIDATE', later, '')
        assert event.id == only(memory.query(MemoryQuery(key='mug'))).item.id != later

    def test_what_lost_at_its_own_time_is_history(self, memory: MemoryService) -> None:
        memory.write([fact('one', 100)])
        memory.write([fact('two', 100)])
        assert [v.item.content for v in memory.history(key='mug').versions] == ['one', 'two']
        assert contents(memory.query(MemoryQuery(key='mug', known_seq=1))) == ['one']

    def test_a_duplicate_returns_the_id_that_holds_there(self, memory: MemoryService) -> None:
        first = memory.write([fact('A', 1)]).ids[0]
        second = memory.write([fact('B', 5)]).ids[0]
        for at, expected in ((1, first), (3, first), (5, second), (9, second)):
            (event,) = memory.write([fact('A' if expected == first else 'B', at)]).events
            assert (event.event, event.id) == ('SKIP_DUP', expected)

    def test_duplicates_are_evidence_all_the_same(self, memory: MemoryService) -> None:
        before = memory.sequence
        memory.write([fact('A', 1)])
        memory.write([fact('A', 2)])
        assert memory.sequence == before + 2
        memory.write([fact('B', 1.5)])
        assert spans(memory) == [('A', 1, 1.5), ('B', 1.5, 2), ('A', 2, None)]

    def test_kind_key_and_map_part_identities(self, memory: MemoryService) -> None:
        items = [
            fact('a', 1), fact('b', 2, kind='episodic'), fact('c', 3, key='Mug'), fact('d', 4, key='mug '),
            fact('e', 5, scope={'map_id': 'lab'}), fact('f', 6, scope={'map_id': 'hall'}),
        ]  # fmt: skip
        assert [event.event for event in memory.write(items).events] == ['ADD'] * 6

    def test_other_scope_values_do_not_part_identities(self, memory: MemoryService) -> None:
        memory.write([fact('a', 1, scope={'task_id': 't1'})])
        assert memory.write([fact('a', 2, scope={'task_id': 't2'})]).events[0].event == 'INVALIDATE'

    def test_the_identity_scope_is_chosen(self, clock: ManualClock) -> None:
        config = MemoryConfig(identity_scope=('map_id', 'robot_id'))
        with self.open_memory(clock, config) as memory:
            items = [fact('a', 1, scope={'robot_id': 'r1'}), fact('b', 2, scope={'robot_id': 'r2'})]
            assert [event.event for event in memory.write(items).events] == ['ADD', 'ADD']

    def test_any_part_of_the_content_makes_another_version(self, memory: MemoryService) -> None:
        base = {'content': 'mug', 'pose': {'frame_id': 'map', 'position': (1, 2, 3)}}
        changed = [
            {'content': 'cup'}, {'label': 'x'}, {'payload': {'a': 1}}, {'payload': {'a': 1.0}},
            {'entities': ['bob']},
            {'object_ids': ['7']}, {'scope': {'task_id': 't'}}, {'links': [('on', 'table')]},
            {'extent': (1, 1, 1)},
            {'pose': {'frame_id': 'odom', 'position': (1, 2, 3)}},
            {'pose': {'frame_id': 'map', 'position': (1, 2, 4)}},
            {'pose': {**base['pose'], 'orientation': (0, 0, 0, 1)}}, {'pose': None},
        ]  # fmt: skip
        for number, fields in enumerate(changed):
            items = [
                fact(**{'at': at, 'key': f'k{number}', **base, **extra})
                for at, extra in ((1, {}), (2, fields))
            ]
            assert [event.event for event in memory.write(items).events] == ['ADD', 'INVALIDATE'], fields

    def test_what_is_no_content_makes_no_other_interval(self, memory: MemoryService) -> None:
        pose = {'frame_id': 'map', 'position': (1, 2, 3), 'orientation': (0.5, 0.5, 0.5, 0.5)}
        base = {'content': 'mug', 'pose': pose, 'entities': ['a', 'b'], 'links': [('on', 't'), ('by', 'u')]}
        merged = [
            {'confidence': 0.5}, {'confidence': 0.95}, {'source': 'x@1'}, {'evidence': ['file:1']},
            {'provenance': {'a': 1}}, {'embeddings': {'clip@1': [1, 0]}},
            {'pose': {**pose, 'covariance': [1.0, *[0.0] * 35]}},
        ]  # fmt: skip
        repeated = [
            {'confidence': 0.96}, {'entities': ['b', 'a', 'a']}, {'links': [('by', 'u'), ('on', 't')]},
            {'pose': {**pose, 'stamp': 5}}, {'pose': {**pose, 'orientation': (-0.5, -0.5, -0.5, -0.5)}},
            {'event_time': {'start': 3}}, {'content': 'mug', 'payload': {}},
        ]  # fmt: skip
        for number, fields in enumerate([*merged, *repeated]):
            event = 'MERGE' if number < len(merged) else 'SKIP_DUP'
            items = [
                fact(**{'at': at, 'key': f'k{number}', **base, **extra})
                for at, extra in ((1, {}), (2, fields))
            ]
            assert [event.event for event in memory.write(items).events] == ['ADD', event], fields
            assert spans(memory, f'k{number}') == [('mug', 1, None)]

    def test_composed_and_decomposed_letters_say_the_same(self, memory: MemoryService) -> None:
        memory.write([fact('caf\u00e9', 1, key='caf\u00e9')])
        (event,) = memory.write([fact('cafe\u0301', 2, key='cafe\u0301')]).events
        assert event.event == 'SKIP_DUP'
        assert only(memory.query(MemoryQuery(key='cafe\u0301'))).item.content == 'caf\u00e9'

    def test_valid_from_comes_from_the_best_source_given(self, memory: MemoryService) -> None:
        pose = {'frame_id': 'map', 'position': (0, 0, 0), 'stamp': 7}
        cases = [
            ({'valid_from': 5, 'event_time': {'start': 6}, 'pose': pose}, 5, False),
            ({'event_time': {'start': 6}, 'pose': pose}, 6, False),
            ({'pose': pose}, 7, False),
            ({}, 1000, True),
            ({'valid_from': 0}, 0, False),
        ]
        for number, (fields, seconds, assumed) in enumerate(cases):
            memory.write([MemoryItem(kind='semantic', key=f'k{number}', **fields)])
            item = only(memory.query(MemoryQuery(key=f'k{number}'))).item
            assert (item.valid_from_ns, item.valid_from_assumed) == (seconds * NS, assumed)

    def test_an_assumed_beginning_is_never_before_what_was_seen(
        self, memory: MemoryService, clock: ManualClock
    ) -> None:
        clock.set(2000)
        memory.query(MemoryQuery(key='mug'))
        clock.set(1500)
        memory.write([fact('A')])
        assert only(memory.query(MemoryQuery(key='mug'))).item.valid_from == 2000
        assert memory.now_ns() == 2000 * NS

    def test_recorded_time_never_decreases(self, memory: MemoryService, clock: ManualClock) -> None:
        for at in (1000, 900, 1100, 1100, 50):
            clock.set(at)
            memory.write([fact(f'at {at}', 1)])
        recorded = [change.recorded_at_ns // NS for change in memory.changes().changes]
        assert recorded == [1000, 1000, 1100, 1100, 1100]


class KeylessClauses(Clauses):
    """Statements without a key: each is a timeline of its own."""

    def test_different_texts_never_meet(self, memory: MemoryService) -> None:
        items = [fact(content, 1, key=None) for content in ('a', 'b', 'c')]
        assert [event.event for event in memory.write(items).events] == ['ADD'] * 3
        assert memory.query(MemoryQuery(kinds=['semantic'])).total == 3

    def test_the_same_text_without_a_time_is_stored_once(
        self, memory: MemoryService, clock: ManualClock
    ) -> None:
        first = memory.write([fact('door opened', key=None)]).ids[0]
        clock.set(1500)
        (event,) = memory.write([fact('door opened', key=None)]).events
        assert (event.event, event.id) == ('SKIP_DUP', first)
        assert only(memory.query(MemoryQuery(text='door'))).item.valid_from == 1000

    def test_repeated_events_differ_by_their_time(self, memory: MemoryService) -> None:
        given = [fact('door opened', at, key=None) for at in (1, 2, 2)]
        assert [event.event for event in memory.write(given).events] == ['ADD', 'ADD', 'SKIP_DUP']
        happened = [fact('bell', key=None, event_time={'start': at}) for at in (1, 2, 2)]
        assert [event.event for event in memory.write(happened).events] == ['ADD', 'ADD', 'SKIP_DUP']
        assert memory.query(MemoryQuery(text='door')).total == 2

    def test_what_was_forgotten_may_be_said_again(self, memory: MemoryService, clock: ManualClock) -> None:
        memory.write([fact('door opened', key=None)])
        clock.set(1100)
        assert memory.forget(MemoryQuery(text='door')) == 1
        clock.set(1200)
        assert memory.write([fact('door opened', key=None)]).events[0].event == 'ADD'
        assert only(memory.query(MemoryQuery(text='door'))).item.valid_from == 1200

    def test_what_was_retracted_may_be_said_again(self, memory: MemoryService) -> None:
        memory.write([fact('door opened', 5, key=None)])
        assert memory.retract(MemoryQuery(text='door')) == 1
        assert not memory.query(MemoryQuery(text='door', as_of=6))
        assert memory.write([fact('door opened', 5, key=None)]).events[0].event == 'ADD'
        assert memory.query(MemoryQuery(text='door', as_of=6)).total == 1
