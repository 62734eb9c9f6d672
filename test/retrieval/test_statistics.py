"""Existence and staleness as filters: of open versions, as counted now, explained."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from support.clock import ManualClock
from support.tables import write_tables

from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose, QueryResult
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.schema import landmark

NEAR = (Pose(frame_id='map', position=(0.0, 0.0, 0.0)), 5.0)
WAYS = [{'near': NEAR}, {'labels': ('mug',)}, {'near': NEAR, 'text': 'mug'}, {'text': 'mug'}]


def count(memory: MemoryService, key: str, log_odds: float, *, stale: bool = False) -> None:
    """Put what perception would count of a landmark beside its item."""
    row = {
        'map_id': 'lab', 'key': key, 'label': 'mug', 'has_instance': False, 'observations': 3, 'n': 3,
        'first_ns': 1, 'since_ns': 1, 'last_ns': 2, 'x': 0.0, 'y': 0.0, 'z': 0.0, 'estimate': b'',
        'existence': log_odds, 'stale': stale,
    }  # fmt: skip

    def put(connection: sa.Connection) -> None:
        connection.execute(landmark.insert(), row)

    write_tables(memory, put)


def keys(result: QueryResult) -> set[str | None]:
    return {hit.item.key for hit in result}


@pytest.fixture
def memory() -> Iterator[MemoryService]:
    clock = ManualClock(1000.0)
    with MemoryService.open(clock=clock, map_id='lab') as memory:
        memory.write(
            [
                MemoryItem(kind='spatial', key=key, label='mug', content='mug', pose=NEAR[0], valid_from=1)
                for key in ('sure', 'doubted', 'stale', 'unasked', 'told')
            ]
        )
        count(memory, 'sure', 3.0)
        count(memory, 'doubted', -1.0)
        count(memory, 'stale', 2.0, stale=True)
        count(memory, 'unasked', 0.0)
        yield memory


@pytest.mark.parametrize('way', WAYS)
def test_the_least_existence_leaves_out_what_is_doubted(
    memory: MemoryService, way: dict[str, object]
) -> None:
    result = memory.query(MemoryQuery(**way, min_existence=0.5))
    assert keys(result) == {'sure', 'stale', 'unasked', 'told'}
    assert result.excluded['below_existence'] == 1
    assert keys(memory.query(MemoryQuery(**way, min_existence=0.9))) == {'sure', 'unasked', 'told'}
    assert len(memory.query(MemoryQuery(**way, min_existence=0.0))) == 5
    assert keys(memory.query(MemoryQuery(**way, min_existence=1.0))) == {'unasked', 'told'}


@pytest.mark.parametrize('way', WAYS)
def test_what_is_stale_is_told_and_may_be_left_out(memory: MemoryService, way: dict[str, object]) -> None:
    status = {hit.item.key: hit.status for hit in memory.query(MemoryQuery(**way))}
    assert status == dict.fromkeys(('sure', 'doubted', 'unasked', 'told'), 'current') | {'stale': 'stale'}
    result = memory.query(MemoryQuery(**way, include_stale=False))
    assert keys(result) == {'sure', 'doubted', 'unasked', 'told'}
    assert result.excluded['stale'] == 1
    both = memory.query(MemoryQuery(**way, include_stale=False, min_existence=0.5))
    assert (keys(both), both.total) == ({'sure', 'unasked', 'told'}, 3)
    assert (both.excluded['stale'], both.excluded['below_existence']) == (1, 1)


def test_existence_is_a_probability_or_not_known(memory: MemoryService) -> None:
    existence = {
        hit.item.key: None if hit.stats is None else hit.stats.existence
        for hit in memory.query(MemoryQuery(near=NEAR))
    }
    assert existence['sure'] == pytest.approx(0.952574126822433)
    assert existence['doubted'] == pytest.approx(0.2689414213699951)
    assert (existence['unasked'], existence['told']) == (None, None)


def test_what_has_ended_is_not_asked_whether_it_exists(memory: MemoryService) -> None:
    memory.forget(MemoryQuery(keys=('doubted', 'stale')))
    then = MemoryQuery(labels=('mug',), as_of=5, include_stale=False, min_existence=0.8)
    assert keys(memory.query(then)) == {'sure', 'doubted', 'stale', 'unasked', 'told'}


def test_a_covariance_gives_the_probability_to_be_within() -> None:
    covariance = [0.01 if i in (0, 7, 14) else 0.0 for i in range(36)]
    with MemoryService.open(clock=ManualClock(1000.0)) as memory:
        memory.write(
            [
                MemoryItem(
                    kind='spatial',
                    key='sure',
                    pose=NEAR[0].model_copy(update={'covariance': tuple(covariance)}),
                ),
                MemoryItem(kind='spatial', key='unknown', pose=NEAR[0]),
            ]
        )
        hits = memory.query(MemoryQuery(near=(NEAR[0], 0.1)))
        found = {hit.item.key: hit.details.get('p_within') for hit in hits}
        assert found == {'sure': pytest.approx(0.198748, abs=1e-5), 'unknown': None}
