"""What a forget ends, and what a retract withdraws."""

from __future__ import annotations

from typing import Any

import pytest
from storage.clauses.base import NS, Clauses, ManualClock, contents, fact, near, only, spans, state_of, thing

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MemoryKind, MemoryQuery
from hylo_memory_ros.service import MemoryService

MUG = MemoryQuery(key='mug')


class ForgetClauses(Clauses):
    """A forget ends what is, at its own time; nothing resurfaces."""

    @pytest.fixture
    def mug(self, memory: MemoryService, clock: ManualClock) -> MemoryService:
        """Return a memory that held a red mug from 1 s on and was told at 100 s to forget it."""
        clock.set(50)
        memory.write([thing(0.0, 1, key='mug', content='red mug', entities=['kitchen'])])
        clock.set(100)
        assert memory.forget(MUG) == 1
        clock.set(150)
        return memory

    @pytest.mark.parametrize('as_of', [None, 100, 100.5, 1e6])
    def test_nothing_is_left_on_any_path(self, mug: MemoryService, as_of: float | None) -> None:
        paths: list[dict[str, Any]] = [
            {'key': 'mug'}, {'near': near(0.0, 1.0).near}, {'text': 'red'}, {'entities': ['kitchen']},
            {'kinds': ['spatial']}, {'near': near(0.0, 1.0).near, 'text': 'mug'},
        ]  # fmt: skip
        for path in paths:
            result = mug.query(MemoryQuery(**path, as_of=as_of))
            assert (len(result), result.total) == (0, 0), path
        assert sum(mug.counts().values()) == 0

    def test_before_the_forget_it_is_current_and_tells_its_end(self, mug: MemoryService) -> None:
        for query in (MUG, near(0.0, 1.0), MemoryQuery(text='red')):
            hit = only(mug.query(query.model_copy(update={'as_of_ns': 50_000_000_000})))
            assert (hit.item.content, hit.status, hit.valid_to) == ('red mug', 'current', 100)
            assert hit.ended_by == 'forget'

    def test_known_before_the_forget_it_is_open(self, mug: MemoryService) -> None:
        hit = only(mug.query(MemoryQuery(key='mug', known_at=99, as_of=150)))
        assert (hit.status, hit.valid_to) == ('current', None)
        assert not mug.query(MemoryQuery(key='mug', known_at=100, as_of=150))

    def test_older_evidence_does_not_undo_it(self, mug: MemoryService) -> None:
        red = thing(0.0, 50, key='mug', content='red mug', entities=['kitchen'])
        (event,) = mug.write([red]).events
        assert (event.event, event.reason) == ('SKIP_DUP', 'forgotten')
        assert event.id == only(mug.query(MemoryQuery(key='mug', as_of=50))).item.id
        assert not mug.query(MUG)

    def test_another_older_fact_does_not_resurface(self, mug: MemoryService) -> None:
        (event,) = mug.write([thing(5.0, 50, key='mug', content='sink')]).events
        assert event.event == 'ADD'
        assert spans(mug) == [('red mug', 1, 50), ('sink', 50, 100)]
        assert not mug.query(MUG)
        assert not mug.query(near(5.0, 1.0))

    @pytest.mark.parametrize('at', [100, 120])
    def test_newer_evidence_begins_anew(self, mug: MemoryService, at: float) -> None:
        red = thing(0.0, at, key='mug', content='red mug', entities=['kitchen'])
        (event,) = mug.write([red]).events
        assert (event.event, event.reason) == ('ADD', '')
        assert spans(mug) == [('red mug', 1, 100), ('red mug', at, None)]
        assert only(mug.query(MUG)).status == 'current'

    def test_an_assertion_at_the_same_time_from_before_is_void(
        self, memory: MemoryService, clock: ManualClock
    ) -> None:
        clock.set(100)
        memory.write([fact('red', 1)])
        memory.write([fact('blue', 100)])
        assert memory.forget(MUG) == 1
        assert spans(memory) == [('red', 1, 100)]
        assert not memory.query(MUG)

    def test_a_scheduled_version_is_void(self, memory: MemoryService, clock: ManualClock) -> None:
        clock.set(100)
        memory.write([fact('red', 200)])
        memory.write([fact('blue', 50)])
        assert memory.forget(MUG) == 2
        assert spans(memory) == [('blue', 50, 100)]
        clock.set(300)
        assert not memory.query(MUG)
        assert [v.item.content for v in memory.history(key='mug').versions if v.to_seq is None] == ['blue']

    def test_a_scheduled_confirmation_does_not_resurface(
        self, memory: MemoryService, clock: ManualClock
    ) -> None:
        clock.set(100)
        memory.write([fact('red', 1), fact('red', 200)])
        assert memory.forget(MUG) == 1
        assert spans(memory) == [('red', 1, 100)]

    def test_what_does_not_match_stays(self, memory: MemoryService, clock: ManualClock) -> None:
        clock.set(100)
        memory.write([fact('red', 1, label='mug'), fact('blue', 200, label='cup'), fact('x', 1, key='other')])
        assert memory.forget(MemoryQuery(labels=['mug'])) == 1
        assert spans(memory) == [('red', 1, 100), ('blue', 200, None)]
        assert spans(memory, 'other') == [('x', 1, None)]

    def test_a_scheduled_match_alone_is_void_and_leaves_the_present(
        self, memory: MemoryService, clock: ManualClock
    ) -> None:
        clock.set(100)
        memory.write([fact('red', 1, label='mug'), fact('blue', 200, label='cup')])
        assert memory.forget(MemoryQuery(labels=['cup'])) == 1
        assert spans(memory) == [('red', 1, None)]

    def test_a_past_version_is_none_of_its_business(self, memory: MemoryService) -> None:
        memory.write([fact('red', 1, label='mug'), fact('blue', 2, label='cup')])
        assert memory.forget(MemoryQuery(labels=['mug'])) == 0
        assert spans(memory) == [('red', 1, 2), ('blue', 2, None)]

    def test_a_second_forget_finds_nothing_and_leaves_nothing(self, mug: MemoryService) -> None:
        before = state_of(mug)
        removal = mug.forget(MUG)
        assert (removal, removal.ids, removal.sequence) == (0, (), mug.sequence)
        assert state_of(mug) == before

    def test_the_count_is_exact_whatever_k_says(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, 1, key=f'k{n}', label='cup') for n in range(30)])
        removal = memory.forget(MemoryQuery(labels=['cup'], k=1))
        assert (removal, len(set(removal.ids)), removal.sequence) == (30, 30, memory.sequence)
        assert memory.query(MemoryQuery(labels=['cup'])).total == 0

    @pytest.mark.parametrize('fields', [{}, {'k': 5}, {'scope': {}, 'kinds': []}, {'any_map': True}])
    @pytest.mark.parametrize('operation', ['forget', 'retract', 'purge'])
    def test_a_query_without_a_filter_is_refused(
        self, memory: MemoryService, operation: str, fields: dict[str, Any]
    ) -> None:
        memory.write([fact('red', 1)])
        before = state_of(memory)
        with pytest.raises(InvalidRequestError, match='filter'):
            getattr(memory, operation)(MemoryQuery(**fields))
        assert state_of(memory) == before

    @pytest.mark.parametrize('axis', [{'as_of': 5}, {'known_at': 5}, {'known_seq': 1}])
    @pytest.mark.parametrize('operation', ['forget', 'purge'])
    def test_it_acts_now(self, memory: MemoryService, axis: dict[str, int], operation: str) -> None:
        with pytest.raises(InvalidRequestError, match=next(iter(axis))):
            getattr(memory, operation)(MemoryQuery(key='mug', **axis))

    @pytest.mark.parametrize('operation', ['forget', 'retract', 'purge'])
    def test_a_rehearsal_changes_nothing(self, memory: MemoryService, operation: str) -> None:
        memory.write([fact('red', 1)])
        before = state_of(memory)
        rehearsed = getattr(memory, operation)(MUG, dry_run=True)
        assert state_of(memory) == before
        removed = getattr(memory, operation)(MUG)
        assert (rehearsed, rehearsed.ids) == (removed, removed.ids) == (1, removed.ids)

    def test_by_place_it_takes_what_is_there(self, memory: MemoryService, clock: ManualClock) -> None:
        clock.set(100)
        memory.write([thing(0.0, 1, key='here'), thing(9.0, 1, key='there'), thing(0.0, 200, key='soon')])
        memory.write([thing(0.0, 1, key='moved'), thing(9.0, 50, key='moved')])
        assert memory.forget(near(0.0, 1.0)) == 2
        assert {hit.item.key for hit in memory.query(near(0.0, 100.0))} == {'there', 'moved'}
        clock.set(300)
        assert {hit.item.key for hit in memory.query(near(0.0, 100.0))} == {'there', 'moved'}

    def test_the_clock_may_move_while_it_acts(self) -> None:
        clock = ManualClock(100.0, step_ns=500_000_000)
        with self.open_memory(clock) as memory:
            memory.write([fact(f'state {n}', 100 + n / 4) for n in range(40)])
            assert memory.forget(MUG) > 0
            assert not memory.query(MUG)
            assert not memory.query(MemoryQuery(key='mug', as_of=1e6))
            assert memory.verify().ok


