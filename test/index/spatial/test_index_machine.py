"""The index against plain Python: any history of changes, any question, the same answer."""

from __future__ import annotations

import random
from dataclasses import replace
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from index.spatial.examples import settle
from index.spatial.plain_index import PlainIndex
from support.effort import scaled

from hylo_memory_ros.index.spatial import OPEN, BelievedRow, RadiusQuery, RowBatch, SpatialIndex, partition

coordinates = st.sampled_from([0.0, 0.1, 0.3, 1.0, -1.0, 2.5, 1e9, -1e9, 1e9 - 0.1])
points = st.tuples(coordinates, coordinates, coordinates)
times = st.integers(0, 8)
places = st.tuples(st.sampled_from(['lab', 'hall']), st.sampled_from(['map', 'odom']))


class IndexMachine(RuleBasedStateMachine):
    """Any order of transactions, purges, loads and rebuilds."""

    def __init__(self) -> None:
        super().__init__()
        self.small = mock.patch.multiple(partition, _DELTA_ROWS=6, _DEAD_ROWS=3, _DELTA_SHARE=2)
        self.small.start()
        self.index = SpatialIndex(now_ns=lambda: 5)
        self.plain = PlainIndex()
        self.next_row = 1
        self.random = random.Random(0)

    @initialize()
    def load_nothing(self) -> None:
        self.index.load((), 0)

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
        self.index.rebuild()

    @rule()
    def rebuild_and_wait(self) -> None:
        settle(self.index)

    @rule()
    def load_again(self) -> None:
        batch = RowBatch.from_rows(self.plain.rows.values())
        self.index.load([batch], self.plain.sequence)

    @invariant()
    def answers_are_equal(self) -> None:
        index, plain = self.index, self.plain
        if not index.ready:
            return
        assert index.sequence == plain.sequence
        assert len(index.verify([RowBatch.from_rows(plain.rows.values())], plain.sequence)) == 0
        for _ in range(4):
            rng = self.random
            ask = {
                'at_ns': rng.choice([None, *range(10)]),
                'horizontal': rng.random() < 0.3,
                'seq': rng.choice([None, None, rng.randint(0, plain.sequence + 1)]),
            }
            map_id = rng.choice(['lab', 'lab', 'hall', None])
            frame = rng.choice(['map', 'odom'])
            center = tuple(rng.choice([0.0, 0.1, 1.0, 1e9]) for _ in range(3))
            expected = plain.matching(map_id, frame, center, **ask)  # type: ignore[arg-type]
            radius = rng.choice([0.0, 1.0, 3e9, *(distance for distance, _ in expected[:20])])
            within = [pair for pair in expected if pair[0] <= radius]
            near = RadiusQuery(map_id, frame, center, radius, **ask)  # type: ignore[arg-type]
            hits = index.within(near)
            assert list(zip(hits.distances_m.tolist(), hits.version_rows.tolist(), strict=True)) == within
            ids = index.ids_within(near)
            assert sorted(ids.tolist()) == sorted(version_row for _, version_row in within)
            ends = [plain.rows[v].valid_to_ns for v in hits.version_rows.tolist()]
            assert [None if end == OPEN else end for end in hits.valid_to_ns.tolist()] == ends
            beyond = index.nearest_outside(near)
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
            self.index.remove(removed, sequence)
        else:
            self.index.apply(sequence, added, ended)

    def teardown(self) -> None:
        self.index.close()
        self.small.stop()


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = settings(max_examples=scaled(60), stateful_step_count=40, deadline=None)
