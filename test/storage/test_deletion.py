"""A purge leaves no byte behind, or says where; what was taken away is on record."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from storage.sample import ITEMS, fact, url

from hylo_memory_ros.errors import InvalidRequestError, StoreError
from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService

VECTOR = (0.70710678, -0.1234567)


class TestDeletion:
    """A purge leaves no byte behind, or says where."""

    SECRETS = (
        b'zebra-content', b'zebra-key', b'zebra-label', b'zebra-payload', b'zebra-entity', b'zebra-object',
        b'zebra-target', b'zebra-evidence', b'zebra-provenance', b'zebra-id', b'zebra-scope',
    )  # fmt: skip

    def secret(self, at: float, **fields: object) -> MemoryItem:
        values = {
            'kind': 'spatial', 'key': 'zebra-key', 'content': 'zebra-content', 'label': 'zebra-label',
            'payload': {'p': 'zebra-payload' * 500}, 'entities': ['zebra-entity'],
            'object_ids': ['zebra-object'],
            'links': [('on', 'zebra-target')], 'evidence': ['zebra-evidence'],
            'provenance': {'p': 'zebra-provenance'},
            'scope': {'task_id': 'zebra-scope'}, 'id': f'zebra-id-{at}',
            'embeddings': {'clip@1': VECTOR},
            'pose': {'frame_id': 'map', 'position': (1234.5678, 2, 3)}, 'valid_from': at,
        }  # fmt: skip
        return MemoryItem(**{**values, **fields})

    @pytest.fixture
    def memory(self, path: Path) -> Iterator[MemoryService]:
        with MemoryService.open(url(path)) as memory:
            memory.write([self.secret(1)], request_id='zebra-request')
            memory.write([self.secret(2, content='zebra-content moved'), fact(0)])
            memory.forget(MemoryQuery(key='zebra-key', text='zebra content'))
            memory.write([self.secret(3, content='zebra-content again')])
            yield memory

    def remains(self, folder: Path) -> set[str]:
        needles = (*self.SECRETS, b'zebra', struct.pack('<2f', *VECTOR))
        return {
            f'{file.name}: {needle!r}'
            for file in folder.iterdir()
            for needle in needles
            if needle in file.read_bytes()
        }

    def test_no_byte_is_left_in_the_file_or_its_log(self, memory: MemoryService, path: Path) -> None:
        assert len(self.remains(path.parent)) > len(self.SECRETS)
        removal = memory.purge(MemoryQuery(key='zebra-key'))
        assert removal == 3
        assert removal.unreached == ()
        assert self.remains(path.parent) == set()
        assert memory.verify().ok
        memory.close()
        assert self.remains(path.parent) == set()

    def test_copies_out_of_reach_are_named(self, memory: MemoryService, path: Path, tmp_path: Path) -> None:
        for name in ('copy.db', 'gone.db', 'other.db'):
            memory.snapshot(str(tmp_path / name))
        memory.restore(str(tmp_path / 'copy.db'))
        (tmp_path / 'gone.db').unlink()
        (kept,) = path.parent.glob('memory.db.before-restore-*')
        named = tuple(sorted(map(str, (kept, tmp_path / 'copy.db', tmp_path / 'other.db'))))
        before = path.read_bytes()
        trial = memory.purge(MemoryQuery(key='zebra-key'), dry_run=True)
        assert (trial, trial.unreached, path.read_bytes()) == (3, named, before)
        assert memory.purge(MemoryQuery(key='zebra-key')).unreached == named
        assert b'zebra' in kept.read_bytes()
        assert b'zebra' not in path.read_bytes()

    def test_a_copy_from_before_is_not_named(self, memory: MemoryService, tmp_path: Path) -> None:
        memory.snapshot(str(tmp_path / 'copy.db'))
        memory.write([fact(ITEMS)])
        assert memory.purge(MemoryQuery(key=f'k{ITEMS}')).unreached == ()
        assert memory.purge(MemoryQuery(key='zebra-key')).unreached == (str(tmp_path / 'copy.db'),)

    def test_a_copy_that_a_killed_process_did_not_finish_is_named(
        self, memory: MemoryService, tmp_path: Path
    ) -> None:
        memory.snapshot(str(tmp_path / 'copy.db'))
        (tmp_path / 'copy.db').rename(tmp_path / '.copy.db.new')
        assert memory.purge(MemoryQuery(key='zebra-key')).unreached == (str(tmp_path / '.copy.db.new'),)

    def test_a_copy_on_a_disk_that_is_away_is_named(self, memory: MemoryService, tmp_path: Path) -> None:
        (tmp_path / 'disk').mkdir()
        memory.snapshot(str(tmp_path / 'disk' / 'copy.db'))
        (tmp_path / 'disk').rename(tmp_path / 'away')
        assert memory.purge(MemoryQuery(key='zebra-key')).unreached == (str(tmp_path / 'disk' / 'copy.db'),)

    def test_a_place_where_no_copy_was_made_is_not_named(self, memory: MemoryService, tmp_path: Path) -> None:
        (tmp_path / 'notes.txt').write_text('mine')
        with pytest.raises(StoreError, match='exists; it is not overwritten'):
            memory.snapshot(str(tmp_path / 'notes.txt'))
        with pytest.raises(StoreError, match='exists; it is not overwritten'):
            memory.snapshot(str(tmp_path))
        with pytest.raises(InvalidRequestError, match='can be no file'):
            memory.snapshot('/')
        assert memory.purge(MemoryQuery(key='zebra-key')).unreached == ()

    def test_a_log_that_somebody_still_reads_is_named(self, memory: MemoryService, path: Path) -> None:
        with closing(sqlite3.connect(path)) as reader:
            reader.execute('BEGIN')
            reader.execute('SELECT count(*) FROM assertion').fetchone()
            removal = memory.purge(MemoryQuery(key='zebra-key'))
            assert removal.unreached == (f'{path}-wal',)
            memory.write([fact(1)])
            assert self.remains(path.parent)
        memory.write([fact(2)])
        assert self.remains(path.parent) == set(), 'what comes next cuts the log'

    def test_what_was_taken_away_is_on_record(self, memory: MemoryService, path: Path) -> None:
        memory.forget(MemoryQuery(key='k7'), reason='asked for', actor='ann')
        sequence = memory.purge(MemoryQuery(key='zebra-key'), reason='privacy', actor='bob').sequence
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute(
                'SELECT a.sequence, op, actor, reason, query, ids, count, recorded_at_ns > 0 FROM audit AS a '
                'JOIN txn USING (sequence) ORDER BY a.sequence'
            ).fetchall()
        first, second, third = rows
        assert first[1:] == ('forget', '', '', None, None, 1, 1)
        (forgotten,) = memory.history(key='k7').versions[-1:]
        assert second[1:4] == ('forget', 'ann', 'asked for')
        assert json.loads(second[4]) == {'key': 'k7'}
        assert json.loads(second[5]) == [forgotten.item.id]
        assert third == (sequence, 'purge', 'bob', 'privacy', None, None, 3, 1)
