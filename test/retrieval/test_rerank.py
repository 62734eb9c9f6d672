"""Reranking: by a plug-in over a pool that pages share, recorded in the receipt; True is exact already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from pydantic import ValidationError

from hylo_memory_ros import plugins
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import Hit, MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.msg import MemoryFilter
from hylo_memory_ros.retrieval.ranking import RERANK_POOL, RERANKERS_GROUP
from hylo_memory_ros.ros.convert.filters import query_from_msg
from hylo_memory_ros.service import MemoryService

HERE = Pose(frame_id='map', position=(0.0, 0.0, 0.0))
NEAR = MemoryQuery(near=(HERE, 1e3), k=5)


def farthest(query: MemoryQuery, hits: Sequence[Hit]) -> list[float]:
    """Score the farthest highest."""
    assert query.near is not None
    return [(hit.distance_m or 0.0) / query.near[1] for hit in hits]


def all_alike(query: MemoryQuery, hits: Sequence[Hit]) -> list[float]:
    return [0.5] * len(hits)


def too_few(query: MemoryQuery, hits: Sequence[Hit]) -> list[float]:
    return [0.5]


def too_large(query: MemoryQuery, hits: Sequence[Hit]) -> list[float]:
    return [2.0] * len(hits)


def not_a_number(query: MemoryQuery, hits: Sequence[Hit]) -> list[Any]:
    return [float('nan')] * len(hits)


def failing(query: MemoryQuery, hits: Sequence[Hit]) -> list[float]:
    raise RuntimeError('no model')


@pytest.fixture(autouse=True)
def rerankers(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ('farthest', 'all_alike', 'too_few', 'too_large', 'not_a_number', 'failing')
    points = [EntryPoint(name, f'{__name__}:{name}', RERANKERS_GROUP) for name in names]
    for point in points:
        monkeypatch.setattr(EntryPoint, 'load', lambda point: globals()[point.name])
    monkeypatch.setattr(plugins, 'entry_points', lambda group: points if group == RERANKERS_GROUP else [])


@pytest.fixture
def memory() -> Iterator[MemoryService]:
    with MemoryService.open() as memory:
        memory.write(
            [
                MemoryItem(
                    kind='spatial', key=f'{n:03}', content='red mug', valid_from=1,
                    pose=Pose(frame_id='map', position=(float(n), 0.0, 0.0)),
                    embeddings={'s@1': (1.0, float(n))},
                )
                for n in range(150)
            ]
        )  # fmt: skip
        yield memory


def keys(hits: Sequence[Hit]) -> list[str | None]:
    return [hit.item.key for hit in hits]


def test_a_named_reranker_orders_the_pool_and_its_pages(memory: MemoryService) -> None:
    query = NEAR.model_copy(update={'rerank': 'farthest', 'k': 30})
    found: list[Hit] = []
    while True:
        result = memory.query(query)
        found += result.hits
        if result.cursor is None:
            break
        query = query.model_copy(update={'cursor': result.cursor})
    assert keys(found) == [f'{n:03}' for n in reversed(range(RERANK_POOL))]
    assert found[0].score == 99.0 / 1e3
    assert found[0].details['before_rerank'] == 1 / (1 + 99.0)
    assert result.total == 150


def test_a_larger_page_reranks_all_of_it(memory: MemoryService) -> None:
    result = memory.query(NEAR.model_copy(update={'rerank': 'farthest', 'k': 1000}))
    assert keys(result.hits) == [f'{n:03}' for n in reversed(range(150))]
    assert not result.truncated


def test_equal_scores_keep_the_order(memory: MemoryService) -> None:
    result = memory.query(NEAR.model_copy(update={'rerank': 'all_alike'}))
    assert keys(result.hits) == keys(memory.query(NEAR).hits)


@pytest.mark.parametrize(
    'filters',
    [{'text': 'mug'}, {'kinds': ['spatial']}, {'embedding': ('s@1', (1.0, 0.0))}, {'key': 'none'}],
    ids=str,
)
def test_any_query_may_be_reranked(memory: MemoryService, filters: dict[str, Any]) -> None:
    plain = memory.query(MemoryQuery(**filters, k=150))
    result = memory.query(MemoryQuery(**filters, k=150, rerank='all_alike'))
    assert (keys(result.hits), result.total) == (keys(plain.hits), plain.total)
    assert result.evidence[-1].reranked == len(result)


def test_the_receipt_names_the_reranker_and_replays(memory: MemoryService) -> None:
    result = memory.query(NEAR.model_copy(update={'rerank': 'farthest'}), receipt=True)
    body = memory.receipt(result.receipt_id)
    assert body['query']['rerank'] == 'farthest'
    assert [source['backend'] for source in body['sources']] == ['mirror', 'reranker farthest']
    assert body['sources'][-1]['reranked'] == RERANK_POOL
    assert memory.replay_receipt(result.receipt_id).same


def test_true_changes_no_order_and_is_in_the_evidence(memory: MemoryService) -> None:
    by_vector = MemoryQuery(embedding=('s@1', (1.0, 3.0)), k=5)
    for query, count in ((NEAR, 5), (by_vector, 150), (MemoryQuery(text='mug', k=5), 5)):
        exact = memory.query(query.model_copy(update={'rerank': True}))
        assert keys(exact.hits) == keys(memory.query(query).hits)
        assert sum(one.reranked for one in exact.evidence) == count


@pytest.mark.parametrize(
    ('name', 'problem'),
    [
        ('farther', 'none of all_alike, failing, farthest'),
        ('too_few', 'expected 100 scores from 0 to 1'),
        ('too_large', 'expected 100 scores from 0 to 1'),
        ('not_a_number', 'expected 100 scores from 0 to 1'),
        ('failing', 'failed: no model'),
    ],
)
def test_a_reranker_that_is_unknown_or_wrong_is_refused_by_name(
    memory: MemoryService, name: str, problem: str
) -> None:
    with pytest.raises(InvalidRequestError, match=f'^rerank: .*{problem}'):
        memory.query(NEAR.model_copy(update={'rerank': name}))


@pytest.mark.parametrize('value', [1, 0.5, '', ' ', ['farthest'], None])
def test_what_is_neither_a_flag_nor_a_name_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError):
        MemoryQuery(text='mug', rerank=value)


def test_a_message_names_it_in_its_options() -> None:
    assert query_from_msg(MemoryFilter(options_json='{"rerank": "farthest"}')).rerank == 'farthest'
    assert query_from_msg(MemoryFilter(options_json='{"rerank": true}')).rerank is True
