"""Memory of a partition, and when it is compacted."""

from __future__ import annotations

import numpy as np
from index.spatial.examples import TIMEOUT_S, row, scattered, settle

from hylo_memory_ros.index.spatial import RadiusQuery, SpatialIndex


def test_removed_rows_leave_nothing_behind(index: SpatialIndex) -> None:
    # An odd number, easily found in memory.
    secret = 1234.5678
    index.apply(1, scattered(3000, seed=4))
    index.apply(2, [row(4001, secret, secret, secret, from_seq=2, spatial_id=777_777)])
    settle(index)
    index.remove([4001], 3)
    assert index.sequence == 3
    assert len(index.within(RadiusQuery('lab', 'map', (secret, secret, secret), 1.0, seq=2))) == 0
    assert index.wait_idle(TIMEOUT_S)
    for segment in index._partitions.by_key['lab', 'map'].segments:
        assert not (segment.points == secret).any()
        assert not np.isin(segment.rows, [4001, 777_777]).any()
    assert len(index) == 3000


def test_rows_that_share_a_point_share_it_after_a_rebuild_and_part_with_it_one_by_one(
    index: SpatialIndex,
) -> None:
    closed = [
        row(i, i // 3, spatial_id=i // 3, valid_to_ns=10, from_seq=1, to_seq=2 + i % 3)
        for i in range(3, 3003)
    ]
    index.apply(1, closed)
    settle(index)
    (segment,) = index._partitions.by_key['lab', 'map'].segments
    assert (len(segment), len(segment.points)) == (3000, 1000)
    index.remove([3, 4])
    assert index.within(RadiusQuery('lab', 'map', (1.0, 0.0, 0.0), 0.5, seq=1)).version_rows.tolist() == [5]
    index.apply(9)
    assert index.within(RadiusQuery('lab', 'map', (1.0, 0.0, 0.0), 0.5, seq=2)).version_rows.tolist() == [5]
    index.remove([5])
    assert index.within(RadiusQuery('lab', 'map', (1.0, 0.0, 0.0), 0.5, seq=2)).version_rows.tolist() == []
    assert index.within(RadiusQuery('lab', 'map', (2.0, 0.0, 0.0), 0.5, seq=2)).version_rows.tolist() == [
        7,
        8,
    ]


def segments_of(index: SpatialIndex) -> list[tuple[int, bool]]:
    return sorted((len(segment), segment.live) for segment in index._partitions.by_key['lab', 'map'].segments)


def test_rows_wait_in_a_delta_until_they_are_a_share_of_all(index: SpatialIndex) -> None:
    index.apply(1, scattered(40_000, seed=1))
    assert index.wait_idle(TIMEOUT_S)
    assert segments_of(index) == [(40_000, True)]
    index.apply(2, scattered(2000, seed=2, first=50_001))
    assert index.wait_idle(TIMEOUT_S)
    assert segments_of(index) == [(2000, True), (40_000, True)]
    index.apply(3, scattered(100, seed=3, first=60_001))
    assert index.wait_idle(TIMEOUT_S)
    assert segments_of(index) == [(42_100, True)]


def test_forgetting_much_rebuilds_so_that_the_dead_are_not_in_the_way(index: SpatialIndex) -> None:
    index.apply(1, scattered(10_000, seed=1))
    assert index.wait_idle(TIMEOUT_S)
    index.apply(2, [], range(1, 1001))
    assert index.wait_idle(TIMEOUT_S)
    assert segments_of(index) == [(10_000, True)]
    index.apply(3, [], range(1001, 2001))
    assert index.wait_idle(TIMEOUT_S)
    assert segments_of(index) == [(2000, False), (8000, True)]
    assert len(index.within(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 1e3, at_ns=5))) == 8000
    assert len(index.within(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 1e3, at_ns=5, seq=2))) == 9000


def test_a_horizontal_search_ignores_the_height(index: SpatialIndex) -> None:
    rows = scattered(70_000, seed=1)
    index.apply(1, rows)
    for _ in range(2):
        high_up = (rows[0].x, rows[0].y, 1000.0)
        hits = index.within(RadiusQuery('lab', 'map', high_up, 0.0, horizontal=True))
        assert (hits.version_rows.tolist(), hits.distances_m.tolist()) == ([1], [0.0])
        beyond = index.nearest_outside(RadiusQuery('lab', 'map', high_up, 0.0, horizontal=True))
        assert beyond is not None
        assert 0.0 < beyond.distance_m < 1.0
        assert len(index.within(RadiusQuery('lab', 'map', high_up, 900.0))) == 0
        assert index.wait_idle(TIMEOUT_S)
