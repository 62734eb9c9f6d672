"""What a write accepts, refuses and repeats."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from storage.clauses.base import NS, Clauses, ManualClock, contents, fact, only, spans, state_of, thing

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import (
    ClockError,
    HyloMemoryError,
    IdConflictError,
    InvalidRequestError,
    SkillGateError,
    StoreError,
)
from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.unit_of_work import UnitOfWork

MUG = MemoryQuery(key='mug')


class WritingClauses(Clauses):
    """One call, one transaction: all or nothing, once."""

    def test_all_or_nothing(self, memory: MemoryService) -> None:
        memory.write([fact('kept', 1, id='x')])
        before = state_of(memory)
        batch = [
            fact('a', 1, key='a'), fact('w', 1, key='w', kind='working'),
            thing(0.0, scope={'map_id': 'attic'}),
            fact('other', 1, id='x'),
        ]  # fmt: skip
        with pytest.raises(IdConflictError, match=r"items\[\d\]\.id: 'x'"):
            memory.write(batch)
        assert state_of(memory) == before
        assert not memory.query(MemoryQuery(keys=['a', 'w']))

    def test_ids_are_the_same_everywhere(self, memory: MemoryService) -> None:
        items = [fact('a', 1), thing(1.0, 2, label='cup'), fact('b', 3, key=None, kind='episodic')]
        with self.open_memory(ManualClock(9999.0)) as other:
            other.write([fact('earlier', 1, key='first')])
            ids = other.write(list(reversed(items))).ids
            assert memory.write(items).ids == tuple(reversed(ids))
        assert [one.split('/')[0] for one in reversed(ids)] == ['semantic', 'spatial', 'episodic']

    def test_a_given_id_is_kept(self, memory: MemoryService) -> None:
        assert memory.write([fact('a', 1, id='my-id')]).ids == ('my-id',)
        assert only(memory.query(MemoryQuery(ids=['my-id']))).item.content == 'a'
        assert memory.write([fact('a', 1, id='my-id')]).events[0].event == 'SKIP_DUP'

    @pytest.mark.parametrize('fields', [{'content': 'b'}, {'at': 2}, {'key': 'cup'}, {'kind': 'episodic'}])
    def test_an_id_names_one_statement(self, memory: MemoryService, fields: dict[str, Any]) -> None:
        memory.write([fact('a', 1, id='my-id')])
        before = state_of(memory)
        with pytest.raises(IdConflictError, match='my-id'):
            memory.write([fact(**{'content': 'a', 'at': 1, 'id': 'my-id', **fields})])
        with pytest.raises(IdConflictError, match='two'):
            memory.write([fact('a', 1, id='two'), fact(**{'content': 'a', 'at': 1, 'id': 'two', **fields})])
        assert state_of(memory) == before

    def test_an_id_is_not_free_again_after_a_retract(self, memory: MemoryService) -> None:
        memory.write([fact('a', 1, id='my-id')])
        memory.retract(MUG)
        with pytest.raises(IdConflictError):
            memory.write([fact('b', 1, id='my-id')])
        assert memory.write([fact('a', 1, id='my-id')]).events[0].event == 'ADD'

    @pytest.mark.parametrize('key', ['mug', None])
    def test_a_repeated_call_without_a_time_is_no_conflict(
        self, memory: MemoryService, clock: ManualClock, key: str | None
    ) -> None:
        memory.write([fact('a', None, key=key, id='my-id')])
        clock.set(2000)
        (event,) = memory.write([fact('a', None, key=key, id='my-id')]).events
        assert (event.event, event.id) == ('SKIP_DUP', 'my-id')

    def test_a_request_is_answered_once(self, memory: MemoryService, clock: ManualClock) -> None:
        first = memory.write([fact('a', 1), fact('b', 2)], request_id='r1')
        memory.write([fact('c', 3)])
        before = state_of(memory)
        clock.set(2000)
        assert memory.write([fact('a', 1), fact('b', 2)], request_id='r1') == first
        assert memory.write([fact('x', 1), fact('y', 2)], request_id='r1') == first
        with pytest.raises(InvalidRequestError, match='request_id'):
            memory.write([fact('a', 1)], request_id='r1')
        assert state_of(memory) == before
        again = memory.write([fact('a', 1)], request_id='r2')
        assert (again.sequence, again.events[0].event) == (first.sequence + 2, 'SKIP_DUP')

    def test_a_refused_request_may_be_repeated(self, memory: MemoryService) -> None:
        memory.write([fact('x', 1, id='x')])
        with pytest.raises(IdConflictError):
            memory.write([fact('a', 1, id='x')], request_id='r1')
        assert memory.write([fact('a', 2)], request_id='r1').events[0].event == 'INVALIDATE'

    def test_answers_are_kept_for_a_while(self, clock: ManualClock) -> None:
        with self.open_memory(clock, MemoryConfig(request_retention=5)) as memory:
            first = memory.write([fact('a', 1)], request_id='r0')
            for n in range(3):
                memory.write([fact('b', 2 + n)], request_id=f's{n}')
            assert memory.write([fact('a', 1)], request_id='r0') == first
            for n in range(10):
                memory.write([fact('c', 20 + n)], request_id=f't{n}')
            assert memory.write([fact('a', 1)], request_id='r0').sequence > first.sequence

    def test_a_rehearsal_tells_and_stores_nothing(self, memory: MemoryService) -> None:
        memory.write([fact('a', 1)])
        before = state_of(memory)
        batch = [
            fact('b', 2),
            fact('a', 1),
            thing(0.0, scope={'map_id': 'new'}),
            fact('w', 1, kind='working'),
        ]
        rehearsed = memory.write(batch, dry_run=True, request_id='r1')
        assert state_of(memory) == before
        assert memory.query(MemoryQuery(keys=['mug'])).total == 1
        assert memory.write(batch, request_id='r1') == rehearsed
        assert rehearsed.sequence == memory.sequence

    def test_an_empty_call_is_refused(self, memory: MemoryService) -> None:
        with pytest.raises(InvalidRequestError, match='items'):
            memory.write([])

    def test_limits_name_every_problem_at_once(self, clock: ManualClock) -> None:
        config = MemoryConfig(
            max_items_per_write=4, max_payload_bytes=20, max_payload_depth=3, max_content_bytes=10
        )
        with self.open_memory(clock, config) as memory:
            before = state_of(memory)
            bad = [
                fact('ok', 1), fact('a', 1, payload={'k': 'x' * 20}), fact('\u00e4' * 6, 1),
                fact('a', 1, payload={'a': {'b': {'c': {}}}}),
            ]  # fmt: skip
            with pytest.raises(InvalidRequestError) as refusal:
                memory.write(bad)
            for part in ('items[1].payload', 'items[2].content: 12 bytes', 'items[3].payload: nested 4 deep'):
                assert part in refusal.value.message
            assert refusal.value.details['limit'] == [20, 10, 3]
            with pytest.raises(InvalidRequestError, match='5 in one write, at most 4') as refusal:
                memory.write([fact('a', n) for n in range(5)])
            assert refusal.value.details['limit'] == 4
            assert state_of(memory) == before
            memory.write([fact('\u00e4' * 5, 1, payload={'k': {'k': {'k': 1}}})])

    def test_a_skill_without_its_payload_or_its_evidence_is_refused(self, memory: MemoryService) -> None:
        with pytest.raises(InvalidRequestError, match=r'items\[1\]\.payload: \$\.status'):
            memory.write([fact('a', 1), fact('b', 1, kind='skill')])
        payload = {'params': {}, 'api_surface': 'a@1', 'status': 'verified'}
        with pytest.raises(SkillGateError, match=r'items\[1\]\.payload: \$\.status'):
            memory.write([fact('a', 1), fact('b', 1, kind='skill', payload=payload)])
        assert memory.sequence == 0

    @pytest.mark.parametrize(
        ('fields', 'name'),
        [
            ({'at': 99}, 'valid_from'),
            ({'event_time': {'start': 99}}, 'event_time.start'),
            ({'pose': {'frame_id': 'map', 'position': (0, 0, 0), 'stamp': 99}}, 'pose.stamp'),
            ({}, 'valid_from'),
        ],
    )
    def test_stamps_before_the_first_valid_one_are_refused(self, fields: dict[str, Any], name: str) -> None:
        clock = ManualClock(50.0)
        with self.open_memory(clock, MemoryConfig(min_valid_stamp_s=100)) as memory:
            with pytest.raises(ClockError, match=name):
                memory.write([fact('ok', 100, key='ok'), fact('a', **fields)])
            assert memory.sequence == 0
            clock.set(100)
            memory.write([fact('ok', 100, key='ok'), fact('a')])

    @pytest.mark.parametrize('where', ['request_id', 'actor'])
    def test_what_is_no_text_is_refused(self, memory: MemoryService, where: str) -> None:
        with pytest.raises(HyloMemoryError, match=where):
            memory.write([fact('a', 1)], **{where: 'x\ud800'})
        assert memory.sequence == 0

    @pytest.mark.parametrize('operation', ['forget', 'retract', 'purge'])
    @pytest.mark.parametrize('where', ['reason', 'actor'])
    def test_what_is_no_text_removes_nothing(self, memory: MemoryService, operation: str, where: str) -> None:
        memory.write([fact('a', 1)])
        with pytest.raises(HyloMemoryError, match=where):
            getattr(memory, operation)(MUG, **{where: 'x\ud800'})
        assert memory.sequence == 1

    def test_numbers_beyond_the_store_reach_nobody(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, key='mug')])
        assert memory.query(MemoryQuery(key='mug', known_seq=2**64)).total == 1
        assert memory.query(MemoryQuery(near=(thing(0.0).pose, 1.0), known_seq=2**64)).total == 1
        assert memory.changes((memory.epoch, 2**64)).changes == ()
        assert len(memory.changes(limit=2**64).changes) == 1
        assert len(memory.history(key='mug', limit=2**64).versions) == 1

    def test_side_tables_commit_with_the_items(self, memory: MemoryService) -> None:
        seen = []

        def fail(uow: UnitOfWork) -> None:
            seen.append(uow.sequence)
            raise StoreError('no')

        with pytest.raises(StoreError, match='no'):
            memory.write([fact('a', 1)], within=fail)
        assert (seen, memory.sequence, memory.query(MUG).total) == ([1], 0, 0)
        memory.write([fact('a', 1)], within=lambda uow: seen.append(uow.sequence))
        assert seen == [1, 1]

    def test_a_quick_commit_is_a_commit(self, memory: MemoryService) -> None:
        memory.write([fact('a', 1)], durable=False)
        memory.write([fact('b', 2)], durable=True)
        memory.write([fact('c', 3)], durable=False)
        assert spans(memory) == [('a', 1, 2), ('b', 2, 3), ('c', 3, None)]

    def test_everything_is_refused_after_closing(self, clock: ManualClock) -> None:
        memory = self.open_memory(clock)
        memory.close()
        memory.close()
        calls = (
            lambda: memory.write([fact('a', 1)]), lambda: memory.query(MUG), lambda: memory.forget(MUG),
            lambda: memory.retract(MUG), lambda: memory.purge(MUG), lambda: memory.history(key='mug'),
            memory.changes,
            memory.snapshot, memory.manifest, memory.verify, memory.counts, lambda: memory.set_map('hall'),
            lambda: memory.restore('/nowhere'),
        )  # fmt: skip
        for call in calls:
            with pytest.raises(StoreError, match='closed'):
                call()

    def test_the_mirror_may_load_in_the_background(self, clock: ManualClock) -> None:
        with self.open_memory(clock, background=True) as memory:
            memory.write([thing(0.0, key='mug')])
            assert memory.wait_ready(30)
            assert memory.query(MemoryQuery(near=(thing(0.0).pose, 1.0))).total == 1
            assert memory.verify().ok


class ConcurrencyClauses(Clauses):
    """Many threads, one truth."""

    def test_fifty_threads_on_one_key_leave_one_open(self, memory: MemoryService) -> None:
        start = threading.Barrier(50)
        failures: list[BaseException] = []

        def write(number: int) -> None:
            try:
                start.wait(30)
                memory.write([thing(number, number + 1, key='cup', content=f'state {number}')])
            except BaseException as exc:
                failures.append(exc)
                raise

        threads = [threading.Thread(target=write, args=(number,)) for number in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []
        line = spans(memory, 'cup')
        assert [(start, end) for _, start, end in line] == [
            (n, n + 1 if n < 50 else None) for n in range(1, 51)
        ]
        assert memory.query(MemoryQuery(key='cup')).total == 1
        assert memory.sequence == 50
        report = memory.verify()
        assert (report.ok, report.versions) == (True, 50)

    def test_a_query_sees_every_write_that_returned(self, memory: MemoryService) -> None:
        stop = threading.Event()
        failures: list[object] = []

        def ask() -> None:
            while not stop.is_set():
                least = memory.sequence
                result = memory.query(MemoryQuery(near=(thing(0.0).pose, 1.0), k=1000))
                if result.sequence < least or len(result) != result.total:
                    failures.append((least, result.sequence, len(result), result.total))

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for number in range(60):
                memory.write([thing(0.0, key=f'k{number}')])
                assert memory.query(MemoryQuery(near=(thing(0.0).pose, 1.0), k=0)).total == number + 1
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        assert failures == []


class WorkingClauses(Clauses):
    """Working memory: in this process, bounded, without a past."""

    def test_it_is_written_and_found_like_any_other(self, memory: MemoryService) -> None:
        result = memory.write([fact('goal', 1, key='goal', kind='working'), fact('a', 1)])
        assert [event.event for event in result.events] == ['ADD', 'ADD']
        assert result.events[0].id.startswith('working/')
        assert contents(memory.query(MemoryQuery(key='goal'))) == ['goal']
        assert memory.counts() == {'semantic': 1, 'working': 1}
        assert memory.query(MemoryQuery(kinds=['working'])).total == 1

    def test_a_new_value_takes_the_place_of_the_old(self, memory: MemoryService) -> None:
        first = memory.write([fact('one', key='goal', kind='working')]).ids[0]
        (event,) = memory.write([fact('two', key='goal', kind='working')]).events
        assert (event.event, event.closed_id) == ('INVALIDATE', first)
        assert memory.write([fact('two', key='goal', kind='working')]).events[0].event == 'SKIP_DUP'
        assert contents(memory.query(MemoryQuery(key='goal'))) == ['two']

    def test_it_takes_no_sequence(self, memory: MemoryService) -> None:
        digest = memory.snapshot()
        memory.write([fact('one', key='goal', kind='working')])
        assert (memory.sequence, memory.snapshot(), memory.changes().changes) == (0, digest, ())

    def test_the_least_recently_used_leaves_first(self, clock: ManualClock) -> None:
        with self.open_memory(clock, MemoryConfig(working_capacity=3)) as memory:
            for key in 'abc':
                memory.write([fact(key, key=key, kind='working')])
            assert memory.query(MemoryQuery(key='a'))
            memory.write([fact('d', key='d', kind='working')])
            assert {hit.item.key for hit in memory.query(MemoryQuery(kinds=['working']))} == {'a', 'c', 'd'}
            for n in range(100):
                memory.write([fact('x', key=f'x{n}', kind='working')])
            assert memory.counts()['working'] == 3

    def test_every_filter_applies(self, memory: MemoryService) -> None:
        memory.write([
            thing(1.0, key='w', kind='working', label='cup', content='Red caf\u00e9-mug', entities=['ann'],
                  links=[('on', 't')], scope={'task_id': 't'}, event_time={'start': 5, 'end': 6},
                  confidence=0.5),
        ])  # fmt: skip
        place = thing(0.0).pose
        hits: list[dict[str, Any]] = [
            {'key': 'w'}, {'labels': ['cup']}, {'text': 'red'}, {'text': 'MUG cafe'}, {'text': 'cafe-mug'},
            {'text': 'ann'}, {'entities': ['ann']}, {'relation': ('on', 't')}, {'scope': {'task_id': 't'}},
            {'near': (place, 1.0)}, {'time_range': (6, 9)}, {'min_confidence': 0.5},
            {'near': (place, 1.0), 'min_score': 0.5},
        ]  # fmt: skip
        misses: list[dict[str, Any]] = [
            {'key': 'v'}, {'labels': ['mug']}, {'text': 're'}, {'text': 'mug-cafe'}, {'text': '*'},
            {'text': ''},
            {'entities': ['bob']}, {'relation': ('by', 't')}, {'scope': {'task_id': 'u'}},
            {'near': (place, 0.9)},
            {'time_range': (7, 9)}, {'min_confidence': 0.6}, {'near': (place, 1.0), 'min_score': 0.6},
            {'key': 'w', 'as_of': 0.5}, {'near': (place, 1.0), 'scope': {'map_id': 'lab'}},
        ]  # fmt: skip
        for filters in hits:
            assert memory.query(MemoryQuery(**filters)).total == 1, filters
        for filters in misses:
            result = memory.query(MemoryQuery(**filters))
            assert (result.total, len(result)) == (0, 0), filters

    def test_events_of_another_clock_are_left_out(self, memory: MemoryService) -> None:
        memory.write([fact('a', 1, kind='working', event_time={'start': 5, 'clock': 'sim'})])
        assert memory.query(MemoryQuery(time_range=(0, 9))).total == 0

    def test_it_can_be_taken_away(self, memory: MemoryService) -> None:
        for operation in (memory.forget, memory.retract, memory.purge):
            name = operation.__name__
            memory.write([fact('one', key=name, kind='working'), fact('two', 1, key=name)])
            query = MemoryQuery(key=name)
            assert operation(query, dry_run=True) == 2
            removal = operation(query)
            assert (removal, len(removal.ids)) == (2, 2), name
            assert memory.query(query).total == 0

    def test_answers_mix_both_in_order(self, memory: MemoryService) -> None:
        memory.write(
            [
                thing(x, key=f'{x}', kind=kind)
                for x, kind in ((2, 'spatial'), (1, 'working'), (3, 'spatial'), (0, 'spatial'))
            ]
        )
        query = MemoryQuery(near=(thing(0.0).pose, 5.0))
        assert [hit.item.key for hit in memory.query(query)] == ['0', '1', '2', '3']
        first = memory.query(query.model_copy(update={'k': 2}))
        assert ([hit.item.key for hit in first], first.total, first.truncated) == (['0', '1'], 4, True)
        rest = memory.query(query.model_copy(update={'k': 2, 'cursor': first.cursor}))
        assert ([hit.item.key for hit in rest], rest.total, rest.truncated) == (['2', '3'], 4, False)

    def test_what_a_reader_does_to_an_answer_stays_with_the_reader(self, memory: MemoryService) -> None:
        for kind in ('working', 'semantic'):
            memory.write([MemoryItem(kind=kind, key=kind, payload={'list': [1]}, valid_from=1)])
            only(memory.query(MemoryQuery(key=kind))).item.payload['list'].append(2)
            assert only(memory.query(MemoryQuery(key=kind))).item.payload == {'list': [1]}


__all__ = ['NS', 'ConcurrencyClauses', 'WorkingClauses', 'WritingClauses']