class EndClauses(Clauses):
    """An end tells itself when, and is no forget."""

    @pytest.mark.parametrize(
        ('at', 'statuses'),
        [
            (0.5, ['scheduled'] * 4),
            (1, ['current'] * 4),
            (19.5, ['current'] * 4),
            (20, ['current', 'ended', 'current', 'current']),
            (30, ['current', 'ended', 'current', 'invalidated']),
            (100, ['current', 'ended', 'forgotten', 'invalidated']),
            (1e6, ['current', 'ended', 'forgotten', 'invalidated']),
        ],
    )
    def test_a_status_is_that_of_the_time_asked_about(
        self, clock: ManualClock, at: float, statuses: list[str]
    ) -> None:
        clock.set(100)
        with self.open_memory(clock) as memory:
            memory.write([thing(0.0, 1, key=key) for key in ('open', 'over', 'past', 'was')])
            memory.end(['over'], 20 * NS, reason='seen empty')
            memory.write([thing(5.0, 30, key='was', label='moved')])
            memory.forget(MemoryQuery(key='past'))
            query = MemoryQuery(include_invalidated=True, as_of=at, labels=[], kinds=['spatial'])
            hits = {hit.item.key: hit for hit in memory.query(query) if not hit.item.label}
            assert [hits[key].status for key in ('open', 'over', 'past', 'was')] == statuses
            ended_by = [hits[key].ended_by for key in ('open', 'over', 'past', 'was')]
            assert ended_by == ['', 'end: seen empty', 'forget', '']
            versions = [v for v in memory.history(key='over').versions if v.to_seq is None]
            assert [(v.ended_by, v.forgotten) for v in versions] == [('end: seen empty', False)]
            forgotten = memory.history(key='past').versions[-1]
            assert (forgotten.ended_by, forgotten.forgotten) == ('forget', True)

    def test_what_ended_is_counted_apart_from_what_was_forgotten(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, 1, key='a', label='mug'), thing(0.0, 1, key='b', label='mug')])
        memory.end(['a'], 20 * NS)
        memory.forget(MemoryQuery(key='b'))
        assert memory.query(MemoryQuery(labels=['mug'])).excluded == {'ended': 1, 'forgotten': 1}

    def test_the_cause_of_an_end_is_its_own_and_leaves_with_a_purge(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, 1, key=key, label='mug') for key in 'abcd'])
        memory.end(['a', 'b'], [20 * NS, 30 * NS], reason='reported')
        memory.end(['c'], 40 * NS)
        memory.end(['d'], 40 * NS, reason='b stands there')

        def causes() -> dict[str | None, str]:
            query = MemoryQuery(labels=['mug'], include_invalidated=True)
            return {hit.item.key: hit.ended_by for hit in memory.query(query)}

        expected = {'a': 'end: reported', 'b': 'end: reported', 'c': 'end', 'd': 'end: b stands there'}
        assert causes() == expected
        memory.purge(MemoryQuery(key='b'))
        assert causes() == {'a': 'end', 'c': 'end', 'd': 'end'}

    def test_a_forget_of_the_same_instant_prevails(self, clock: ManualClock) -> None:
        clock.set(100)
        with self.open_memory(clock) as memory:
            memory.write([thing(0.0, 1, key='a'), thing(0.0, 1, key='b')])
            memory.end(['a'], 100 * NS)
            memory.write([thing(0.0, 100, key='a', label='back')])
            memory.forget(MemoryQuery(key='a'))
            ended = memory.query(MemoryQuery(key='a', include_invalidated=True))
            assert [hit.status for hit in ended] == ['forgotten']

    def test_older_evidence_does_not_undo_it(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, 1, key='mug')])
        memory.end(['mug'], 20 * NS)
        (event,) = memory.write([thing(0.0, 10, key='mug')]).events
        assert (event.event, event.reason) == ('SKIP_DUP', 'ended')

    def test_it_ends_what_holds_at_the_stated_time(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, 1, key='mug', content='red mug')])
        removal = memory.end(['mug'], 20 * NS, reason='gone', actor='me')
        assert removal == 1
        assert spans(memory) == [('red mug', 1, 20)]
        assert not memory.query(MUG)
        before = only(memory.query(near(0.0, 1.0, as_of=19)))
        assert (before.status, before.ended_by) == ('current', 'end: gone')
        assert not memory.query(near(0.0, 1.0, as_of=20))
        assert only(memory.query(MemoryQuery(key='mug', known_seq=1, as_of=30))).valid_to is None
        change = memory.changes().changes[-1]
        assert (change.op, change.keys, change.outcomes, change.actor) == ('end', ('mug',), ('END',), 'me')
        assert memory.history(key='mug').versions[-1].cause == 'end'

    def test_later_evidence_stays_whichever_came_first(
        self, memory: MemoryService, clock: ManualClock
    ) -> None:
        for key, early in (('mug', True), ('cup', False)):
            later = thing(0.0, 50, key=key, content='red')
            memory.write([thing(0.0, 1, key=key, content='red'), *([later] if early else [])])
            assert memory.end([key], 20 * NS) == 1
            if not early:
                memory.write([later])
            assert spans(memory, key) == [('red', 1, 20), ('red', 50, None)]

    def test_a_closed_version_ends_earlier_and_its_successor_stays(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, 1, key='mug', content='a'), thing(0.0, 30, key='mug', content='b')])
        assert memory.end(['mug'], 20 * NS) == 1
        assert spans(memory) == [('a', 1, 20), ('b', 30, None)]

    def test_at_the_same_time_the_later_one_wins(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, 20, key='mug', content='a')])
        assert memory.end(['mug'], 20 * NS) == 1
        assert spans(memory) == []
        memory.write([thing(0.0, 20, key='mug', content='a')])
        assert spans(memory) == [('a', 20, None)]

    def test_each_key_has_its_time_and_its_map(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, 1, key='mug', content='a'), thing(0.0, 1, key='cup', content='b')])
        memory.write([thing(0.0, 1, key='mug', content='c', scope={'map_id': 'hall'})])
        assert memory.end(['mug', 'cup', 'none'], [5 * NS, 7 * NS, NS]) == 2
        assert spans(memory, 'cup') == [('b', 1, 7)]
        assert spans(memory, scope={'map_id': 'hall'}) == [('c', 1, None)]
        assert memory.end(['mug'], 9 * NS, map_id='hall') == 1

    def test_what_held_before_or_not_at_all_ends_nothing(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, 10, key='mug', content='a')])
        before = state_of(memory)
        assert memory.end(['mug'], 9 * NS) == 0
        assert memory.end(['mug'], 20 * NS, dry_run=True) == 1
        assert memory.end(['mug'], 20 * NS, kind=MemoryKind.SEMANTIC) == 0
        assert memory.end([], 20 * NS) == 0
        assert state_of(memory) == before
        assert memory.end(['mug'], 20 * NS) == 1
        assert memory.end(['mug'], 20 * NS) == 0

    @pytest.mark.parametrize(
        ('keys', 'options', 'named'),
        [
            (['mug'], {'at_ns': -1}, 'at_ns'),
            (['mug'], {'at_ns': 2**62}, 'at_ns'),
            (['mug'], {'at_ns': [1, 2]}, 'at_ns'),
            ([' '], {'at_ns': 1}, r'keys\[0\]'),
            (['mug', 'mug'], {'at_ns': 1}, 'twice'),
            (['mug'], {'at_ns': 1, 'kind': 'working'}, 'kind'),
            (['mug'], {'at_ns': 1, 'kind': 'none'}, 'kind'),
            (['mug'], {'at_ns': 1, 'map_id': ' '}, 'map_id'),
            (['mug'], {'at_ns': 1, 'reason': '\ud800'}, 'reason'),
        ],
    )
    def test_what_makes_no_sense_is_refused_by_name(
        self, memory: MemoryService, keys: list[str], options: dict[str, Any], named: str
    ) -> None:
        memory.write([thing(0.0, 1, key='mug')])
        before = state_of(memory)
        with pytest.raises(InvalidRequestError, match=named):
            memory.end(keys, **options)
        assert state_of(memory) == before


