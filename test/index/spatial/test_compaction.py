"""Rebuilding in the background: beside readers, to its end, in vain."""

from __future__ import annotations

import threading
from unittest import mock

import pytest
from index.spatial.examples import TIMEOUT_S, row, scattered, settle

from hylo_memory_ros.index.spatial import RadiusQuery, SpatialIndex, partition


def test_readers_see_one_sequence_while_rows_come_end_and_are_rebuilt(index: SpatialIndex) -> None:
    # Each transaction replaces the one believed row, so that every sequence has exactly one.
    index.apply(1, [*scattered(3000, seed=8, first=10_000), row(1, 100.0, spatial_id=1)])
    done = threading.Event()
    wrong: list[object] = []
    answers = [0]

    def read() -> None:
        while not done.is_set():
            hits = index.within(RadiusQuery('lab', 'map', (100.0, 0.0, 0.0), 1.0, at_ns=5))
            if hits.version_rows.tolist() != [hits.sequence]:
                wrong.append((hits.sequence, hits.version_rows.tolist()))
                return
            seq = max(1, hits.sequence - 7)
            past = index.ids_within(RadiusQuery('lab', 'map', (100.0, 0.0, 0.0), 1.0, at_ns=5, seq=seq))
            if past.tolist() != [seq]:
                wrong.append((seq, past.tolist()))
                return
            answers[0] += 1

    readers = [threading.Thread(target=read) for _ in range(2)]
    with mock.patch.multiple(partition, _DELTA_ROWS=32, _DEAD_ROWS=16):
        for reader in readers:
            reader.start()
        sequence = 1
        while (sequence < 3000 or answers[0] < 200) and not wrong:
            sequence += 1
            index.apply(
                sequence, [row(sequence, 100.0, spatial_id=sequence, from_seq=sequence)], [sequence - 1]
            )
            if sequence % 500 == 0:
                index.rebuild()
        done.set()
        for reader in readers:
            reader.join(TIMEOUT_S)
    assert wrong == []
    assert index.wait_idle(TIMEOUT_S)


def test_closing_ends_every_thread_and_leaves_the_answers(index: SpatialIndex) -> None:
    index.apply(1, scattered(50_000, seed=9))
    index.rebuild()
    index.close()
    index.close()
    assert not [thread for thread in threading.enumerate() if thread.name == 'index-compact']
    assert len(index.within(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 1e3))) == 50_000


def test_a_rebuild_that_fails_leaves_exact_answers(
    index: SpatialIndex, caplog: pytest.LogCaptureFixture
) -> None:
    index.apply(1, scattered(100, seed=10))
    with mock.patch('hylo_memory_ros.index.spatial.partition.compact', side_effect=MemoryError):
        settle(index)
    assert 'rebuild' in caplog.text
    index.apply(2, [], [1])
    assert len(index.within(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 1e3))) == 99
    settle(index)
    assert len(index.within(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 1e3))) == 99
