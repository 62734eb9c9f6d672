"""Loading: beside changes, twice over, in vain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from index.spatial.examples import row, scattered

from hylo_memory_ros.errors import LoadingError
from hylo_memory_ros.index.spatial import RowBatch, SpatialMirror


def test_until_it_is_loaded_the_mirror_says_that_it_is_loading() -> None:
    mirror = SpatialMirror()
    mirror.apply(1, [row(1, 0.0)])
    assert not mirror.ready
    with pytest.raises(LoadingError):
        mirror.within('lab', 'map', (0.0, 0.0, 0.0), 1.0)
    mirror.load((), 0)
    assert mirror.ready
    assert len(mirror.within('lab', 'map', (0.0, 0.0, 0.0), 1.0)) == 1
    mirror.close()


def test_changes_during_a_load_are_made_good_and_rows_that_arrive_twice_are_kept_once() -> None:
    rows = scattered(100, seed=6)
    mirror = SpatialMirror()

    def reading() -> Iterator[RowBatch]:
        yield RowBatch.from_rows(rows[:60])
        mirror.apply(2, [row(200, 5.0, from_seq=2)], ended=[3, 80])
        mirror.apply(3, [row(201, 5.0, from_seq=3)])
        mirror.remove([4, 90], 4)
        # Read after those transactions: ended already, purged already, there already, and a page twice.
        later = [replace(r, to_seq=2) if r.version_row == 80 else r for r in rows[50:] if r.version_row != 90]
        yield RowBatch.from_rows([*later, row(201, 5.0, from_seq=3)])

    mirror.load(reading(), 1)
    assert mirror.sequence == 4
    mirror.apply(3, [row(201, 5.0, from_seq=3)])
    assert len(mirror) == 100
    now = set(mirror.ids_within('lab', 'map', (0.0, 0.0, 0.0), 1e3).tolist())
    assert now == {*range(1, 101), 200, 201} - {3, 80, 4, 90}
    before = set(mirror.ids_within('lab', 'map', (0.0, 0.0, 0.0), 1e3, seq=1).tolist())
    assert before == {*range(1, 101)} - {4, 90}
    mirror.close()


def test_a_load_that_fails_leaves_what_was_there_and_can_be_tried_again(mirror: SpatialMirror) -> None:
    mirror.apply(1, [row(1, 0.0)])

    def failing() -> Iterator[RowBatch]:
        yield RowBatch.from_rows([row(1, 0.0)])
        raise OSError('disk gone')

    with pytest.raises(OSError, match='disk gone'):
        mirror.load(failing(), 1)
    mirror.apply(2, [row(2, 0.0, from_seq=2)])
    assert len(mirror) == 2
    mirror.load([RowBatch.from_rows([row(1, 0.0), row(2, 0.0, from_seq=2), row(3, 0.0)])], 2)
    assert len(mirror) == 3
