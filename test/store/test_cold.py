"""Cold storage: what may go there, who pays for it, and every way in which its file can be wrong."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from store.sample import files_in, url
from support.child import Unprivileged, run_on_small_disk
from support.clock import ManualClock

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import (
    DamagedFileError,
    IdConflictError,
    InvalidRequestError,
    NewerSchemaError,
    StoreError,
    UnsupportedError,
)
from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.store.cold.choosing import NEVER_NS

NOW_S = 1000.0
PAST = MemoryQuery(key='mug', as_of=2)


def opened(path: Path, **options: Any) -> MemoryService:
    return MemoryService.open(url(path), clock=ManualClock(NOW_S), **options)


def said(content: str, at: float, key: str | None = 'mug', **fields: Any) -> MemoryItem:
    return MemoryItem(**{'kind': 'semantic', 'key': key, 'content': content, 'valid_from': at, **fields})


def fill(memory: MemoryService) -> None:
    """A mug of eight colours, and five events that were forgotten."""
    memory.write([said(f'colour {number}', number) for number in range(1, 9)])
    memory.write([said(f'event {number}', 100 + number, None, kind='episodic') for number in range(5)])
    memory.forget(MemoryQuery(text='event'))


def cool(memory: MemoryService, **options: Any) -> Any:
    store = memory._store
    return store.cool([one.identity_id for one in store.coolable()], **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a closed memory with 11 statements in cold storage."""
    path = tmp_path / 'memory.db'
    with opened(path) as memory:
        fill(memory)
        assert cool(memory).assertions == 11
    return path


def cold_of(path: Path) -> Path:
    return path.with_name(f'{path.name}.cold')


class TestWhatMayGo:
    """Nothing that holds or may be changed in the course of things."""

    @pytest.fixture
    def memory(self, tmp_path: Path) -> Iterator[MemoryService]:
        with opened(tmp_path / 'memory.db') as memory:
            yield memory
            assert memory.verify().ok

    def test_of_what_holds_the_newest_two_versions_stay(self, memory: MemoryService) -> None:
        fill(memory)
        mug = memory._store.coolable(kinds=['semantic'])
        assert [(one.assertions, one.before_ns) for one in mug] == [(6, 7 * 10**9)]
        assert cool(memory).identity_ids == (1, 2, 3, 4, 5, 6)
        assert memory._store.coolable() == []
        with closing(sqlite3.connect(str(memory.path))) as raw:
            (stayed,) = raw.execute('SELECT min(valid_from_ns) FROM assertion').fetchone()
        assert stayed == 7 * 10**9

    def test_what_ended_is_told_by_kind_scope_time_and_number(self, memory: MemoryService) -> None:
        fill(memory)
        store = memory._store
        assert [one.kind for one in store.coolable(limit=3)] == ['semantic', 'episodic', 'episodic']
        assert len(store.coolable(kinds=['episodic'])) == 5
        assert all(one.before_ns == NEVER_NS for one in store.coolable(kinds=['episodic']))
        assert [one.identity_id for one in store.coolable(after=4)] == [5, 6]
        assert [one.assertions for one in store.coolable(ended_before_ns=4 * 10**9)] == [2]
        assert store.coolable(ended_before_ns=10**9) == []
        assert store.coolable(scope={'task_id': 't1'}) == []
        memory.write([said('old', 1, 'cup', scope={'task_id': 't1', 'map_id': 'hall'})])
        memory.forget(MemoryQuery(key='cup'))
        assert [one.identity_id for one in store.coolable(scope={'task_id': 't1'})] == [7]
        assert store.coolable(scope={'task_id': 't1', 'map_id': 'lab'}) == []

    def test_of_a_scope_is_only_what_is_of_no_other(self, tmp_path: Path) -> None:
        with opened(tmp_path / 'memory.db') as memory:
            for key, tasks in {'both': 'xyxy', 'alone': 'xxxx'}.items():
                memory.write(
                    [said(f'{number}', 100 + number, key, scope={'task_id': task})
                     for number, task in enumerate(tasks)]
                )  # fmt: skip
            found = memory._store.coolable(scope={'task_id': 'x'})
            assert [one.assertions for one in found] == [2]
            assert memory._store.coolable(scope={'task_id': 'y'}) == []

    def test_a_slice_takes_no_more_than_its_limit(self, memory: MemoryService) -> None:
        fill(memory)
        sizes = []
        while (moved := cool(memory, limit=2)).assertions:
            sizes.append(moved.assertions)
        assert sizes == [2, 2, 2, 2, 2, 1]
        assert memory.query(PAST)[0].item.content == 'colour 2'

    def test_what_is_scheduled_stays(self, memory: MemoryService) -> None:
        memory.write([said('now', 1), said('later', 2000.0)])
        assert memory._store.coolable() == []
        assert memory._store.cool([1, 2, 99]).assertions == 0

    def test_a_slice_of_nothing_is_refused(self, memory: MemoryService) -> None:
        with pytest.raises(InvalidRequestError, match='limit: 0'):
            memory._store.cool([1], limit=0)

    def test_in_memory_there_is_none(self) -> None:
        with MemoryService.open(clock=ManualClock(NOW_S)) as memory:
            fill(memory)
            assert len(memory._store.coolable()) == 6
            with pytest.raises(UnsupportedError, match='memory in memory'):
                cool(memory)


