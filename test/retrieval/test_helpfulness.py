"""Helpfulness as an order and as a filter: off unless asked for, explained, the same on every way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose, QueryResult
from hylo_memory_ros.service import MemoryService

NEAR = (Pose(frame_id='map', position=(0.0, 0.0, 0.0)), 5.0)
SPACE = 'test@1'
WAYS: dict[str, dict[str, Any]] = {
    'near': {'near': NEAR},
    'label': {'labels': ('mug',)},
    'text': {'text': 'mug'},
    'near and text': {'near': NEAR, 'text': 'mug'},
    'vector': {'embedding': (SPACE, (1.0, 0.0))},
    'vector and label': {'embedding': (SPACE, (1.0, 0.0)), 'labels': ('mug',)},
    'ids unknown yet': {'keys': ('good', 'bad', 'new', 'mixed')},
}
VERDICTS = {'good': ['useful', 'useful'], 'bad': ['wrong'], 'mixed': ['useful', 'misleading'], 'new': []}


def write(memory: MemoryService) -> None:
    memory.write(
        [
            MemoryItem(
                kind='spatial', key=key, label='mug', content='mug', pose=NEAR[0], valid_from=1,
                embeddings={SPACE: (1.0, 0.0)},
            )
            for key in VERDICTS
        ]
    )  # fmt: skip


def judge(memory: MemoryService) -> None:
    for key, verdicts in VERDICTS.items():
        (hit,) = memory.query(MemoryQuery(key=key))
        for number, verdict in enumerate(verdicts):
            memory.feedback(verdict, ids=[hit.item.id], actor=str(number))


@pytest.fixture
def memory() -> Iterator[MemoryService]:
    with MemoryService.open() as opened:
        write(opened)
        judge(opened)
        yield opened


def keys(result: QueryResult) -> list[str | None]:
    return [hit.item.key for hit in result]


@pytest.mark.parametrize('way', WAYS)
def test_the_least_helpfulness_leaves_out_what_has_helped_less(memory: MemoryService, way: str) -> None:
    asked = MemoryQuery(**WAYS[way], min_helpfulness=0.5)
    result = memory.query(asked)
    assert set(keys(result)) == {'good', 'mixed', 'new'}
    assert (result.total, result.excluded['below_helpfulness']) == (3, 1)
    assert keys(memory.query(asked.model_copy(update={'min_helpfulness': 0.6}))) == ['good']
    assert len(memory.query(asked.model_copy(update={'min_helpfulness': 0.0}))) == 4
    assert keys(memory.query(asked.model_copy(update={'min_helpfulness': 1.0}))) == []


@pytest.mark.parametrize('way', WAYS)
def test_weighed_the_most_helpful_come_first(memory: MemoryService, way: str) -> None:
    result = memory.query(MemoryQuery(**WAYS[way], weights={'helpfulness': 1.0}))
    assert keys(result)[0] == 'good'
    assert keys(result)[-1] == 'bad'
    assert set(keys(result)[1:3]) == {'mixed', 'new'}
    assert [hit.details['helpfulness'] for hit in result] == pytest.approx([0.75, 0.5, 0.5, 1 / 3])
    assert [hit.score for hit in result] == sorted((hit.score for hit in result), reverse=True)


@pytest.mark.parametrize('way', WAYS)
def test_unless_it_is_asked_for_verdicts_change_no_answer(tmp_path: Path, way: str) -> None:
    asked = MemoryQuery(**WAYS[way], explain=True)
    with MemoryService.open(f'sqlite:///{tmp_path}/memory.db') as memory:
        write(memory)
        before = memory.query(asked)
        judge(memory)
        after = memory.query(asked)
    assert [(hit.item, hit.score, hit.details) for hit in after] == [
        (hit.item, hit.score, hit.details) for hit in before
    ]
    assert (after.total, after.excluded) == (before.total, before.excluded)
    assert {hit.item.key for hit in after if hit.stats} == {'good', 'bad', 'mixed'}


def test_the_weight_is_a_parameter_that_a_question_may_overrule(tmp_path: Path) -> None:
    config = MemoryConfig(weights={'helpfulness': 2.0})
    with MemoryService.open(f'sqlite:///{tmp_path}/memory.db', config=config) as memory:
        write(memory)
        judge(memory)
        assert keys(memory.query(MemoryQuery(labels=('mug',))))[0] == 'good'
        plain = memory.query(MemoryQuery(labels=('mug',), weights={'helpfulness': 0.0}))
        assert [hit.details for hit in plain] == [{'filter': 1.0}] * 4


def test_pages_know_nothing_of_verdicts_that_come_between(memory: MemoryService) -> None:
    asked = MemoryQuery(labels=('mug',), weights={'helpfulness': 1.0}, k=2)
    first = memory.query(asked)
    (new,) = memory.query(MemoryQuery(key='bad'))
    for number in range(9):
        memory.feedback('useful', ids=[new.item.id], actor=f'late {number}')
    second = memory.query(asked.model_copy(update={'cursor': first.cursor}))
    assert sorted([*keys(first), *keys(second)]) == ['bad', 'good', 'mixed', 'new']


def test_working_memory_was_never_judged(memory: MemoryService) -> None:
    memory.write([MemoryItem(kind='working', key='plan', label='mug', content='mug')])
    ranked = memory.query(MemoryQuery(labels=('mug',), weights={'helpfulness': 1.0}))
    assert keys(ranked)[0] == 'good'
    assert keys(ranked)[-1] == 'bad'
    assert 'plan' in keys(memory.query(MemoryQuery(labels=('mug',), min_helpfulness=0.5)))
    assert 'plan' not in keys(memory.query(MemoryQuery(labels=('mug',), min_helpfulness=0.51)))


def test_verdicts_are_known_at_no_earlier_time(memory: MemoryService) -> None:
    then = memory.query(MemoryQuery(key='good', known_seq=1))
    assert then[0].stats.helpfulness.useful == 2
    answer = memory.query(MemoryQuery(labels=('mug',), min_helpfulness=0.6), receipt=True)
    (hit,) = memory.query(MemoryQuery(key='new'))
    memory.feedback('useful', ids=[hit.item.id])
    replay = memory.replay_receipt(answer.receipt_id)
    assert not replay.same
    assert 'helpfulness is counted beside items and has no history' in replay.reasons


@pytest.mark.parametrize(
    'fields',
    [
        {'min_helpfulness': -0.1},
        {'min_helpfulness': 1.1},
        {'min_helpfulness': float('nan')},
        {'min_helpfulness': 'much'},
        {'weights': {'helpfulness': -1.0}},
        {'weights': {'helpfulness': 1001.0}},
        {'weights': {'helpful': 1.0}},
    ],
)
def test_what_is_no_score_and_no_weight_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MemoryQuery(**fields)


def test_helpfulness_alone_takes_nothing_away(memory: MemoryService) -> None:
    from hylo_memory_ros.errors import InvalidRequestError

    with pytest.raises(InvalidRequestError, match='without any filter'):
        memory.forget(MemoryQuery(min_helpfulness=0.6))
    assert memory.forget(MemoryQuery(labels=('mug',), min_helpfulness=0.6)) == 1
