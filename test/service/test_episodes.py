"""Episodes: what happens in one carries it, its end is remembered, and the past still knows it as it was."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from landmarks.pieces import Turning, a_bag, a_pipeline, feed, open_memory, state_of, two_cameras
from support.child import TIMEOUT_S, script
from support.clock import NS, ManualClock

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import (
    ClockError,
    HyloMemoryError,
    InvalidRequestError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
)
from hylo_memory_ros.frames import Transform
from hylo_memory_ros.landmarks import Message
from hylo_memory_ros.landmarks.trajectory import RigidCorrection
from hylo_memory_ros.model import Change, Episode, MemoryItem, MemoryKind, MemoryQuery, Pose, TimeSpan
from hylo_memory_ros.service import MemoryService

HERE = Pose(frame_id='map', position=(1.0, 2.0, 0.0))
EPISODIC = frozenset({'episodic'})


def fact(key: str, content: str = '', **fields: Any) -> MemoryItem:
    return MemoryItem(kind='semantic', key=key, content=content or f'about {key}', **fields)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'memory.db'


@pytest.fixture
def reopen(path: Path, clock: ManualClock) -> Callable[..., MemoryService]:
    def opened(**config: Any) -> MemoryService:
        return MemoryService.open(f'sqlite:///{path}', clock=clock, config=MemoryConfig(**config))

    return opened


@pytest.fixture
def memory(reopen: Callable[..., MemoryService]) -> Iterator[MemoryService]:
    """Whatever a test does, the memory verifies afterwards."""
    with reopen() as opened:
        yield opened
    with reopen() as opened:
        report = opened.verify()
        assert report.ok, report.problems


def keys_of(memory: MemoryService, **asked: Any) -> set[str]:
    hits = memory.query(MemoryQuery(k=100, any_map=True, **asked))
    return {hit.item.key or hit.item.content for hit in hits}


def facts_of(memory: MemoryService, **asked: Any) -> set[str]:
    return keys_of(memory, kinds=frozenset({'semantic', 'spatial'}), **asked)


def summary_of(memory: MemoryService, name: str) -> MemoryItem:
    (hit,) = memory.query(MemoryQuery(key=f'episode/{name}'))
    return hit.item


def events_of(memory: MemoryService, name: str) -> list[str]:
    query = MemoryQuery(labels=['episode_event'], scope={'episode_id': name}, k=100)
    hits = sorted(memory.query(query), key=lambda hit: hit.item.event_time.start_ns)  # type: ignore[union-attr]
    return [hit.item.content for hit in hits]


def an_episode(memory: MemoryService, name: str, outcome: str, *items: MemoryItem, **fields: Any) -> Episode:
    memory.begin_episode(name, **fields)
    if items:
        memory.write(items)
    return memory.end_episode(outcome=outcome)


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


class TestEnd:
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
        def count(connection: sa.Connection, ended: Episode) -> None:
            connection.exec_driver_sql('CREATE TABLE IF NOT EXISTS ended (id TEXT)')
            connection.exec_driver_sql('INSERT INTO ended VALUES (?)', (ended.id,))

        def refuse(connection: sa.Connection, ended: Episode) -> None:
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
        rows = memory.side_read(lambda c: c.exec_driver_sql('SELECT id FROM ended').scalars().all())
        assert rows == ['run']
        memory.side_write(lambda connection: connection.exec_driver_sql('DROP TABLE ended'))

    def test_a_feed_that_lost_its_beginning_says_so(self, clock: ManualClock) -> None:
        with MemoryService.open(clock=clock, config=MemoryConfig(event_retention=100)) as memory:
            memory.begin_episode('run')
            for number in range(300):
                memory.write([fact(f'k{number}')])
            memory.end_episode(outcome='success')
            payload = summary_of(memory, 'run').payload
            assert payload['complete'] is False
            assert payload['kinds'] == {'semantic': 300}


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


class TestRestart:
    def test_an_open_one_is_still_open(
        self, memory: MemoryService, reopen: Callable[..., MemoryService]
    ) -> None:
        memory.begin_episode('run', {'task_id': 'fetch'}, 'a note')
        memory.close()
        with reopen() as again:
            assert again.current_episode == 'run'
            again.write([fact('dock')])
            ended = again.end_episode(outcome='success')
            assert (ended.scope, ended.note) == ({'task_id': 'fetch'}, 'a note')
            assert facts_of(again, episode='run') == {'dock'}

    def test_it_has_ended_interrupted_where_that_is_configured(
        self, memory: MemoryService, reopen: Callable[..., MemoryService], clock: ManualClock
    ) -> None:
        memory.begin_episode('run')
        clock.set(1010.0)
        memory.write([fact('dock')])
        memory.close()
        clock.set(5000.0)
        with reopen(episode_at_restart='interrupt') as again:
            assert again.current_episode == ''
            (run,) = again.episodes('interrupted')
            assert (run.id, run.duration_s) == ('run', 10.0)
            assert facts_of(again, outcome='interrupted') == {'dock'}
            assert again.verify().ok
        with reopen(episode_at_restart='interrupt') as again:
            assert len(again.episodes()) == 1

    def test_it_survives_a_kill_right_after_its_begin(
        self, path: Path, reopen: Callable[..., MemoryService], clock: ManualClock
    ) -> None:
        code = """
            memory = MemoryService.open(url, clock=lambda: 10**12)
            memory.begin_episode('run', note='a note')
            tell(os.getpid())
            memory.write([fact(1)])
            tell('written')
            os.kill(os.getpid(), signal.SIGKILL)
        """
        done = subprocess.run(
            [*script(code), str(path.parent)], capture_output=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        with reopen() as memory:
            assert memory.current_episode == 'run'
            memory.end_episode(outcome='success')
            assert facts_of(memory, episode='run') == {'k1'}
            assert memory.verify().ok

    def test_its_end_is_whole_or_has_not_happened(
        self, path: Path, reopen: Callable[..., MemoryService]
    ) -> None:
        code = """
            import threading
            for moment in (0, 2, 5, 9):
                where = folder / str(moment)
                where.mkdir()
                child = os.fork()
                if not child:
                    memory = MemoryService.open(f'sqlite:///{where}/memory.db', clock=lambda: 10**12)
                    memory.begin_episode('run')
                    memory.write([fact(number) for number in range(200)])
                    end = lambda: os.kill(os.getpid(), signal.SIGKILL)
                    threading.Timer(moment / 1000, end).start()
                    memory.end_episode(outcome='success', events=200)
                    (where / 'ended').touch()
                    signal.pause()
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        """
        subprocess.run([*script(code), str(path.parent)], timeout=TIMEOUT_S, check=True)
        for moment in (0, 2, 5, 9):
            where = path.parent / str(moment)
            with MemoryService.open(f'sqlite:///{where}/memory.db', clock=ManualClock(1000.0)) as memory:
                ended = len(memory.episodes('success'))
                assert ended or not (where / 'ended').exists()
                assert len(keys_of(memory, kinds=EPISODIC)) == (100 if ended else 0)
                assert memory.current_episode == ('' if ended else 'run')
                assert memory.verify().ok

    def test_a_copy_has_them_and_a_restore_brings_them(self, memory: MemoryService, tmp_path: Path) -> None:
        an_episode(memory, 'one', 'success', fact('first'))
        memory.begin_episode('two')
        copy = tmp_path / 'copy.db'
        memory.snapshot(str(copy))
        memory.end_episode(outcome='failure')
        an_episode(memory, 'three', 'success')
        memory.restore(str(copy))
        assert memory.current_episode == 'two'
        assert [(one.id, one.outcome) for one in memory.episodes()] == [('two', ''), ('one', 'success')]
        assert facts_of(memory, outcome='success') == {'first'}
        assert memory.query(MemoryQuery(key='first'))[0].episode == 'one'
        memory.end_episode(outcome='success')

    def test_a_reader_of_a_live_file_sees_it(self, memory: MemoryService, path: Path) -> None:
        with MemoryService.open(f'sqlite:///{path}', read_only=True) as reader:
            an_episode(memory, 'run', 'success', fact('dock'))
            assert [one.id for one in reader.episodes()] == ['run']
            assert reader.query(MemoryQuery(key='dock'))[0].episode == 'run'
            with pytest.raises(ReadOnlyError):
                reader.begin_episode('other')


class TestPurge:
    def remains(self, path: Path, *words: str) -> set[str]:
        return {
            f'{file.name}: {word}'
            for file in path.parent.iterdir()
            for word in words
            if word.encode() in file.read_bytes()
        }

    def test_key_events_leave_with_what_they_are_about(self, memory: MemoryService, path: Path) -> None:
        memory.begin_episode('run', note='visit the lab')
        (secret, _) = memory.write([fact('zebra', 'a zebra lives here'), fact('dock')]).ids
        memory.forget(MemoryQuery(key='zebra'))
        memory.end_episode(outcome='success')
        events = memory.query(MemoryQuery(labels=['episode_event']))
        (about,) = (hit.item.id for hit in events if 'zebra' in hit.item.content)
        before = memory.query(MemoryQuery(key='episode/run'))[0]
        removal = memory.purge(MemoryQuery(key='zebra'))
        assert removal.ids == (secret, about)
        assert self.remains(path, 'zebra', secret, str(about)) == set()
        after = memory.query(MemoryQuery(key='episode/run'))[0]
        assert (after.item.content, after.sequence) == (before.item.content, before.sequence)
        assert set(before.item.evidence) - set(after.item.evidence) == {about}
        assert memory.episodes()[0].note == 'visit the lab'

    def test_notes_and_outcomes_that_tell_of_it_leave_and_the_summary_is_written_again(
        self, memory: MemoryService, path: Path
    ) -> None:
        memory.write([fact('zebra', 'Zoe the zebra', entities=('Zoe',)), fact('cat', 'the cat')])
        an_episode(memory, 'one', 'found zoe', fact('dock'), note='look for Zoe', scope={'task_id': 't'})
        an_episode(memory, 'two', 'success', note='look for the dock')
        memory.begin_episode('three', note='bring ZOE a cup')
        memory.purge(MemoryQuery(entities=['Zoe']))
        assert self.remains(path, 'Zoe', 'zoe', 'ZOE', 'zebra', 'Zebra') == set()
        told = {one.id: (one.note, one.outcome) for one in memory.episodes()}
        assert told == {'one': ('', 'purged'), 'two': ('look for the dock', 'success'), 'three': ('', '')}
        item = summary_of(memory, 'one')
        assert item.content == 'Episode one ended after 0.0 s: purged. 1 added.'
        assert (item.payload['outcome'], item.scope) == ('purged', {'task_id': 't', 'episode_id': 'one'})
        assert facts_of(memory, outcome='purged') == {'dock'}
        memory.end_episode(outcome='success')

    def test_words_that_others_say_too_stay(self, memory: MemoryService) -> None:
        memory.write([fact('cup', 'a cup of tea'), fact('pot', 'tea in a cup')])
        an_episode(memory, 'run', 'success', note='tea in a cup')
        memory.purge(MemoryQuery(ids=[memory.query(MemoryQuery(key='cup'))[0].item.id or '']))
        assert memory.episodes()[0].note == 'tea in a cup'

    def test_an_episode_of_which_nothing_is_left_has_no_name(self, memory: MemoryService, path: Path) -> None:
        an_episode(
            memory, 'zebra-visit', 'zebra fed', fact('dock'), note='feed the zebra', actor='zebra keeper',
            scope={'task_id': 'zebra'},
        )  # fmt: skip
        memory.begin_episode('next')
        answer = memory.query(MemoryQuery(key='dock'), receipt=True)
        memory.purge(MemoryQuery(episode='zebra-visit'))
        assert self.remains(path, 'zebra-visit', 'zebra fed', 'feed the zebra') == set()
        gone = memory.episodes()[-1]
        assert (gone.id, gone.outcome, gone.scope, gone.note, gone.actor) == (
            'purged-1',
            'purged',
            {},
            '',
            '',
        )
        assert memory.changes().changes[0].episode == 'purged-1'
        assert memory.receipt(answer.receipt_id)['episode'] == 'next'
        memory.end_episode(outcome='success')

    def test_receipts_forget_its_name_too(self, memory: MemoryService, path: Path) -> None:
        memory.begin_episode('zebra-visit')
        answer = memory.query(MemoryQuery(key='dock'), receipt=True)
        memory.end_episode(outcome='success')
        memory.purge(MemoryQuery(episode='zebra-visit'))
        assert memory.receipt(answer.receipt_id)['episode'] == 'purged-1'
        assert self.remains(path, 'zebra-visit') == set()

    def test_a_summary_alone_takes_its_notes_and_leaves_the_rest(self, memory: MemoryService) -> None:
        an_episode(memory, 'run', 'success', fact('dock'), note='a note')
        memory.purge(MemoryQuery(key='episode/run'))
        (run,) = memory.episodes('purged')
        assert (run.id, run.note) == ('run', '')
        assert facts_of(memory, episode='run', outcome='purged') == {'dock'}

    def test_what_is_cold_tells_as_before_and_leaves_too(
        self, memory: MemoryService, path: Path, clock: ManualClock
    ) -> None:
        (secret,) = memory.write([fact('zebra', 'a zebra lives here', valid_from=1)]).ids
        memory.begin_episode('run', note='feed it')
        memory.write([fact('dock', valid_from=1)])
        memory.forget(MemoryQuery(key='zebra'))
        memory.end_episode(outcome='success')
        clock.set(2000.0)
        memory.forget(MemoryQuery(episode='run'))
        ever = {'include_invalidated': True, 'kinds': frozenset({'semantic', 'episodic'})}
        before = [keys_of(memory, **asked, **ever) for asked in ({'episode': 'run'}, {'outcome': 'success'})]
        store = memory._store
        clock.set(3000.0)
        assert store.cool([one.identity_id for one in store.coolable()]).assertions > 3  # type: ignore[attr-defined]
        after = [keys_of(memory, **asked, **ever) for asked in ({'episode': 'run'}, {'outcome': 'success'})]
        assert (after, len(before[0])) == (before, 4)
        hits = memory.query(MemoryQuery(key='dock', include_invalidated=True))
        assert [hit.episode for hit in hits] == ['run']
        assert memory.history(key='dock').versions[0].episode == 'run'
        memory.purge(MemoryQuery(key='zebra'))
        assert self.remains(path, 'zebra', secret) == set()
        assert keys_of(memory, episode='run', **ever) == before[0] - {
            'forgot semantic zebra: a zebra lives here'
        }
        assert memory.episodes()[0].note == 'feed it'

    def test_a_trial_changes_nothing(self, memory: MemoryService) -> None:
        an_episode(memory, 'run', 'success', fact('zebra'), note='zebra')
        before = (memory.snapshot(), memory.episodes(), keys_of(memory))
        trial = memory.purge(MemoryQuery(key='zebra'), dry_run=True)
        assert (memory.snapshot(), memory.episodes(), keys_of(memory)) == before
        assert memory.purge(MemoryQuery(key='zebra')).ids == trial.ids


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

    def test_a_memory_that_is_closed(self, memory: MemoryService) -> None:
        memory.close()
        for call in (
            memory.begin_episode,
            lambda: memory.end_episode(outcome='x'),
            memory.episodes,
        ):
            with pytest.raises(StoreError, match='closed'):
                call()

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
            memory.side_write(lambda c: c.exec_driver_sql("UPDATE txn SET episode = 'x' WHERE sequence = 2"))
            problems = ' '.join(memory.verify().problems)
            assert "episode 'run': not all transactions" in problems
            assert 'an episode that there is not' in problems


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