class TestWhoPays:
    """Questions about now never open the cold file."""

    def test_a_question_about_now_does_without_it(self, path: Path) -> None:
        near = (Pose(frame_id='map', position=(0.0, 0.0, 0.0)), 5.0)
        with opened(path) as memory:
            memory.write([said('here', 900, 'O1', pose=near[0], kind='spatial')])
            memory._store._cold.close()
            aside = cold_of(path).rename(path.with_name('aside'))
            for query in (
                MemoryQuery(key='mug', k=1),
                MemoryQuery(text='colour', k=1),
                MemoryQuery(near=near, k=1),
                MemoryQuery(kinds=['spatial'], k=1),
                # What is left out is counted too, and of this key nothing is cold.
                MemoryQuery(key='O1', explain=True),
            ):
                assert memory.query(query).total == 1, query
            memory.write([said('colour 9', 950), said('here again', 950, 'O1', kind='spatial')])
            memory.forget(MemoryQuery(key='O1'))
            for act in (
                lambda: memory.query(PAST),
                lambda: memory.query(MemoryQuery(key='mug', known_seq=1)),
                lambda: memory.history(key='mug'),
            ):
                with pytest.raises(StoreError, match=str(cold_of(path))):
                    act()
            aside.rename(cold_of(path))
            assert memory.query(PAST)[0].item.content == 'colour 2'

    def test_a_late_fact_brings_the_past_back(self, path: Path) -> None:
        with opened(path) as memory:
            assert memory.write([said('colour 9', 900)]).events[0].event == 'INVALIDATE'
            assert rows_in(cold_of(path)) == 11
            late = memory.write([said('colour 2.5', 2.5)], dry_run=True)
            assert rows_in(cold_of(path)) == 11
            assert memory.write([said('colour 2.5', 2.5)]) == late
            assert rows_in(cold_of(path)) == 5
            assert [v.item.content for v in memory.history(key='mug').versions[-2:]] == [
                'colour 2',
                'colour 2.5',
            ]

    def test_an_id_that_is_cold_is_known(self, path: Path) -> None:
        with opened(path) as memory:
            item = memory.query(PAST)[0].item
            with pytest.raises(IdConflictError):
                memory.write([said('other', 2, id=item.id)])
            assert rows_in(cold_of(path)) == 11
            assert memory.write([item]).events[0].event == 'SKIP_DUP'

    def test_row_numbers_are_not_given_again(self, path: Path) -> None:
        with opened(path) as memory:
            memory.purge(MemoryQuery(key='mug'))
            memory.write([said('new', 1, 'cup')])
            assert cool(memory).assertions == 0
            assert memory.verify().ok