class RetractClauses(Clauses):
    """A retract says that something was never true."""

    def test_what_came_before_goes_on(self, memory: MemoryService) -> None:
        memory.write([fact('A', 1)])
        memory.write([fact('B', 2)])
        assert memory.retract(MUG) == 1
        assert spans(memory) == [('A', 1, None)]

    def test_every_assertion_of_the_version_is_withdrawn(self, memory: MemoryService) -> None:
        memory.write([fact('A', 1), fact('B', 2), fact('B', 3), fact('B', 4)])
        assert memory.retract(MUG) == 1
        assert spans(memory) == [('A', 1, None)]
        memory.write([fact('C', 2.5)])
        assert spans(memory) == [('A', 1, 2.5), ('C', 2.5, None)]

    def test_another_version_with_the_same_content_stays(self, memory: MemoryService) -> None:
        memory.write([fact('A', 1), fact('B', 2), fact('A', 3)])
        assert memory.retract(MUG) == 1
        assert spans(memory) == [('A', 1, 2), ('B', 2, None)]

    def test_nothing_is_left_on_the_world_axis(self, memory: MemoryService) -> None:
        memory.write([fact('A', 1)])
        memory.retract(MUG)
        for as_of in (None, 1, 5, 1e6):
            assert not memory.query(MemoryQuery(key='mug', as_of=as_of, include_invalidated=True))
        assert contents(memory.query(MemoryQuery(key='mug', as_of=5, known_seq=1))) == ['A']

    def test_a_past_version_is_found_by_id_or_time(self, memory: MemoryService) -> None:
        ids = memory.write([fact('A', 1), fact('B', 2), fact('C', 3)]).ids
        assert memory.retract(MemoryQuery(ids=[ids[0]])) == 1
        assert spans(memory) == [('B', 2, 3), ('C', 3, None)]
        assert memory.retract(MemoryQuery(key='mug', as_of=2.5)) == 1
        assert spans(memory) == [('C', 3, None)]

    def test_it_may_take_every_version(self, memory: MemoryService) -> None:
        memory.write([fact('A', 1), fact('B', 2), fact('C', 3)])
        assert memory.retract(MemoryQuery(key='mug', include_invalidated=True)) == 3
        assert spans(memory) == []

    def test_what_was_withdrawn_may_be_said_again(self, memory: MemoryService) -> None:
        first = memory.write([fact('A', 1)]).ids
        memory.retract(MUG)
        result = memory.write([fact('A', 1)])
        assert (result.events[0].event, result.ids) == ('ADD', first)
        assert spans(memory) == [('A', 1, None)]

    def test_it_does_not_undo_a_forget(self, memory: MemoryService, clock: ManualClock) -> None:
        clock.set(100)
        ids = memory.write([fact('A', 1)]).ids
        memory.forget(MUG)
        assert memory.retract(MemoryQuery(ids=ids)) == 1
        memory.write([fact('B', 50)])
        assert spans(memory) == [('B', 50, 100)]

    @pytest.mark.parametrize('axis', [{'known_at': 5}, {'known_seq': 1}])
    def test_belief_is_changed_now(self, memory: MemoryService, axis: dict[str, Any]) -> None:
        with pytest.raises(InvalidRequestError, match='known'):
            memory.retract(MemoryQuery(key='mug', **axis))

    def test_a_retract_of_nothing_takes_no_sequence(self, memory: MemoryService) -> None:
        before = state_of(memory)
        removal = memory.retract(MUG)
        assert (removal, removal.sequence) == (0, memory.sequence)
        assert state_of(memory) == before
