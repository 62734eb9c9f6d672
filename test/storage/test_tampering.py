"""Verification finds what was changed behind the memory's back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from storage.sample import fact, url

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.service import MemoryService


class TestTampering:
    """Verification finds what was changed behind the memory's back."""

    CHANGES = {
        'an end': "UPDATE version SET valid_to_ns = 5000000000 WHERE rowid = 3",
        'a beginning': "UPDATE version SET valid_from_ns = 2 WHERE rowid = 3",
        'a forget': "UPDATE version SET ended_by = 'forget' WHERE rowid = 3",
        'a belief': 'UPDATE version SET to_seq = 1 WHERE rowid = 3',
        'a content': "UPDATE assertion SET content = 'false' WHERE rowid = 3",
        'a label': "UPDATE assertion SET label = 'false' WHERE rowid = 3",
        'a detail': """UPDATE assertion SET detail = '{"entities":["eve"]}' WHERE rowid = 3""",
        'a key': "UPDATE identity SET key = 'false' WHERE rowid = 3",
        'a kind': "UPDATE version SET kind = 'episodic' WHERE rowid = 3",
        'a digest': "UPDATE assertion SET content_digest = x'00' WHERE rowid = 3",
        'an element': "UPDATE assertion SET element = x'00' WHERE rowid = 3",
        'a place': 'UPDATE spatial SET x = x + 1e-9',
        'a frame': "UPDATE spatial SET frame_id = 'odom'",
        'an assertion time': 'UPDATE assertion SET valid_from_ns = 77 WHERE rowid = 3',
        'the snapshot hash': "UPDATE state SET value = zeroblob(2048) WHERE name = 'set_hash'",
        'the timeline hash': "UPDATE state SET value = zeroblob(2048) WHERE name = 'timeline_hash'",
        'the counters': "UPDATE state SET value = CAST('{}' AS BLOB) WHERE name = 'counts'",
        'a missing version': 'DELETE FROM version WHERE rowid = 3',
        'a missing assertion': 'DELETE FROM assertion WHERE rowid = 3',
        'a second version': 'INSERT INTO version SELECT 9999, identity_id, assertion_id, spatial_id, kind, '
        '7, 8, 0, from_seq, NULL FROM version WHERE rowid = 3',
        'a withdrawn assertion': 'UPDATE assertion SET withdrawn_seq = 1 WHERE rowid = 3',
        'a forget that was none': 'INSERT INTO forgetting VALUES (3, 1, 5000000000, NULL, 0, NULL)',
        'when a belief ended': 'UPDATE version SET to_seq = to_seq + 1 WHERE to_seq IS NOT NULL',
        'when a belief began': 'UPDATE version SET from_seq = from_seq + 1 WHERE rowid = 3',
        'a belief of the past': 'UPDATE version SET valid_to_ns = 4000000000 WHERE to_seq IS NOT NULL',
        'an identity': "UPDATE identity SET digest = x'00' WHERE rowid = 3",
        'a word that is not searched': "INSERT INTO item_text (item_text) VALUES ('delete-all')",
    }  # fmt: skip

    @pytest.mark.parametrize('change', CHANGES.values(), ids=CHANGES)
    def test_it_is_found(self, path: Path, change: str) -> None:
        with MemoryService.open(url(path)) as memory:
            pose = {'frame_id': 'map', 'position': (1, 2, 3)}
            memory.write([MemoryItem(kind='spatial', key='mug', pose=pose, valid_from=1)])
            memory.write([fact(0, id='repeated').model_copy(update={'valid_from_ns': 2_000_000_000})])
            memory.write([MemoryItem(kind='spatial', key='mug', pose=pose, content='moved', valid_from=2)])
            memory.write([MemoryItem(kind='spatial', key='mug', pose=pose, content='again', valid_from=3)])
            assert memory.verify().ok
        with closing(sqlite3.connect(path)) as connection, connection:
            assert connection.execute(change).rowcount != 0
        with MemoryService.open(url(path)) as memory:
            assert not memory.verify().ok
