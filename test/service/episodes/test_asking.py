"""Questions by episode, by outcome and by time window, now and as it was known."""

from __future__ import annotations

from typing import Any

import pytest
from service.episodes.pieces import HERE, an_episode, fact, facts_of, keys_of
from support.clock import NS, ManualClock

from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.perception.corrections.trajectory import RigidCorrection
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.transforms import Transform


class TestAsking:
    @pytest.fixture
    def memory(self, memory: MemoryService, clock: ManualClock) -> MemoryService:
        memory.write([fact('early'), fact('twice', valid_from=1)])
        an_episode(memory, 'one', 'success', fact('first'), scope={'task_id': 'fetch'})
        clock.set(2000.0)
        memory.begin_episode('two', {'task_id': 'fetch', 'robot_id': 'r1'})
        clock.set(2010.0)
        memory.write([fact('second'), fact('twice', valid_from=2)])
        clock.set(2020.0)
        memory.end_episode(outcome='failure')
        clock.set(3000.0)
        memory.write([fact('late'), fact('scoped', scope={'episode_id': 'one'})])
        return memory

    def test_by_episode_what_was_said_in_it_again_or_is_scoped_so(self, memory: MemoryService) -> None:
        assert facts_of(memory, episode='one') == {'first', 'scoped'}
        assert facts_of(memory, episode='two') == {'second', 'twice'}
        assert facts_of(memory, episode='three') == set()

    def test_by_outcome(self, memory: MemoryService) -> None:
        assert facts_of(memory, outcome='success') == {'first', 'scoped'}
        assert facts_of(memory, outcome='failure') == {'second', 'twice'}
        assert facts_of(memory, outcome='aborted') == set()
        assert facts_of(memory, outcome='failure', episode='two') == {'second', 'twice'}
        assert facts_of(memory, outcome='success', episode='two') == set()

    def test_by_time_window(self, memory: MemoryService) -> None:
        def summaries(start: float | None, end: float | None) -> set[str]:
            return keys_of(memory, labels=['episode'], time_range=(start, end))

        assert summaries(2015, 2016) == {'episode/two'}
        assert summaries(None, 1500) == {'episode/one'}
        assert summaries(1000, 2000) == {'episode/one', 'episode/two'}
        assert summaries(2021, None) == set()

    def test_beside_every_other_filter(self, memory: MemoryService) -> None:
        memory.begin_episode('three')
        places = [Pose(frame_id='map', position=(float(x), 0.0, 0.0)) for x in range(5)]
        cups = [
            MemoryItem(kind='spatial', key=f'cup {x}', content='a cup', pose=pose)
            for x, pose in enumerate(places)
        ]
        memory.write(cups)
        memory.end_episode(outcome='success')
        memory.write([MemoryItem(kind='spatial', key='plate', content='a cup', pose=HERE)])
        near = (places[0], 2.5)
        assert facts_of(memory, near=near, episode='three') == {'cup 0', 'cup 1', 'cup 2'}
        assert facts_of(memory, near=near, text='cup', outcome='success') == {'cup 0', 'cup 1', 'cup 2'}
        page = memory.query(MemoryQuery(episode='three', kinds=['spatial'], k=2))
        rest = memory.query(MemoryQuery(episode='three', kinds=['spatial'], k=10, cursor=page.cursor))
        assert (page.total, len(page), len(rest)) == (5, 2, 3)

    def test_the_past_knows_what_was_known_then(self, memory: MemoryService) -> None:
        by_id = {one.id: one for one in memory.episodes()}
        before_end = by_id['two'].end_seq - 1  # type: ignore[operator]
        assert facts_of(memory, outcome='failure', known_seq=before_end) == set()
        assert facts_of(memory, episode='two', known_seq=before_end) == {'second', 'twice'}
        assert facts_of(memory, episode='two', known_seq=by_id['two'].begin_seq) == set()
        assert facts_of(memory, episode='one', known_seq=before_end) == {'first'}
        assert facts_of(memory, outcome='failure', known_at=2015) == set()
        assert facts_of(memory, outcome='failure', known_at=2020) == {'second', 'twice'}
        assert facts_of(memory, outcome='failure', as_of=1500, include_invalidated=True) == {
            'second',
            'twice',
        }

    def test_what_was_withdrawn_is_no_longer_said_in_it(self, memory: MemoryService) -> None:
        sequence = memory.sequence
        memory.retract(MemoryQuery(key='twice'))
        assert facts_of(memory, episode='two') == {'second'}
        assert facts_of(memory, episode='two', known_seq=sequence) == {'second', 'twice'}

    def test_what_moved_with_the_map_is_still_said_in_it(self, memory: MemoryService) -> None:
        cup = MemoryItem(
            kind='spatial', key='cup', content='cup', pose=HERE, scope={'map_id': 'm'}, valid_from=1
        )
        memory.set_map('m')
        memory.write([cup])
        moved = memory.correct_map(RigidCorrection(Transform((5.0, 0.0, 0.0))))
        assert moved.moved == 1
        an_episode(memory, 'three', 'success', cup.model_copy(update={'valid_from_ns': 3 * NS}))
        assert facts_of(memory, episode='three') == {'cup'}

    def test_a_list_of_episodes(self, memory: MemoryService) -> None:
        memory.begin_episode('three')

        def listed(**asked: Any) -> list[str]:
            return [one.id for one in memory.episodes(**asked)]

        assert listed() == ['three', 'two', 'one']
        assert listed(limit=1) == ['three']
        assert listed(outcome='success') == ['one']
        assert listed(scope={'task_id': 'fetch'}) == ['two', 'one']
        assert listed(scope={'task_id': 'fetch', 'robot_id': 'r1'}) == ['two']
        assert listed(time_range_ns=(1500 * NS, 2005 * NS)) == ['two']
        assert listed(time_range_ns=(5000 * NS, None)) == ['three']
        assert listed(known_at_ns=2015 * NS) == ['two', 'one']
        (two,) = memory.episodes(time_range_ns=(2000 * NS, 2001 * NS), known_at_ns=2015 * NS)
        assert (two.is_open, two.outcome, two.ended_ns) == (True, '', None)
        assert listed(outcome='failure', known_at_ns=2015 * NS) == []
        assert listed(known_seq=0) == []

    def test_removals_by_episode(self, memory: MemoryService) -> None:
        assert memory.forget(MemoryQuery(episode='two', kinds=['semantic'])) == 2
        assert facts_of(memory, episode='two') == set()
        assert 'early' in facts_of(memory)
