"""Vectors and consolidation: near duplicates by similarity, and what vector a summary has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.clock import ManualClock

from hylo_memory_ros.config import ConsolidationSettings, MemoryConfig
from hylo_memory_ros.domain.consolidation.planner import SimilarityClusters
from hylo_memory_ros.model import Budget, EmbeddingSpace, MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.service import embedding_spaces as spaces

SPACE = 'toy@1'


class Letters:
    """Counts four letters."""

    dimension = 4
    model = 'letters'
    digest = 'sha256:' + 64 * '0'

    def embed(self, texts: Sequence[str]) -> Any:
        return np.array([[1 + text.count(letter) for letter in 'aeio'] for text in texts], np.float32)


def event(content: str, at_s: float, vector: Sequence[float] | None) -> MemoryItem:
    vectors = {} if vector is None else {SPACE: tuple(vector)}
    return MemoryItem(kind='episodic', content=content, valid_from=at_s, embeddings=vectors)


def memory_of(space: EmbeddingSpace | None, **settings: Any) -> MemoryService:
    config = MemoryConfig(
        embedding_spaces={} if space is None else {SPACE: space},
        consolidation=ConsolidationSettings(**settings),
    )
    return MemoryService.open(clock=ManualClock(1e6), config=config)


SAID = [
    event('a cup fell', 1.0, (1.0, 0.0, 0.0, 0.0)),
    event('the door rang', 2.0, (0.0, 1.0, 0.0, 0.0)),
    event('a mug dropped', 3.0, (0.99, 0.05, 0.0, 0.0)),
    event('no vector', 4.0, None),
    event('something broke', 5.0, (0.97, 0.0, 0.1, 0.0)),
]


def test_what_is_alike_becomes_one_only_where_the_space_is_named() -> None:
    for settings, expected in (({}, []), ({'near_duplicate_space': SPACE}, [(0, 2, 4)])):
        with memory_of(None, **settings) as memory:
            ids = memory.write(SAID).ids
            report = memory.consolidate(budget=Budget(items=3), dry_run=True)
            assert [one.ids for one in report.merged] == [
                tuple(ids[n] for n in places) for places in expected
            ]
    with memory_of(None, near_duplicate_space=SPACE, near_duplicate_similarity=0.999) as memory:
        memory.write(SAID)
        assert memory.consolidate(budget=Budget(items=3), dry_run=True).merged == ()


def test_numbers_and_payloads_are_never_alike() -> None:
    said = ['took O7 to room 12', 'took O7 to room 13', 'took O8 to room 12', 'brought O7 to room 12']
    items = [event(one, 1.0 + n, (1.0, 0.0, 0.0, 0.0)) for n, one in enumerate(said)]
    items.append(items[3].model_copy(update={'content': 'got O7 to room 12', 'payload': {'how': 'fast'}}))
    with memory_of(None, near_duplicate_space=SPACE) as memory:
        ids = memory.write(items).ids
        report = memory.consolidate(budget=Budget(items=4), dry_run=True)
        assert [one.ids for one in report.merged] == [(ids[0], ids[3])]


def test_who_came_long_before_is_no_near_duplicate() -> None:
    rng = np.random.default_rng(1)
    vectors = {number: rng.normal(size=64) for number in range(400)}
    vectors[400], vectors[401] = vectors[0], vectors[399]
    leaders = SimilarityClusters(vectors, 0.999).leaders(range(402))
    assert leaders[401] == 399
    assert leaders[400] == 400
    assert all(leaders[number] == number for number in range(400))


@pytest.mark.parametrize('metric', ['cosine', 'dot', 'l2'])
def test_the_mean_is_taken_where_the_space_says_so(metric: Any) -> None:
    space = EmbeddingSpace(dimension=4, metric=metric, mean_of_summaries=True)
    with memory_of(space) as memory:
        memory.write([one for one in SAID if one.embeddings])
        memory.consolidate(budget=Budget(items=1))
        (hit,) = memory.query(MemoryQuery(embedding=(SPACE, (1.0, 0.0, 0.0, 0.0))))
        mean = np.mean([one.embeddings[SPACE] for one in SAID if one.embeddings], axis=0)
        expected = mean / np.linalg.norm(mean) if metric == 'cosine' else mean
        (stored,) = memory.query(MemoryQuery(ids=(str(hit.item.id),)))
        assert np.allclose(
            memory.history(stored.item.id).versions[0].item.embeddings[SPACE], expected, atol=1e-6
        )


def test_without_a_vector_of_all_or_a_word_of_the_space_there_is_none() -> None:
    for space, said in (
        (EmbeddingSpace(dimension=4, mean_of_summaries=True), SAID),
        (EmbeddingSpace(dimension=4), SAID[:3]),
    ):
        with memory_of(space) as memory:
            memory.write(said)
            report = memory.consolidate(budget=Budget(items=1))
            (made,) = report.summarized
            assert memory.history(made.id).versions[0].item.embeddings == {}


def test_an_embedder_makes_it_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spaces, 'embedder_named', lambda _: Letters())
    with memory_of(EmbeddingSpace(dimension=4, embedder='letters')) as memory:
        memory.write(SAID)
        (made,) = memory.consolidate(budget=Budget(items=1)).summarized
        item = memory.history(made.id).versions[0].item
        assert item.embeddings[SPACE] == tuple(Letters().embed([item.content])[0].tolist())
