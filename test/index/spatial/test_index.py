"""What the index answers, from rows just written and from trees."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from index.spatial.examples import row, scattered, settle
from index.spatial.plain_index import PlainIndex

from hylo_memory_ros.index.spatial import RadiusQuery, RowBatch, SpatialIndex


def test_a_point_exactly_on_the_boundary_is_within(index: SpatialIndex) -> None:
    index.apply(1, [row(1, 0.3, 0.1, 0.2)])
    for _ in range(2):
        assert index.within(
            RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 0.3741657386773941)
        ).version_rows.tolist() == [1]
        assert index.ids_within(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 0.3741657386773941)).tolist() == [
            1
        ]
        below = math.nextafter(0.3741657386773941, 0.0)
        assert len(index.within(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), below))) == 0
        settle(index)


@pytest.mark.parametrize('folded', [False, True])
@pytest.mark.parametrize('horizontal', [False, True])
@pytest.mark.parametrize('offset', [0.0, 1e9 - 100.0])
def test_of_2000_radii_taken_from_the_points_themselves_none_misses_its_point(
    index: SpatialIndex, folded: bool, horizontal: bool, offset: float
) -> None:
    rows = [replace(r, x=r.x + offset, y=r.y - offset) for r in scattered(2000, seed=1)]
    plain = PlainIndex()
    for one in (index, plain):
        one.apply(1, rows)
    if folded:
        settle(index)
    rng = random.Random(2)
    for r in rows:
        center = (r.x + rng.uniform(-2, 2), r.y + rng.uniform(-2, 2), r.z + rng.uniform(-1, 1))
        axes = 2 if horizontal else 3
        radius = math.dist((r.x, r.y, r.z)[:axes], center[:axes])
        hits = index.within(RadiusQuery('lab', 'map', center, radius, horizontal=horizontal))
        assert r.version_row in hits.version_rows
        assert hits.distances_m[-1] == radius
        inner = index.ids_within(
            RadiusQuery('lab', 'map', center, math.nextafter(radius, 0.0), horizontal=horizontal)
        )
        assert r.version_row not in inner
        if r.version_row % 20 == 0:
            expected = plain.matching('lab', 'map', center, horizontal=horizontal)
            assert list(zip(hits.distances_m.tolist(), hits.version_rows.tolist(), strict=True)) == [
                pair for pair in expected if pair[0] <= radius
            ]
            beyond = index.nearest_outside(RadiusQuery('lab', 'map', center, radius, horizontal=horizontal))
            outside = next((pair for pair in expected if pair[0] > radius), None)
            assert (beyond and (beyond.distance_m, beyond.version_row)) == outside


def test_an_empty_index_answers_with_nothing(index: SpatialIndex) -> None:
    assert len(index.within(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 1e9))) == 0
    assert index.ids_within(RadiusQuery(None, 'map', (0.0, 0.0, 0.0), 1e9)).tolist() == []
    assert index.nearest_outside(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 0.0)) is None
    assert index.excluded(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 1.0)).other_maps.tolist() == []
    assert index.verify((), 0) == ()
    settle(index)
    assert len(index) == 0


@pytest.mark.parametrize('bad', [math.nan, math.inf, -math.inf, 1e200])
@pytest.mark.parametrize('axis', ['x', 'y', 'z'])
def test_rows_with_a_coordinate_that_is_not_finite_are_skipped_and_counted(bad: float, axis: str) -> None:
    rows = [replace(r, **{axis: bad}) if r.version_row == 500 else r for r in scattered(1000, seed=3)]
    loaded = SpatialIndex()
    loaded.load([RowBatch.from_rows(rows)], 1)
    applied = SpatialIndex()
    applied.load((), 0)
    applied.apply(1, rows)
    for index in (loaded, applied):
        settle(index)
        assert index.skipped == 1
        assert len(index.within(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 1e6))) == 999
        assert index.verify([RowBatch.from_rows(rows)], 1) == ()
        index.close()


def test_a_thousand_versions_at_one_spot_do_not_hide_what_is_beside_them(index: SpatialIndex) -> None:
    index.apply(1, [row(1, 0.01, valid_from_ns=1)])
    for i in range(1, 1001):
        ended = [3 * i - 2] if i > 1 else []
        closed = [row(3 * i, 0.0, spatial_id=i - 1, valid_from_ns=i - 1, valid_to_ns=i, from_seq=1 + i)]
        index.apply(
            1 + i,
            [row(3 * i + 1, 0.0, spatial_id=i, valid_from_ns=i, from_seq=1 + i), *(closed if i > 1 else [])],
            ended,
        )
    for _ in range(2):
        assert index.within(
            RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 0.1, at_ns=5000)
        ).version_rows.tolist() == [
            3001,
            1,
        ]
        assert index.within(
            RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 0.1, at_ns=500)
        ).version_rows.tolist() == [1503, 1]
        assert index.within(
            RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 0.1, at_ns=5000, seq=500)
        ).version_rows.tolist() == [1498, 1]
        assert len(index.within(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 0.1))) == 1001
        settle(index)


def test_what_is_left_out_is_counted_by_reason(index: SpatialIndex) -> None:
    index.apply(
        1,
        [
            row(1, 0.1),
            row(2, 0.2, valid_to_ns=50),
            row(3, 0.3, valid_from_ns=200),
            row(4, 0.4, map_id='hall'),
            row(5, 0.5, frame_id='odom'),
            row(6, 0.5, frame_id='odom', map_id='hall'),
            row(7, 9.0, map_id='hall'),
        ],
    )
    for _ in range(2):
        excluded = index.excluded(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 1.0, at_ns=100))
        assert (sorted(excluded.other_maps), excluded.other_frames.tolist()) == ([4, 6, 7], [5])
        assert excluded.outside == 0
        assert (excluded.not_yet_valid.tolist(), excluded.ended.tolist()) == ([3], [2])
        everywhere = index.excluded(RadiusQuery(None, 'map', (0.0, 0.0, 0.0), 1.0, at_ns=100))
        assert (everywhere.other_maps.tolist(), sorted(everywhere.other_frames)) == ([], [5, 6])
        assert everywhere.outside == 1
        found = (index.within(RadiusQuery(None, f, (0.0, 0.0, 0.0), 1.0, at_ns=100)) for f in ('map', 'odom'))
        assert [hits.version_rows.tolist() for hits in found] == [[1, 4], [5, 6]]
        settle(index)


def test_of_a_crowd_within_the_radius_no_more_is_looked_at_than_was_said(index: SpatialIndex) -> None:
    index.apply(1, [replace(r, valid_to_ns=10) for r in scattered(500, seed=5)])
    for _ in range(2):
        everything = index.excluded(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 1e6, at_ns=20))
        bounded = index.excluded(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 1e6, at_ns=20), most=50)
        assert len(everything.ended) == 500
        assert 0 < len(bounded.ended) <= 100
        assert set(bounded.ended.tolist()) <= set(everything.ended.tolist())
        settle(index)


def test_the_nearest_outside_is_found_behind_any_number_that_do_not_match(index: SpatialIndex) -> None:
    crowd = [replace(r, valid_to_ns=10) if r.version_row % 2 else r for r in scattered(20_000, seed=5)]
    index.apply(1, [*crowd, row(30_000, 0.0, 77.0), row(30_001, 0.0, 78.0)])
    for _ in range(2):
        beyond = index.nearest_outside(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 20.0, at_ns=20))
        assert (beyond.version_row, beyond.distance_m) == (30_000, 77.0)
        assert index.nearest_outside(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 78.0, at_ns=20)) is None
        settle(index)