def rows_in(cold: Path) -> int:
    with closing(sqlite3.connect(f'{cold.as_uri()}?mode=ro', uri=True)) as raw:
        return int(raw.execute('SELECT count(*) FROM assertion').fetchone()[0])


def databases_in(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in files_in(folder).items() if not name.endswith(('-wal', '-shm'))}


def change_state(cold: Path, **values: Any) -> None:
    with closing(sqlite3.connect(cold)) as raw, raw:
        (state,) = raw.execute("SELECT value FROM cold_state WHERE name = 'state'").fetchone()
        encoded = json.dumps({**json.loads(state), **values}).encode()
        raw.execute('UPDATE cold_state SET value = ?', (encoded,))


def make_foreign(cold: Path) -> None:
    cold.unlink()
    with closing(sqlite3.connect(cold)) as raw, raw:
        raw.execute('CREATE TABLE t (x)')


def forget_state(cold: Path) -> None:
    with closing(sqlite3.connect(cold)) as raw, raw:
        raw.execute('DELETE FROM cold_state')


def make_newer(cold: Path) -> None:
    with closing(sqlite3.connect(cold)) as raw:
        raw.execute('PRAGMA user_version = 7')


WRONG: dict[str, tuple[Callable[[Path], object], type[StoreError], str]] = {
    'missing': (Path.unlink, DamagedFileError, 'is missing'),
    'empty': (lambda cold: cold.write_bytes(b''), DamagedFileError, '0 bytes'),
    'half': (lambda cold: cold.write_bytes(cold.read_bytes()[:8192]), DamagedFileError, 'the rest is gone'),
    'no SQLite': (lambda cold: cold.write_bytes(b'x' * 5000), DamagedFileError, 'header is overwritten'),
    'a directory': (lambda cold: (cold.unlink(), cold.mkdir()), DamagedFileError, 'is a directory'),
    'another application': (make_foreign, DamagedFileError, 'no cold file of this package'),
    'without its state': (forget_state, DamagedFileError, 'does not say what it is of'),
    'of another memory': (
        lambda cold: change_state(cold, id='somebody'), DamagedFileError, 'belongs to another memory',
    ),
    'older': (lambda cold: change_state(cold, moves=0), DamagedFileError, 'is older than'),
    'newer': (lambda cold: change_state(cold, returns=5), DamagedFileError, 'is newer than'),
    'of a newer version': (make_newer, NewerSchemaError, 'schema 7'),
}  # fmt: skip


