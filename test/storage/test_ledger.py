"""The ledger: small blocks that come back as they were, found by stamp, pruned by age and size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine

from hylo_memory_ros.model import Stats
from hylo_memory_ros.storage.landmarks import Block, InputRow, LandmarkRepository
from hylo_memory_ros.storage.observation_ledger import (
    LedgerRepository,
    pack_assignments,
    pack_consumed,
    unpack_assignments,
    unpack_consumed,
)
from hylo_memory_ros.storage.schema import erase_landmarks, metadata

stamps_ns = st.integers(0, 2**61)
digests = st.integers(0, 2**32 - 1)


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine('sqlite://')
    with engine.begin() as connection:
        metadata.create_all(connection)
        yield connection
    engine.dispose()


def a_block(input_id: int, stamps: Sequence[int], landmarks: Sequence[Sequence[int]] | None = None) -> Block:
    given = [[]] * len(stamps) if landmarks is None else landmarks
    return Block(
        input_id, stamps, [stamp % 1000 for stamp in stamps], [np.array(part, np.int64) for part in given]
    )


def a_row(number: int, key: str, map_id: str = 'hall', **fields: Any) -> dict[str, Any]:
    return {
        'number': number, 'map_id': map_id, 'key': key, 'label': 'cup', 'has_instance': False,
        'observations': 5, 'n': 4, 'first_ns': 10, 'since_ns': 11, 'last_ns': 12, 'x': 0.1, 'y': -0.0,
        'z': 1e300, 'estimate': b'12345678', 'written_ns': None, 'written': None,
        'forgotten_ns': None, 'merged_into': 0, 'existence': 0.5, 'stale': True, 'pinned': False,
        'viewpoint': 4, 'misses': 1, 'reported': None, 'held': False, 'held_in': 'hand',
        'labels': '{}', 'orientation': None, 'source': 9, 'rivals': b'1', 'chances': 2, **fields,
    }  # fmt: skip


def loaded(connection: Connection) -> list[dict[str, Any]]:
    columns = LandmarkRepository(connection).load('hall')
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@given(st.lists(st.tuples(stamps_ns, digests), min_size=1, max_size=50))
def test_consumed_messages_come_back(messages: list[tuple[int, int]]) -> None:
    messages.sort()
    stamps, found = zip(*messages, strict=True)
    assert unpack_consumed(pack_consumed(stamps, found), stamps[0]) == (list(stamps), list(found))


@given(st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=9), max_size=9))
def test_assignments_come_back(landmarks: list[list[int]]) -> None:
    assert unpack_assignments(pack_assignments([np.array(part, np.int64) for part in landmarks])) == landmarks


def test_a_message_takes_few_bytes() -> None:
    """30 messages a second of a jittering camera, 100 detections each in the same order."""
    rng = np.random.default_rng(0)
    stamps = (10**18 + np.cumsum(33_333_333 + rng.integers(-(10**6), 10**6, 150))).tolist()
    consumed = pack_consumed(stamps, rng.integers(0, 2**32, 150).tolist())
    assert len(consumed) / 150 < 8.5
    landmarks = rng.permutation(100_000)[:100].astype(np.int64)
    assert len(pack_assignments([landmarks] * 150)) / 150 < 10
    shuffled = [rng.permutation(landmarks) for _ in range(150)]
    assert len(pack_assignments(shuffled)) / 150 < 280


def test_blocks_are_found_by_stamp(connection: Connection) -> None:
    first = LedgerRepository(connection).input_number('front')
    second = LedgerRepository(connection).input_number('rear')
    assert (first, LedgerRepository(connection).input_number('front')) == (1, 1)
    for input_id in (first, second):
        LedgerRepository(connection).add(a_block(input_id, [100, 200, 300]))
        LedgerRepository(connection).add(a_block(input_id, [300, 400]))
        LedgerRepository(connection).add(a_block(input_id, [500]))

    def spans(stamp_ns: int) -> list[tuple[int, int]]:
        return [
            (found.first_ns, found.last_ns)
            for found in LedgerRepository(connection).blocks_at(first, stamp_ns)
        ]

    assert spans(99) == spans(450) == spans(501) == []
    assert spans(100) == [(100, 300)]
    assert spans(300) == [(100, 300), (300, 400)]
    assert spans(500) == [(500, 500)]
    (found,) = LedgerRepository(connection).blocks_at(first, 150)
    assert found.messages == {(100, 100), (200, 200), (300, 300)}


def test_inputs_keep_their_counts_and_newest_stamp(connection: Connection) -> None:
    LedgerRepository(connection).save_counts('front', 3, 1)
    assert LedgerRepository(connection).load_inputs() == {'front': InputRow(1, None, 3, 1)}
    LedgerRepository(connection).add(a_block(1, [7, 9]))
    LedgerRepository(connection).save_counts('front', 4, 1)
    assert LedgerRepository(connection).load_inputs() == {'front': InputRow(1, 9, 4, 1)}


def test_observations_come_in_their_order_with_the_keys_of_now(connection: Connection) -> None:
    front, rear = (LedgerRepository(connection).input_number(name) for name in ('front', 'rear'))
    LandmarkRepository(connection).save([a_row(1, 'cup/a'), a_row(2, 'cup/b')])
    LedgerRepository(connection).add(a_block(rear, [100, 300], [[1], [2, 0]]))
    LedgerRepository(connection).add(a_block(front, [100, 200], [[2, 7], []]))
    LedgerRepository(connection).add(a_block(front, [400], [[1]]))
    assert [tuple(record) for record in LedgerRepository(connection).observations()] == [
        ('front', 100, 0, 'cup/b'),
        ('front', 100, 1, None),
        ('rear', 100, 0, 'cup/a'),
        ('rear', 300, 0, 'cup/b'),
        ('rear', 300, 1, None),
        ('front', 400, 0, 'cup/a'),
    ]
    LandmarkRepository(connection).delete([2])
    assert [record.landmark for record in LedgerRepository(connection).observations()].count(None) == 4


def test_the_oldest_assignments_leave_and_the_messages_stay_known(connection: Connection) -> None:
    LedgerRepository(connection).input_number('front')
    sizes = [LedgerRepository(connection).add(a_block(1, [stamp], [[1]])) for stamp in range(100, 1100, 100)]
    assert LedgerRepository(connection).assignment_span() == (sum(sizes), 100)
    assert LedgerRepository(connection).prune(300, 0) == sum(sizes[:2])
    assert LedgerRepository(connection).prune(0, sizes[2] + 1) == sum(sizes[2:4])
    assert LedgerRepository(connection).prune(0, 0) == 0
    assert LedgerRepository(connection).assignment_span() == (sum(sizes[4:]), 500)
    assert [record.stamp_ns for record in LedgerRepository(connection).observations()] == list(
        range(500, 1100, 100)
    )
    assert LedgerRepository(connection).blocks_at(1, 100)
    assert LedgerRepository(connection).prune(10**6, 0) == sum(sizes[4:])
    assert LedgerRepository(connection).assignment_span() == (0, None)


def test_landmark_rows_come_back_bit_for_bit(connection: Connection) -> None:
    rows = [a_row(1, 'cup/a', written_ns=5, written=b'xyz', forgotten_ns=2**61), a_row(2, 'cup/b', 'lab')]
    LandmarkRepository(connection).save(rows)
    assert loaded(connection) == rows[:1]
    LandmarkRepository(connection).save([a_row(1, 'cup/a', x=0.2)])
    assert loaded(connection) == [a_row(1, 'cup/a', x=0.2)]
    assert set(LandmarkRepository(connection).load('attic').values()) == {()}
    assert LandmarkRepository(connection).numbers('lab') == {2}


def test_numbers_are_not_given_twice(connection: Connection) -> None:
    assert LandmarkRepository(connection).next_number() == 1
    LandmarkRepository(connection).save([a_row(7, 'cup/a')])
    LandmarkRepository(connection).save_next_number(8)
    LandmarkRepository(connection).delete([7])
    assert LandmarkRepository(connection).next_number() == 8


def test_statistics_by_map_and_key(connection: Connection) -> None:
    LandmarkRepository(connection).save([a_row(1, 'cup/a'), a_row(2, 'cup/a', 'lab', observations=9)])
    found = LandmarkRepository(connection).stats([('hall', 'cup/a'), ('lab', 'cup/a'), ('lab', 'cup/b')])
    assert found == {('hall', 'cup/a'): Stats(5, 10, 12), ('lab', 'cup/a'): Stats(9, 10, 12)}


def test_a_scrub_takes_every_trace(connection: Connection) -> None:
    LandmarkRepository(connection).save([a_row(number, f'cup/{number}') for number in range(1, 12_001)])
    gone = [('hall', f'cup/{number}') for number in range(1, 12_001) if number != 77]
    assert erase_landmarks(connection, [*gone, ('lab', 'cup/77')]) == 11_999
    assert LandmarkRepository(connection).numbers('hall') == {77}
