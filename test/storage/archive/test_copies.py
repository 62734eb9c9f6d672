"""Copies, restores, purges and readers have the database and its archive file in view."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from storage.archive.pieces import NOW_S, PAST, archive_all, archive_of, fill, opened, rows_in, said
from storage.sample import url
from support.clock import ManualClock

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import DamagedFileError
from hylo_memory_ros.model import MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService


class TestWhole:
    """Copies, restores, purges and readers have both files in view."""

    def test_a_copy_has_everything_in_one_file(self, path: Path, tmp_path: Path) -> None:
        copy = tmp_path / 'copy.db'
        with opened(path) as memory:
            memory.snapshot(str(copy))
            manifest, history = memory.manifest(), memory.history(key='mug')
        assert not archive_of(copy).exists()
        with opened(copy, read_only=True) as memory:
            assert (memory.manifest(), memory.history(key='mug')) == (manifest, history)
            report = memory.verify()
            assert report.ok, report.problems
        assert rows_in(copy) == 13

    def test_a_restore_takes_a_copy_or_a_pair_of_files(self, path: Path, tmp_path: Path) -> None:
        pair = tmp_path / 'pair'
        pair.mkdir()
        for file in (path, archive_of(path)):
            shutil.copy(file, pair)
        other = tmp_path / 'other.db'
        for place in (other, None):
            target = MemoryService.open(None if place is None else url(place), clock=ManualClock(NOW_S))
            with target as memory:
                memory.restore(str(pair / 'memory.db'))
                assert memory.query(PAST)[0].item.content == 'colour 2'
                assert memory.verify().ok
        archive_of(pair / 'memory.db').unlink()
        with opened(other) as memory, pytest.raises(DamagedFileError, match='is missing'):
            memory.restore(str(pair / 'memory.db'))

    def test_a_restore_keeps_the_archive_file_beside_the_memory_before(
        self, path: Path, tmp_path: Path
    ) -> None:
        copy = tmp_path / 'copy.db'
        with opened(path) as memory:
            memory.snapshot(str(copy))
            history = memory.history(key='mug')
            memory.restore(str(copy))
            assert not archive_of(path).exists()
            assert memory.query(PAST)[0].item.content == 'colour 2'
            assert archive_all(memory).assertions == 11
            kept, kept_archive = sorted(path.parent.glob('memory.db.before-restore-*'))
            removal = memory.purge(MemoryQuery(key='mug'))
            assert {str(kept), str(kept_archive)} <= set(removal.unreached)
        assert kept_archive == archive_of(kept)
        with opened(kept, read_only=True) as memory:
            assert memory.history(key='mug') == history

    def test_a_restore_in_memory_takes_places_too(self, tmp_path: Path) -> None:
        door = {'key': 'door', 'kind': 'spatial', 'scope': {'map_id': 'hall'}}
        places = [Pose(frame_id='map', position=(float(number), 2.0, 0.0)) for number in range(4)]
        with opened(tmp_path / 'memory.db', map_id='hall') as memory:
            memory.write([said('door', 1 + number, pose=pose, **door) for number, pose in enumerate(places)])
            assert archive_all(memory).assertions == 2
        with MemoryService.open(clock=ManualClock(NOW_S), map_id='hall') as memory:
            memory.restore(str(tmp_path / 'memory.db'))
            assert memory.query(MemoryQuery(key='door', as_of=1.5))[0].item.pose == places[0]
            assert memory.verify().ok

    def test_a_archive_file_elsewhere_is_kept_there_and_named_by_a_purge(self, tmp_path: Path) -> None:
        config = MemoryConfig(archive_path=str(tmp_path / 'card' / 'past.db'))
        with opened(tmp_path / 'memory.db', config=config) as memory:
            fill(memory)
            archive_all(memory)
            memory.snapshot(str(tmp_path / 'copy.db'))
            memory.restore(str(tmp_path / 'copy.db'))
            (kept,) = (tmp_path / 'card').iterdir()
            assert kept.name.startswith('past.db.before-restore-')
            assert str(kept) in memory.purge(MemoryQuery(key='mug'), dry_run=True).unreached

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
                archive_all(memory)
                if number % 4 == 0:
                    memory._core.store.archive.restore([1])
                assert reader.query(MemoryQuery(key='mug', as_of=number - 3)).total == 1
                assert len(reader.history(key='mug', limit=1000).versions) == 2 * number - 8
            assert reader.verify().ok

    def test_answers_stay_while_others_move_and_write(self, path: Path) -> None:
        def move() -> None:
            for turn in range(25):
                while archive_all(memory, limit=3).assertions:
                    pass
                memory._core.store.archive.restore(range(1, 7), limit=4)
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
        config = MemoryConfig(archive_path=str(tmp_path / 'card' / 'old.db'))
        with opened(tmp_path / 'memory.db', config=config) as memory:
            fill(memory)
            archive_all(memory)
            assert memory.query(PAST)[0].item.content == 'colour 2'
        assert rows_in(tmp_path / 'card' / 'old.db') == 11
        assert not archive_of(tmp_path / 'memory.db').exists()
        with opened(tmp_path / 'memory.db', config=config, read_only=True) as memory:
            assert memory.query(PAST)[0].item.content == 'colour 2'
        with pytest.raises(DamagedFileError, match=r'memory\.db\.archive is missing'):
            opened(tmp_path / 'memory.db')
        (tmp_path / 'card' / 'old.db').unlink()
        with pytest.raises(DamagedFileError, match=r'card/old\.db is missing'):
            opened(tmp_path / 'memory.db', config=config)