class TestWrongFiles:
    """Refused by name with the path; nothing is changed."""

    @pytest.mark.parametrize('name', WRONG)
    def test_it_is_refused_and_left_alone(self, path: Path, name: str) -> None:
        spoil, kind, rule = WRONG[name]
        sound = cold_of(path).read_bytes()
        spoil(cold_of(path))
        before = databases_in(path.parent)
        for read_only in (False, True):
            with pytest.raises(kind, match=rule) as refused:
                opened(path, read_only=read_only)
            assert str(cold_of(path)) in str(refused.value)
            assert databases_in(path.parent) == before
        if cold_of(path).is_dir():
            cold_of(path).rmdir()
        cold_of(path).write_bytes(sound)
        with opened(path) as memory:
            assert memory.query(PAST)[0].item.content == 'colour 2'

    def test_damage_inside_is_told_by_verify(self, path: Path) -> None:
        data = bytearray(cold_of(path).read_bytes())
        at = data.index(b'colour 3')
        data[at : at + 8] = b'colour 9'
        cold_of(path).write_bytes(bytes(data))
        with opened(path) as memory:
            assert any('does not have the digest' in problem for problem in memory.verify().problems)

    def test_one_that_stands_where_the_first_is_to_be_made_is_left_alone(
        self, path: Path, tmp_path: Path
    ) -> None:
        other = tmp_path / 'other.db'
        shutil.copy(cold_of(path), cold_of(other))
        with opened(other) as memory:
            fill(memory)
            before = cold_of(other).read_bytes()
            with pytest.raises(DamagedFileError, match='move it away'):
                cool(memory)
            assert memory.query(PAST)[0].item.content == 'colour 2'
        assert cold_of(other).read_bytes() == before

    def test_one_that_is_moved_away_while_it_is_open_is_noticed(self, path: Path) -> None:
        with opened(path) as memory:
            memory.write([said(f'colour {number}', number) for number in range(9, 12)])
            cool(memory)
            memory.write([said(f'colour {number}', number) for number in range(12, 15)])
            aside = cold_of(path).rename(path.with_name('aside'))
            with pytest.raises(StoreError, match=str(cold_of(path))):
                cool(memory)
            aside.rename(cold_of(path))
            assert cool(memory).assertions == 3
            assert memory.verify().ok

    def test_a_database_that_was_put_back_as_it_was_is_finished(self, path: Path, tmp_path: Path) -> None:
        """Its backup is older than the cold file, and has everything that was moved since."""
        with opened(path) as memory:
            memory.write([said(f'colour {number}', number) for number in range(9, 12)])
            before = memory.manifest()
        backup = shutil.copy(path, tmp_path / 'backup')
        with opened(path) as memory:
            assert cool(memory).assertions == 3
        shutil.copy(backup, path)
        with opened(path) as memory:
            assert rows_in(cold_of(path)) == 11
            assert memory.manifest() == before
            assert memory.verify().ok

    @pytest.mark.parametrize('where', ['.', 'file/memory.cold'])
    def test_a_place_where_no_file_can_be_is_refused_at_once(self, tmp_path: Path, where: str) -> None:
        (tmp_path / 'file').touch()
        with pytest.raises(StoreError, match='there is a directory, or its own is a file'):
            opened(tmp_path / 'memory.db', config=MemoryConfig(cold_path=str(tmp_path / where)))

    @pytest.mark.parametrize('cooled_before', [True, False])
    def test_a_database_that_lacks_what_was_moved_is_refused(
        self, tmp_path: Path, cooled_before: bool
    ) -> None:
        """An old copy of the database alone would take what was said since for leftovers."""
        path = tmp_path / 'memory.db'
        with opened(path) as memory:
            fill(memory)
            if cooled_before:
                cool(memory)
        backup = shutil.copy(path, tmp_path / 'backup')
        with opened(path) as memory:
            memory.write([said(f'colour {number}', number) for number in range(9, 12)])
            cool(memory)
            before, past = memory.manifest(), memory.history(key='mug')
        newer = shutil.copy(path, tmp_path / 'newer')
        held = cold_of(path).read_bytes()
        shutil.copy(backup, path)
        with pytest.raises(DamagedFileError, match=r'is newer than its database: .* are in it alone'):
            opened(path)
        assert cold_of(path).read_bytes() == held
        shutil.copy(newer, path)
        with opened(path) as memory:
            assert memory.manifest() == before
            assert memory.history(key='mug') == past
            assert memory.verify().ok


