"""The mirror against plain Python: any history of changes, any question, the same answer."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from index.plain_mirror import PlainMirror

from hylo_memory_ros.errors import InvalidRequestError, LoadingError
from hylo_memory_ros.index import OPEN, BelievedRow, RowBatch, SpatialMirror, _place

TIMEOUT_S = 30.0


@pytest.fixture
def mirror() -> Iterator[SpatialMirror]:
    mirror = SpatialMirror()
    mirror.load((), 0)
    yield mirror
    mirror.close()


def row(version_row: int, x: float, y: float = 0.0, z: float = 0.0, **fields: object) -> BelievedRow:
    values = {
        'spatial_id': version_row,
        'map_id': 'lab',
        'frame_id': 'map',
        'valid_from_ns': 0,
        'valid_to_ns': None,
        'from_seq': 1,
    }
    return BelievedRow(version_row=version_row, x=x, y=y, z=z, **{**values, **fields})  # type: ignore[arg-type]


def scattered(n: int, seed: int, first: int = 1, side: float = 10.0) -> list[BelievedRow]:
    rng = random.Random(seed)
    return [
        row(i, rng.uniform(-side, side), rng.uniform(-side, side), rng.uniform(-1, 1), from_seq=1)
        for i in range(first, first + n)
    ]


def settle(mirror: SpatialMirror) -> None:
    mirror.rebuild()
    assert mirror.wait_idle(TIMEOUT_S)


def test_a_point_exactly_on_the_boundary_is_within(mirror: SpatialMirror) -> None:
    mirror.apply(1, [row(1, 0.3, 0.1, 0.2)])
    for _ in range(2):
        assert mirror.within('lab', 'map', (0.0, 0.0, 0.0), 0.3741657386773941).version_rows.tolist() == [1]
        assert mirror.ids_within('lab', 'map', (0.0, 0.0, 0.0), 0.3741657386773941).tolist() == [1]
        below = math.nextafter(0.3741657386773941, 0.0)
        assert len(mirror.within('lab', 'map', (0.0, 0.0, 0.0), below)) == 0
        settle(mirror)


@pytest.mark.parametrize('folded', [False, True])
@pytest.mark.parametrize('horizontal', [False, True])
@pytest.mark.parametrize('offset', [0.0, 1e9 - 100.0])
def test_of_2000_radii_taken_from_the_points_themselves_none_misses_its_point(
    mirror: SpatialMirror, folded: bool, horizontal: bool, offset: float
) -> None:
    rows = [replace(r, x=r.x + offset, y=r.y - offset) for r in scattered(2000, seed=1)]
    plain = PlainMirror()
    for one in (mirror, plain):
        one.apply(1, rows)
    if folded:
        settle(mirror)
    rng = random.Random(2)
    for r in rows:
        center = (r.x + rng.uniform(-2, 2), r.y + rng.uniform(-2, 2), r.z + rng.uniform(-1, 1))
        axes = 2 if horizontal else 3
        radius = math.dist((r.x, r.y, r.z)[:axes], center[:axes])
        hits = mirror.within('lab', 'map', center, radius, horizontal=horizontal)
        assert r.version_row in hits.version_rows
        assert hits.distances_m[-1] == radius
        inner = mirror.ids_within('lab', 'map', center, math.nextafter(radius, 0.0), horizontal=horizontal)
        assert r.version_row not in inner
        if r.version_row % 20 == 0:
            expected = plain.matching('lab', 'map', center, horizontal=horizontal)
            assert list(zip(hits.distances_m.tolist(), hits.version_rows.tolist(), strict=True)) == [
                pair for pair in expected if pair[0] <= radius
            ]
            beyond = mirror.nearest_outside('lab', 'map', center, radius, horizontal=horizontal)
            outside = next((pair for pair in expected if pair[0] > radius), None)
            assert (beyond and (beyond.distance_m, beyond.version_row)) == outside


def test_an_empty_mirror_answers_with_nothing(mirror: SpatialMirror) -> None:
    assert len(mirror.within('lab', 'map', (0.0, 0.0, 0.0), 1e9)) == 0
    assert mirror.ids_within(None, ('map', 'odom'), (0.0, 0.0, 0.0), 1e9).tolist() == []
    assert mirror.nearest_outside('lab', 'map', (0.0, 0.0, 0.0), 0.0) is None
    assert mirror.excluded('lab', 'map', (0.0, 0.0, 0.0), 1.0).other_maps == 0
    assert mirror.verify((), 0) == ()
    settle(mirror)
    assert len(mirror) == 0


@pytest.mark.parametrize('bad', [math.nan, math.inf, -math.inf, 1e200])
@pytest.mark.parametrize('axis', ['x', 'y', 'z'])
def test_rows_with_a_coordinate_that_is_not_finite_are_skipped_and_counted(bad: float, axis: str) -> None:
    rows = [replace(r, **{axis: bad}) if r.version_row == 500 else r for r in scattered(1000, seed=3)]
    loaded = SpatialMirror()
    loaded.load([RowBatch.from_rows(rows)], 1)
    applied = SpatialMirror()
    applied.load((), 0)
    applied.apply(1, rows)
    for mirror in (loaded, applied):
        settle(mirror)
        assert mirror.skipped == 1
        assert len(mirror.within('lab', 'map', (0.0, 0.0, 0.0), 1e6)) == 999
        assert mirror.verify([RowBatch.from_rows(rows)], 1) == ()
        mirror.close()


@pytest.mark.parametrize('radius', [-1.0, math.nan, math.inf])
def test_a_radius_that_is_no_radius_is_refused(mirror: SpatialMirror, radius: float) -> None:
    with pytest.raises(InvalidRequestError, match='radius_m'):
        mirror.within('lab', 'map', (0.0, 0.0, 0.0), radius)


@pytest.mark.parametrize('center', [(0.0, 0.0), (0.0, 0.0, math.nan), (math.inf, 0.0, 0.0)])
def test_a_center_that_is_no_point_is_refused(mirror: SpatialMirror, center: tuple[float, ...]) -> None:
    with pytest.raises(InvalidRequestError, match='center'):
        mirror.within('lab', 'map', center, 1.0)


def test_a_thousand_versions_at_one_spot_do_not_hide_what_is_beside_them(mirror: SpatialMirror) -> None:
    mirror.apply(1, [row(1, 0.01, valid_from_ns=1)])
    for i in range(1, 1001):
        ended = [3 * i - 2] if i > 1 else []
        closed = [row(3 * i, 0.0, spatial_id=i - 1, valid_from_ns=i - 1, valid_to_ns=i, from_seq=1 + i)]
        mirror.apply(
            1 + i,
            [row(3 * i + 1, 0.0, spatial_id=i, valid_from_ns=i, from_seq=1 + i), *(closed if i > 1 else [])],
            ended,
        )
    for _ in range(2):
        assert mirror.within('lab', 'map', (0.0, 0.0, 0.0), 0.1, at_ns=5000).version_rows.tolist() == [
            3001,
            1,
        ]
        assert mirror.within('lab', 'map', (0.0, 0.0, 0.0), 0.1, at_ns=500).version_rows.tolist() == [1503, 1]
        assert mirror.within(
            'lab', 'map', (0.0, 0.0, 0.0), 0.1, at_ns=5000, seq=500
        ).version_rows.tolist() == [1498, 1]
        assert len(mirror.within('lab', 'map', (0.0, 0.0, 0.0), 0.1)) == 1001
        settle(mirror)


def test_removed_rows_leave_nothing_behind(mirror: SpatialMirror) -> None:
    # An odd number, easily found in memory.
    secret = 1234.5678
    mirror.apply(1, scattered(3000, seed=4))
    mirror.apply(2, [row(4001, secret, secret, secret, from_seq=2, spatial_id=777_777)])
    settle(mirror)
    mirror.remove([4001], 3)
    assert mirror.sequence == 3
    assert len(mirror.within('lab', 'map', (secret, secret, secret), 1.0, seq=2)) == 0
    assert mirror.wait_idle(TIMEOUT_S)
    for part in mirror._atlas.places['lab', 'map'].parts:
        assert not (part.points == secret).any()
        assert not np.isin(part.rows, [4001, 777_777]).any()
    assert len(mirror) == 3000


def test_rows_that_share_a_point_share_it_after_a_rebuild_and_part_with_it_one_by_one(
    mirror: SpatialMirror,
) -> None:
    closed = [
        row(i, i // 3, spatial_id=i // 3, valid_to_ns=10, from_seq=1, to_seq=2 + i % 3)
        for i in range(3, 3003)
    ]
    mirror.apply(1, closed)
    settle(mirror)
    (part,) = mirror._atlas.places['lab', 'map'].parts
    assert (len(part), len(part.points)) == (3000, 1000)
    mirror.remove([3, 4])
    assert mirror.within('lab', 'map', (1.0, 0.0, 0.0), 0.5, seq=1).version_rows.tolist() == [5]
    mirror.apply(9)
    assert mirror.within('lab', 'map', (1.0, 0.0, 0.0), 0.5, seq=2).version_rows.tolist() == [5]
    mirror.remove([5])
    assert mirror.within('lab', 'map', (1.0, 0.0, 0.0), 0.5, seq=2).version_rows.tolist() == []
    assert mirror.within('lab', 'map', (2.0, 0.0, 0.0), 0.5, seq=2).version_rows.tolist() == [7, 8]


def test_what_is_left_out_is_counted_by_reason(mirror: SpatialMirror) -> None:
    mirror.apply(
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
        excluded = mirror.excluded('lab', 'map', (0.0, 0.0, 0.0), 1.0, at_ns=100)
        assert (excluded.other_maps, excluded.other_frames) == (1, 1)
        assert (excluded.not_yet_valid.tolist(), excluded.ended.tolist()) == ([3], [2])
        everywhere = mirror.excluded(None, 'map', (0.0, 0.0, 0.0), 1.0, at_ns=100)
        assert (everywhere.other_maps, everywhere.other_frames) == (0, 2)
        assert mirror.within(
            None, {'map', 'odom'}, (0.0, 0.0, 0.0), 1.0, at_ns=100
        ).version_rows.tolist() == [1, 4, 5, 6]
        settle(mirror)


def test_the_nearest_outside_is_found_behind_any_number_that_do_not_match(mirror: SpatialMirror) -> None:
    crowd = [replace(r, valid_to_ns=10) if r.version_row % 2 else r for r in scattered(20_000, seed=5)]
    mirror.apply(1, [*crowd, row(30_000, 0.0, 77.0), row(30_001, 0.0, 78.0)])
    for _ in range(2):
        beyond = mirror.nearest_outside('lab', 'map', (0.0, 0.0, 0.0), 20.0, at_ns=20)
        assert (beyond.version_row, beyond.distance_m) == (30_000, 77.0)
        assert mirror.nearest_outside('lab', 'map', (0.0, 0.0, 0.0), 78.0, at_ns=20) is None
        settle(mirror)


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


def test_verify_names_what_is_missing_what_is_extra_and_what_differs(mirror: SpatialMirror) -> None:
    rows = scattered(3000, seed=7)
    mirror.apply(1, rows)
    settle(mirror)
    mirror.apply(2, [row(5000, 1.0, from_seq=2)], ended=[10])
    truth = [replace(r, to_seq=2) if r.version_row == 10 else r for r in rows] + [row(5000, 1.0, from_seq=2)]
    assert mirror.verify([RowBatch.from_rows(truth[:700]), RowBatch.from_rows(truth[700:])], 2) == ()
    # As of an older sequence too: what came later is no difference.
    assert mirror.verify([RowBatch.from_rows(rows)], 1) == ()
    assert mirror.verify([RowBatch.from_rows(truth)], 1) == ()
    wrong = [
        replace(truth[0], x=truth[0].x + 1e-9),
        replace(truth[1], valid_to_ns=7, spatial_id=9999),
        replace(truth[2], map_id='hall'),
        *truth[4:],
        row(6000, 0.0),
    ]
    found = {d.version_row: (d.kind, d.fields) for d in mirror.verify([RowBatch.from_rows(wrong)], 2)}
    assert found == {
        1: ('differs', ('position',)),
        2: ('differs', ('valid_to_ns', 'spatial_id')),
        3: ('differs', ('place',)),
        4: ('extra', ()),
        6000: ('missing', ()),
    }
    assert len(mirror.verify([], 2, limit=5)) == 5
    with pytest.raises(InvalidRequestError, match='sequence'):
        mirror.verify([], 3)


def test_readers_see_one_sequence_while_rows_come_end_and_are_rebuilt(mirror: SpatialMirror) -> None:
    # Each transaction replaces the one believed row, so that every sequence has exactly one.
    mirror.apply(1, [*scattered(3000, seed=8, first=10_000), row(1, 100.0, spatial_id=1)])
    done = threading.Event()
    wrong: list[object] = []
    answers = [0]

    def read() -> None:
        while not done.is_set():
            hits = mirror.within('lab', 'map', (100.0, 0.0, 0.0), 1.0, at_ns=5)
            if hits.version_rows.tolist() != [hits.sequence]:
                wrong.append((hits.sequence, hits.version_rows.tolist()))
                return
            seq = max(1, hits.sequence - 7)
            past = mirror.ids_within('lab', 'map', (100.0, 0.0, 0.0), 1.0, at_ns=5, seq=seq)
            if past.tolist() != [seq]:
                wrong.append((seq, past.tolist()))
                return
            answers[0] += 1

    readers = [threading.Thread(target=read) for _ in range(2)]
    with mock.patch.multiple(_place, _BLOCK_ROWS=32, _DEAD_ROWS=16):
        for reader in readers:
            reader.start()
        sequence = 1
        while (sequence < 3000 or answers[0] < 200) and not wrong:
            sequence += 1
            mirror.apply(
                sequence, [row(sequence, 100.0, spatial_id=sequence, from_seq=sequence)], [sequence - 1]
            )
            if sequence % 500 == 0:
                mirror.rebuild()
        done.set()
        for reader in readers:
            reader.join(TIMEOUT_S)
    assert wrong == []
    assert mirror.wait_idle(TIMEOUT_S)


def test_closing_ends_every_thread_and_leaves_the_answers(mirror: SpatialMirror) -> None:
    mirror.apply(1, scattered(50_000, seed=9))
    mirror.rebuild()
    mirror.close()
    mirror.close()
    assert not [thread for thread in threading.enumerate() if thread.name == 'mirror-fold']
    assert len(mirror.within('lab', 'map', (0.0, 0.0, 0.0), 1e3)) == 50_000


def test_a_rebuild_that_fails_leaves_exact_answers(
    mirror: SpatialMirror, caplog: pytest.LogCaptureFixture
) -> None:
    mirror.apply(1, scattered(100, seed=10))
    with mock.patch('hylo_memory_ros.index._folding.fold', side_effect=MemoryError):
        settle(mirror)
    assert 'rebuild' in caplog.text
    mirror.apply(2, [], [1])
    assert len(mirror.within('lab', 'map', (0.0, 0.0, 0.0), 1e3)) == 99
    settle(mirror)
    assert len(mirror.within('lab', 'map', (0.0, 0.0, 0.0), 1e3)) == 99


coordinates = st.sampled_from([0.0, 0.1, 0.3, 1.0, -1.0, 2.5, 1e9, -1e9, 1e9 - 0.1])
points = st.tuples(coordinates, coordinates, coordinates)
times = st.integers(0, 8)
places = st.tuples(st.sampled_from(['lab', 'hall']), st.sampled_from(['map', 'odom']))


class MirrorMachine(RuleBasedStateMachine):
    """Any order of transactions, purges, loads and rebuilds."""

    def __init__(self) -> None:
        super().__init__()
        self.small = mock.patch.multiple(_place, _BLOCK_ROWS=6, _DEAD_ROWS=3, _SMALL_SHARE=2)
        self.small.start()
        self.mirror = SpatialMirror(now_ns=lambda: 5)
        self.plain = PlainMirror()
        self.next_row = 1
        self.random = random.Random(0)

    @initialize()
    def load_nothing(self) -> None:
        self.mirror.load((), 0)

    @rule(
        where=st.lists(st.tuples(places, points, times, st.none() | st.integers(1, 4)), max_size=6),
        ended=st.integers(0, 3),
    )
    def write(
        self, where: list[tuple[tuple[str, str], tuple[float, ...], int, int | None]], ended: int
    ) -> None:
        sequence = self.plain.sequence + 1
        added = []
        for (map_id, frame_id), point, start, length in where:
            end = None if length is None else start + length
            spatial_id = abs(hash((map_id, frame_id, point))) % 2**40
            added.append(
                BelievedRow(self.next_row, spatial_id, map_id, frame_id, *point, start, end, sequence)
            )  # type: ignore[call-arg,arg-type]
            self.next_row += 1
        self.change(sequence, added, self.pick(ended), ())

    @rule(count=st.integers(1, 3))
    def reclose(self, count: int) -> None:
        sequence = self.plain.sequence + 1
        open_rows = [r for r in self.plain.rows.values() if r.to_seq is None and r.valid_to_ns is None]
        chosen = self.random.sample(open_rows, min(count, len(open_rows)))
        again = [
            replace(r, version_row=self.next_row + i, valid_to_ns=r.valid_from_ns + 2, from_seq=sequence)
            for i, r in enumerate(chosen)
        ]
        self.next_row += len(again)
        self.change(sequence, again, [r.version_row for r in chosen], ())

    @rule(count=st.integers(1, 3))
    def purge(self, count: int) -> None:
        self.change(self.plain.sequence + 1, (), (), self.pick(count))

    @rule()
    def rebuild(self) -> None:
        self.mirror.rebuild()

    @rule()
    def rebuild_and_wait(self) -> None:
        settle(self.mirror)

    @rule()
    def load_again(self) -> None:
        batch = RowBatch.from_rows(self.plain.rows.values())
        self.mirror.load([batch], self.plain.sequence)

    @invariant()
    def answers_are_equal(self) -> None:
        mirror, plain = self.mirror, self.plain
        if not mirror.ready:
            return
        assert mirror.sequence == plain.sequence
        assert len(mirror.verify([RowBatch.from_rows(plain.rows.values())], plain.sequence)) == 0
        for _ in range(4):
            rng = self.random
            ask = {
                'at_ns': rng.choice([None, *range(10)]),
                'horizontal': rng.random() < 0.3,
                'seq': rng.choice([None, None, rng.randint(0, plain.sequence + 1)]),
                'tolerance_ns': rng.choice([0, 0, 2]),
            }
            map_id = rng.choice(['lab', 'lab', 'hall', None])
            frames = rng.choice(['map', 'odom', ('map', 'odom')])
            center = tuple(rng.choice([0.0, 0.1, 1.0, 1e9]) for _ in range(3))
            expected = plain.matching(map_id, frames, center, **ask)  # type: ignore[arg-type]
            radius = rng.choice([0.0, 1.0, 3e9, *(distance for distance, _ in expected[:20])])
            within = [pair for pair in expected if pair[0] <= radius]
            hits = mirror.within(map_id, frames, center, radius, **ask)  # type: ignore[arg-type]
            assert list(zip(hits.distances_m.tolist(), hits.version_rows.tolist(), strict=True)) == within
            ids = mirror.ids_within(map_id, frames, center, radius, **ask)  # type: ignore[arg-type]
            assert sorted(ids.tolist()) == sorted(version_row for _, version_row in within)
            ends = [plain.rows[v].valid_to_ns for v in hits.version_rows.tolist()]
            assert [None if end == OPEN else end for end in hits.valid_to_ns.tolist()] == ends
            beyond = mirror.nearest_outside(map_id, frames, center, radius, **ask)  # type: ignore[arg-type]
            assert (beyond and (beyond.distance_m, beyond.version_row)) == next(
                (pair for pair in expected if pair[0] > radius), None
            )

    def pick(self, count: int) -> list[int]:
        rows = list(self.plain.rows)
        return self.random.sample(rows, min(count, len(rows)))

    def change(
        self,
        sequence: int,
        added: list[BelievedRow] | tuple[()],
        ended: list[int] | tuple[()],
        removed: list[int] | tuple[()],
    ) -> None:
        self.plain.apply(sequence, added, ended, removed)
        if removed:
            self.mirror.remove(removed, sequence)
        else:
            self.mirror.apply(sequence, added, ended)

    def teardown(self) -> None:
        self.mirror.close()
        self.small.stop()


TestMirrorMachine = MirrorMachine.TestCase
TestMirrorMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
