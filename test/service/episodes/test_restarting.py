"""Episodes outlast restarts, kills, copies and restores."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from service.episodes.pieces import EPISODIC, an_episode, fact, facts_of, keys_of
from support.child import TIMEOUT_S, script
from support.clock import ManualClock

from hylo_memory_ros.errors import (
    ReadOnlyError,
)
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.service import MemoryService


@pytest.fixture
def memory(kept: MemoryService) -> MemoryService:
    """In a file."""
    return kept


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

    def test_a_kill_leaves_it_open_or_ended_whole(self, path: Path) -> None:
        code = """
            import threading
            end = lambda: os.kill(os.getpid(), signal.SIGKILL)
            for moment in (-1, 0, 3, 8):
                where = folder / str(moment)
                where.mkdir()
                child = os.fork()
                if not child:
                    memory = MemoryService.open(f'sqlite:///{where}/memory.db', clock=lambda: 10**12)
                    memory.begin_episode('run', note='a note')
                    memory.write([fact(number) for number in range(50)])
                    if moment < 0:
                        end()
                    threading.Timer(moment / 1000, end).start()
                    memory.end_episode(outcome='success', events=50)
                    (where / 'ended').touch()
                    signal.pause()
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        """
        subprocess.run([*script(code), str(path.parent)], timeout=TIMEOUT_S, check=True)
        for moment in (-1, 0, 3, 8):
            where = path.parent / str(moment)
            with MemoryService.open(f'sqlite:///{where}/memory.db', clock=ManualClock(1000.0)) as memory:
                ended = len(memory.episodes('success'))
                assert bool(ended) >= (where / 'ended').exists()
                assert moment >= 0 or not ended
                assert len(keys_of(memory, kinds=EPISODIC)) == (51 if ended else 0)
                assert memory.current_episode == ('' if ended else 'run')
                assert memory.episodes()[0].note == 'a note'
                assert len(facts_of(memory, episode='run')) == 50
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

    def test_a_restore_interrupts_what_a_copy_has_open_where_that_is_configured(
        self, reopen: Callable[..., MemoryService], tmp_path: Path
    ) -> None:
        with reopen(episode_at_restart='interrupt') as memory:
            memory.begin_episode('run')
            memory.snapshot(str(tmp_path / 'copy.db'))
            memory.end_episode(outcome='success')
            memory.restore(str(tmp_path / 'copy.db'))
            assert memory.current_episode == ''
            assert [(one.id, one.outcome) for one in memory.episodes()] == [('run', 'interrupted')]
            assert memory.verify().ok