class TestWithoutRoom:
    """A full disk and a folder that cannot be written."""

    @pytest.fixture
    def shared(self) -> Iterator[Path]:
        """Return a folder that everybody can reach."""
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)

    def test_a_full_disk_moves_nothing(self, tmp_path: Path) -> None:
        told = run_on_small_disk(
            """
            with MemoryService.open(url) as memory:
                for number in range(1, 12):
                    memory.write([MemoryItem(
                        kind='semantic', key='mug', content=str(number) * 100_000, valid_from=number
                    )])
                before = memory.manifest()
                refusal = attempt(lambda: memory._store.cool([1], limit=100) and None)
                assert memory.manifest() == before
                assert memory.query(MemoryQuery(key='mug', as_of=2))[0].item.content == '2' * 100_000
            tell(refusal)
            """,
            tmp_path,
            kilobytes=4500,
        )
        assert told['refused'] == 'StoreFullError'
        assert str(tmp_path / 'memory.db') in told['message'], told
        with MemoryService.open(url(tmp_path / 'memory.db')) as memory:
            assert memory._store.cool([1], limit=100).assertions == 9
            assert memory.verify().ok

    def test_a_folder_that_cannot_be_written_is_read(self, path: Path, shared: Path) -> None:
        nobody = Unprivileged()
        try:
            for file in (path, cold_of(path)):
                Path(shutil.copy(file, shared)).chmod(0o644)
            shared.chmod(0o555)
            told = nobody.run(
                """
                memory = MemoryService.open(url, read_only=True, clock=lambda: 0)
                tell([memory.query(MemoryQuery(key='mug', as_of=2))[0].item.content, memory.verify().ok])
                memory.close()
                """,
                shared,
            )
            assert told == ['colour 2', True]
        finally:
            nobody.close()


class TestWhole:
    """Copies, restores, purges and readers have both files in view."""

    def test_a_copy_has_everything_in_one_file(self, path: Path, tmp_path: Path) -> None:
        copy = tmp_path / 'copy.db'
        with opened(path) as memory:
            memory.snapshot(str(copy))
            manifest, history = memory.manifest(), memory.history(key='mug')
        assert not cold_of(copy).exists()
        with opened(copy, read_only=True) as memory:
            assert (memory.manifest(), memory.history(key='mug')) == (manifest, history)
            report = memory.verify()
            assert report.ok, report.problems
        assert rows_in(copy) == 13

    def test_a_restore_takes_a_copy_or_a_pair_of_files(self, path: Path, tmp_path: Path) -> None:
        pair = tmp_path / 'pair'
        pair.mkdir()
        for file in (path, cold_of(path)):
            shutil.copy(file, pair)
        other = tmp_path / 'other.db'
        for place in (other, None):
            target = MemoryService.open(None if place is None else url(place), clock=ManualClock(NOW_S))
            with target as memory:
                memory.restore(str(pair / 'memory.db'))
                assert memory.query(PAST)[0].item.content == 'colour 2'
                assert memory.verify().ok
        cold_of(pair / 'memory.db').unlink()
        with opened(other) as memory, pytest.raises(DamagedFileError, match='is missing'):
            memory.restore(str(pair / 'memory.db'))

    def test_a_restore_keeps_the_cold_file_beside_the_memory_before(self, path: Path, tmp_path: Path) -> None:
        copy = tmp_path / 'copy.db'
        with opened(path) as memory:
            memory.snapshot(str(copy))
            history = memory.history(key='mug')
            memory.restore(str(copy))
            assert not cold_of(path).exists()
            assert memory.query(PAST)[0].item.content == 'colour 2'
            assert cool(memory).assertions == 11
            kept, kept_cold = sorted(path.parent.glob('memory.db.before-restore-*'))
            removal = memory.purge(MemoryQuery(key='mug'))
            assert {str(kept), str(kept_cold)} <= set(removal.unreached)
        assert kept_cold == cold_of(kept)
        with opened(kept, read_only=True) as memory:
            assert memory.history(key='mug') == history

    def test_a_purge_leaves_no_byte_in_either_file(self, path: Path) -> None:
        with opened(path) as memory:
            gone = memory.purge(MemoryQuery(text='event', include_invalidated=True))
            assert (gone, gone.unreached) == (5, ())
            for file in path.parent.iterdir():
                assert b'event 3' not in file.read_bytes(), file
            assert memory.query(PAST)[0].item.content == 'colour 2'
            memory.purge(MemoryQuery(key='mug'))
            for file in path.parent.iterdir():
                assert b'colour' not in file.read_bytes(), file
            assert memory.verify().ok

    def test_others_read_beside_moves(self, path: Path) -> None:
        with opened(path) as memory, opened(path, read_only=True) as reader:
            for number in range(9, 30):
                memory.write([said(f'colour {number}', number)])
                cool(memory)
                if number % 4 == 0:
                    memory._store.warm([1])
                assert reader.query(MemoryQuery(key='mug', as_of=number - 3)).total == 1
                assert len(reader.history(key='mug', limit=1000).versions) == 2 * number - 8
            assert reader.verify().ok

    def test_answers_stay_while_others_move_and_write(self, path: Path) -> None:
        def move() -> None:
            for turn in range(25):
                while cool(memory, limit=3).assertions:
                    pass
                memory._store.warm(range(1, 7), limit=4)
                # What was said before, once more: its past comes back, and nothing changes.
                memory.write([said('colour 2', 2), said(f'new {turn}', 900 + turn, 'cup')])

        def ask(asked: MemoryService) -> None:
            while not moving.done():
                assert asked.query(PAST)[0].item.content == 'colour 2'
                assert asked.query(MemoryQuery(text='event', as_of=200)).total == 5
                assert asked.query(MemoryQuery(known_seq=2, text='event', as_of=500, k=1)).total == 5
                assert len(asked.history(key='mug').versions) == 8

        with opened(path) as memory, opened(path, read_only=True) as reader, ThreadPoolExecutor() as threads:
            moving = threads.submit(move)
            for asking in [threads.submit(ask, memory), threads.submit(ask, reader)]:
                asking.result()
            moving.result()
            assert memory.verify().ok

    def test_a_path_of_its_own(self, tmp_path: Path) -> None:
        config = MemoryConfig(cold_path=str(tmp_path / 'card' / 'old.db'))
        with opened(tmp_path / 'memory.db', config=config) as memory:
            fill(memory)
            cool(memory)
            assert memory.query(PAST)[0].item.content == 'colour 2'
        assert rows_in(tmp_path / 'card' / 'old.db') == 11
        assert not cold_of(tmp_path / 'memory.db').exists()
        with opened(tmp_path / 'memory.db', read_only=True) as memory:
            assert memory.query(PAST)[0].item.content == 'colour 2'
        (tmp_path / 'card' / 'old.db').unlink()
        with pytest.raises(DamagedFileError, match=r'card/old\.db is missing'):
            opened(tmp_path / 'memory.db')


