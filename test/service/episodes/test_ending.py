"""What the end of an episode writes: outcome, counts, key events, in one transaction."""

from __future__ import annotations

from pathlib import Path

import pytest
from service.episodes.pieces import EPISODIC, HERE, an_episode, events_of, fact, keys_of, summary_of
from support.clock import NS, ManualClock

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import (
    StoreError,
)
from hylo_memory_ros.model import Episode, MemoryItem, MemoryKind, MemoryQuery, TimeSpan
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.unit_of_work import UnitOfWork


class TestEnd:
    def test_a_repetition_that_adds_something_is_counted_and_no_event(self, memory: MemoryService) -> None:
        memory.write([fact('door', 'open', valid_from=1)])
        memory.begin_episode('run')
        memory.write([fact('door', 'open', valid_from=2, evidence=['photo'])])
        memory.end_episode('run', 'success')
        item = summary_of(memory, 'run')
        assert item.payload['counts'] == {'CONFIRM': 1}
        assert '1 confirmed' in item.content
        assert events_of(memory, 'run') == []

    def test_its_outcome_counts_and_span_are_remembered(
        self, memory: MemoryService, clock: ManualClock
    ) -> None:
        memory.begin_episode('run', {'task_id': 'fetch'}, note='bring the cup')
        memory.write([fact('door', 'open'), MemoryItem(kind='spatial', key='cup', content='cup', pose=HERE)])
        clock.set(1010.0)
        memory.write([fact('door', 'locked')])
        memory.forget(MemoryQuery(key='cup'))
        clock.set(1020.5)
        ended = memory.end_episode('run', 'failure', 'the door stayed shut')
        assert (ended.duration_s, ended.note, ended.end_note) == (
            20.5, 'bring the cup', 'the door stayed shut',
        )  # fmt: skip
        item = summary_of(memory, 'run')
        assert item.kind is MemoryKind.EPISODIC
        assert item.label == 'episode'
        assert item.event_time == TimeSpan(start=1000, end=1020.5)
        assert item.valid_from == 1020.5
        assert item.scope == {'task_id': 'fetch', 'episode_id': 'run'}
        assert item.payload == {
            'episode': 'run', 'outcome': 'failure', 'begun_ns': 1000 * NS, 'ended_ns': 1_020_500_000_000,
            'counts': {'ADD': 2, 'FORGET': 1, 'INVALIDATE': 1}, 'kinds': {'semantic': 2, 'spatial': 1},
            'transactions': 4, 'retrievals': 0, 'verdicts': {},
        }  # fmt: skip
        assert item.content == (
            'Episode run ended after 20.5 s: failure. 2 added, 1 changed, 1 forgotten. '
            'bring the cup the door stayed shut'
        )
        assert memory.changes().changes[-1].keys[-1] == 'episode/run'

    def test_key_events_are_remembered_at_their_own_time(
        self, memory: MemoryService, clock: ManualClock
    ) -> None:
        memory.begin_episode('run', {'task_id': 'fetch'})
        memory.write([fact('door', 'open', entities=('house',))])
        clock.set(1010.0)
        memory.write([fact('door', 'locked', entities=('house',))])
        memory.end_episode(outcome='failure')
        (event,) = memory.query(MemoryQuery(labels=['episode_event']))
        assert event.item.content == 'changed semantic door: locked'
        assert event.item.event_time == TimeSpan(start=1010, end=1010)
        assert event.item.entities == ('house',)
        assert event.item.scope == {'task_id': 'fetch', 'episode_id': 'run'}
        assert ('part_of', 'episode/run') in event.item.links
        (door,) = memory.query(MemoryQuery(key='door'))
        assert ('about', door.item.id) in event.item.links
        assert summary_of(memory, 'run').evidence == (event.item.id,)

    def test_what_says_most_comes_first_and_there_is_a_bound(
        self, memory: MemoryService, clock: ManualClock
    ) -> None:
        memory.write([fact('old'), fact('false'), fact('bad')])
        memory.begin_episode('run')
        answer = memory.query(MemoryQuery(key='bad'), receipt=True)
        memory.feedback('wrong', receipt_id=answer.receipt_id)
        for number in range(20):
            clock.set(1001.0 + number)
            memory.write([fact(f'new {number}', 'x' * 500)])
        memory.forget(MemoryQuery(key='old'))
        clock.set(1021.0)
        memory.retract(MemoryQuery(key='false'))
        memory.end_episode(outcome='success', events=4)
        said = events_of(memory, 'run')
        assert [content.split(':')[0] for content in said] == [
            'judged wrong semantic bad', 'learned semantic new 19', 'forgot semantic old',
            'withdrew semantic false',
        ]  # fmt: skip
        assert max(map(len, said)) < 320
        payload = summary_of(memory, 'run').payload
        assert (payload['counts'], payload['verdicts']) == (
            {'ADD': 20, 'FORGET': 1, 'RETRACT': 1},
            {'wrong': 1},
        )

    def test_what_the_robot_wrote_as_episodic_is_named_and_not_repeated(self, memory: MemoryService) -> None:
        memory.begin_episode('run')
        slipped = MemoryItem(kind='episodic', content='the gripper slipped')
        written = memory.write([slipped])
        memory.end_episode(outcome='failure')
        assert events_of(memory, 'run') == []
        assert summary_of(memory, 'run').evidence == written.ids
        assert 'the gripper slipped' in keys_of(memory, outcome='failure')

    def test_without_key_events_only_the_summary_is_written(self, memory: MemoryService) -> None:
        memory.begin_episode('run')
        memory.write([fact('dock')])
        memory.end_episode(outcome='success', events=0)
        assert keys_of(memory, kinds=EPISODIC) == {'episode/run'}

    def test_the_same_work_is_remembered_in_the_same_words(self, clock: ManualClock, tmp_path: Path) -> None:
        told = []
        for _ in range(2):
            clock.set(1000.0)
            with MemoryService.open(clock=clock) as memory:
                memory.begin_episode()
                memory.write([fact(f'k{number}') for number in range(30)])
                clock.set(1100.0)
                memory.end_episode(outcome='success')
                told.append((memory.snapshot(), sorted(keys_of(memory, kinds=EPISODIC))))
        assert told[0] == told[1]

    def test_listeners_act_in_the_transaction_of_the_end(self, memory: MemoryService) -> None:
        def count(uow: UnitOfWork, ended: Episode) -> None:
            uow.state.put('ended', uow.state.get('ended') + ended.id.encode())

        def refuse(uow: UnitOfWork, ended: Episode) -> None:
            raise StoreError(f'{ended.id} is not judged')

        count_no_more, refuse_no_more = memory.on_episode_end(count), memory.on_episode_end(refuse)
        memory.begin_episode('run')
        with pytest.raises(StoreError, match='run is not judged'):
            memory.end_episode(outcome='success')
        assert (memory.current_episode, keys_of(memory)) == ('run', set())
        refuse_no_more()
        memory.end_episode(outcome='success')
        count_no_more()
        an_episode(memory, 'next', 'success')
        with memory.read() as view:
            assert view.state.get('ended') == b'run'

    def test_a_feed_that_lost_its_beginning_says_so(self, clock: ManualClock) -> None:
        with MemoryService.open(clock=clock, config=MemoryConfig(event_retention=100)) as memory:
            memory.begin_episode('run')
            for number in range(300):
                memory.write([fact(f'k{number}')])
            memory.end_episode(outcome='success')
            payload = summary_of(memory, 'run').payload
            assert payload['complete'] is False
            assert payload['kinds'] == {'semantic': 300}

    def test_no_limit_for_callers_keeps_it_open(self, clock: ManualClock) -> None:
        config = MemoryConfig(max_items_per_write=1, max_content_bytes=8, max_payload_bytes=8)
        with MemoryService.open(clock=clock, config=config) as memory:
            memory.begin_episode('run', note='n' * 1000)
            for key in 'abc':
                memory.write([fact(key, 'x')])
            memory.end_episode(outcome='success')
            assert len(events_of(memory, 'run')) == 3


@pytest.mark.parametrize('removed', ['forget', 'retract'])
def test_what_was_archived_meanwhile_is_remembered_too(tmp_path: Path, removed: str) -> None:
    told = []
    for cools in (False, True):
        path = tmp_path / f'{cools}.db'
        with MemoryService.open(f'sqlite:///{path}', clock=ManualClock(1000.0)) as memory:
            (before,) = memory.write(
                [MemoryItem(kind='semantic', key='old', content='said before', valid_from=1)]
            ).ids
            memory.begin_episode('e')
            memory.write(
                [
                    MemoryItem(kind='semantic', key=f'k{number}', content='c', valid_from=100 + number)
                    for number in range(2)
                ]
            )
            memory.feedback('wrong', ids=[before])
            getattr(memory, removed)(MemoryQuery(keys=('k0', 'old')))
            if cools:
                store = memory._core.store
                assert (
                    store.archive.move([one.identity_id for one in store.archive.archivable()]).assertions
                    == 2
                )
            memory.end_episode(outcome='success')
            found = memory.query(MemoryQuery(episode='e', kinds=['episodic'], k=50))
            told.append(([hit.item.content for hit in found], memory.snapshot()))
            assert memory.verify().ok
    assert told[0] == told[1]
