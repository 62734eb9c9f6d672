"""Loading: beside changes, twice over, in vain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from index.spatial.examples import row, scattered

from hylo_memory_ros.errors import LoadingError
from hylo_memory_ros.index.spatial import RadiusQuery, RowBatch, SpatialIndex


def test_until_it_is_loaded_the_index_says_that_it_is_loading() -> None:
    index = SpatialIndex()
    index.apply(1, [row(1, 0.0)])
    assert not index.ready
    with pytest.raises(LoadingError):
        index.within(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 1.0))
    index.load((), 0)
    assert index.ready
    assert len(index.within(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 1.0))) == 1
    index.close()


def test_changes_during_a_load_are_made_good_and_rows_that_arrive_twice_are_kept_once() -> None:
    rows = scattered(100, seed=6)
    index = SpatialIndex()

    def reading() -> Iterator[RowBatch]:
        yield RowBatch.from_rows(rows[:60])
        index.apply(2, [row(200, 5.0, from_seq=2)], ended=[3, 80])
        index.apply(3, [row(201, 5.0, from_seq=3)])
        index.remove([4, 90], 4)
        # Read after those transactions: ended already, purged already, there already, and a page twice.
        later = [replace(r, to_seq=2) if r.version_row == 80 else r for r in rows[50:] if r.version_row != 90]
        yield RowBatch.from_rows([*later, row(201, 5.0, from_seq=3)])

    index.load(reading(), 1)
    assert index.sequence == 4
    index.apply(3, [row(201, 5.0, from_seq=3)])
    assert len(index) == 100
    now = set(index.ids_within(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 1e3)).tolist())
    assert now == {*range(1, 101), 200, 201} - {3, 80, 4, 90}
    before = set(index.ids_within(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 1e3, seq=1)).tolist())
    assert before == {*range(1, 101)} - {4, 90}
    index.close()


def test_a_load_that_fails_leaves_what_was_there_and_can_be_tried_again(index: SpatialIndex) -> None:
    index.apply(1, [row(1, 0.0)])

    def failing() -> Iterator[RowBatch]:
        yield RowBatch.from_rows([row(1, 0.0)])
        raise OSError('disk gone')

    with pytest.raises(OSError, match='disk gone'):
        index.load(failing(), 1)
    index.apply(2, [row(2, 0.0, from_seq=2)])
    assert len(index) == 2
    index.load([RowBatch.from_rows([row(1, 0.0), row(2, 0.0, from_seq=2), row(3, 0.0)])], 2)
    assert len(index) == 3