class TestLostFile:
    """Opened without the cold file, because that was accepted."""

    @pytest.fixture
    def memory(self, path: Path) -> Iterator[MemoryService]:
        cold_of(path).unlink()
        with opened(path, config=MemoryConfig(accept_lost_cold_file=True)) as memory:
            yield memory

    def test_now_is_answered_and_the_past_is_refused(self, memory: MemoryService) -> None:
        assert memory.query(MemoryQuery(key='mug'))[0].item.content == 'colour 8'
        assert memory.query(MemoryQuery(text='colour', explain=True)).total == 1
        memory.write([said('colour 9', 900), said('new', 900, 'cup')])
        memory.forget(MemoryQuery(key='cup'))
        refused: tuple[Callable[[], object], ...] = (
            lambda: memory.query(PAST),
            lambda: memory.query(MemoryQuery(key='mug', include_invalidated=True)),
            lambda: memory.history(key='mug'),
            lambda: memory.write([said('late', 2.5)]),
            lambda: memory.purge(MemoryQuery(key='mug')),
            lambda: memory.snapshot(f'{memory.path}.copy'),
            lambda: cool(memory),
            lambda: memory._store.warm([1]),
        )
        before = memory.manifest()
        for act in refused:
            with pytest.raises(DamagedFileError, match=r'memory\.db\.cold is missing'):
                act()
        assert memory.manifest() == before
        assert any('is missing' in problem for problem in memory.verify().problems)
