"""What happens in an episode carries it, and what is remembered does not depend on that."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from perception.pieces import Turning, a_bag, a_pipeline, feed, open_memory, state_of, two_cameras
from service.episodes.pieces import EPISODIC, an_episode, events_of, fact, keys_of, summary_of
from support.clock import ManualClock

from hylo_memory_ros.model import Change, MemoryItem, MemoryQuery
from hylo_memory_ros.perception import Message
from hylo_memory_ros.service import MemoryService


class TestCarrying:
    def test_every_transaction_from_begin_to_end_carries_it(self, memory: MemoryService) -> None:
        memory.write([fact('before')])
        begun = memory.begin_episode('run')
        assert (begun.id, begun.is_open, memory.current_episode) == ('run', True, 'run')
        memory.write([fact('inside')])
        memory.forget(MemoryQuery(key='before'))
        ended = memory.end_episode(outcome='success')
        memory.write([fact('after')])
        assert memory.current_episode == ''
        told = [(change.op, change.episode) for change in memory.changes().changes]
        assert told == [
            ('write', ''), ('begin_episode', 'run'), ('write', 'run'), ('forget', 'run'),
            ('end_episode', 'run'), ('write', ''),
        ]  # fmt: skip
        assert (ended.begin_seq, ended.end_seq, ended.outcome) == (2, 5, 'success')

    def test_hits_and_versions_tell_in_which_one_they_were_said(self, memory: MemoryService) -> None:
        memory.write([fact('before')])
        an_episode(memory, 'run', 'success', fact('inside'))
        told = {key: memory.query(MemoryQuery(key=key))[0].episode for key in ('before', 'inside')}
        assert told == {'before': '', 'inside': 'run'}
        versions = [memory.history(key=key).versions[0].episode for key in ('before', 'inside')]
        assert versions == ['', 'run']

    def test_listeners_of_the_feed_are_told(self, memory: MemoryService) -> None:
        told: list[Change] = []
        memory.subscribe(told.append)
        an_episode(memory, 'run', 'success', fact('inside'))
        assert [(change.op, change.episode) for change in told] == [
            ('begin_episode', 'run'), ('write', 'run'), ('end_episode', 'run'),
        ]  # fmt: skip

    def test_retrievals_inside_carry_it(self, memory: MemoryService) -> None:
        told: list[Change] = []
        got = threading.Event()
        memory.write([fact('dock')])
        memory.subscribe_retrievals(lambda change: (told.append(change), got.set()))
        memory.begin_episode('run')
        inside = memory.query(MemoryQuery(key='dock'), receipt=True)
        assert got.wait(10.0)
        memory.end_episode(outcome='success')
        outside = memory.query(MemoryQuery(key='dock'), receipt=True)
        assert [memory.receipt(one.receipt_id)['episode'] for one in (inside, outside)] == ['run', '']
        assert (told[0].op, told[0].episode) == ('retrieval', 'run')
        assert summary_of(memory, 'run').payload['retrievals'] == 1

    def test_ids_and_hashes_do_not_depend_on_it(self, memory: MemoryService, clock: ManualClock) -> None:
        item = fact('dock', valid_from=5)
        with MemoryService.open(clock=clock) as other:
            other.write([item])
            expected = other.snapshot()
        memory.begin_episode('run')
        memory.write([item])
        assert memory.snapshot() == expected
        assert memory.write([item]).events[0].event == 'SKIP_DUP'
        memory.end_episode(outcome='success')
        assert memory.snapshot() != expected
        memory.purge(MemoryQuery(kinds=EPISODIC))
        assert memory.snapshot() == expected

    def test_working_memory_knows_the_one_in_which_it_was_told(self, memory: MemoryService) -> None:
        def told(name: str) -> set[str]:
            return keys_of(memory, kinds=frozenset({'working'}), episode=name)

        aim = MemoryItem(kind='working', key='aim', content='the dock')
        memory.write([MemoryItem(kind='working', key='before', content='x'), aim])
        memory.begin_episode('run')
        memory.write([MemoryItem(kind='working', key='inside', content='x')])
        assert told('run') == {'inside'}
        memory.write([aim])
        assert (told('run'), told('other')) == ({'inside', 'aim'}, set())
        memory.end_episode(outcome='success')

    def test_a_purge_of_another_memory_leaves_what_is_open(self, memory: MemoryService) -> None:
        memory.begin_episode('run', note='for nobody')
        memory.write([fact('dock')])
        memory.purge(MemoryQuery(episode='run'))
        assert memory.current_episode == 'run'
        assert [one.id for one in memory.episodes()] == ['run']
        memory.end_episode(outcome='success')
        assert events_of(memory, 'run') == []


@pytest.fixture(scope='module')
def bag() -> list[Message]:
    return a_bag()[:240]


@pytest.fixture(scope='module')
def seen(bag: list[Message]) -> tuple[Any, ...]:
    with open_memory() as memory:
        pipeline = a_pipeline(memory, two_cameras(), Turning())
        feed(pipeline, bag)
        pipeline.close()
        return state_of(memory)


@pytest.mark.parametrize(('begin', 'end', 'every'), [(0, 1, 1), (10, 200, 1), (37, 150, 13)])
def test_perception_carries_it_and_its_memory_does_not_depend_on_it(
    bag: list[Message], seen: tuple[Any, ...], begin: int, end: int, every: int
) -> None:
    with open_memory() as memory:
        pipeline = a_pipeline(memory, two_cameras(), Turning())
        feed(pipeline, bag[:begin], commit_every=every)
        memory.begin_episode('run')
        feed(pipeline, bag[begin:end], commit_every=every)
        memory.end_episode(outcome='success', events=0)
        feed(pipeline, bag[end:], commit_every=every)
        pipeline.close()
        assert memory.verify().ok
        carried = {change.episode for change in memory.changes().changes if change.op == 'write'}
        assert ('run' in carried) == (every == 1 and end > 1)
        # Only what the end wrote is in the hash.
        memory.purge(MemoryQuery(kinds=EPISODIC))
        assert state_of(memory) == seen


def test_names_are_made_by_the_clock_or_taken_from_the_scope(
    memory: MemoryService, clock: ManualClock
) -> None:
    names = []
    for _ in range(3):
        names.append(memory.begin_episode().id)
        memory.end_episode(outcome='success')
    name = 'episode-19700101T001640Z'
    assert names == [name, f'{name}-2', f'{name}-3']
    assert memory.begin_episode(scope={'episode_id': 'mine', 'task_id': 't'}).id == 'mine'
    assert memory.end_episode('mine', 'success').scope == {'task_id': 't'}
