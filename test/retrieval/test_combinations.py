"""Any combination of filters and orders, at any place on both time axes, equals a look at everything."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from storage.plain_memory import NS, PlainMemory, Stretch, distance
from support.clock import ManualClock
from support.effort import scaled

from hylo_memory_ros.model import Hit, MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService

SPACE = 'clip@1'
NAMES = ('O1', 'O2', 'O3', 'cup', 'tray')
MAPS = ('', 'lab')


class PlainRetrieval(PlainMemory):
    """The plain memory, with what the filters of retrieval mean."""

    def names(self, stretch: Stretch) -> set[str]:
        item = stretch.said.item
        alone = item.object_ids[:1] if len(set(item.object_ids)) == 1 else ()
        return {str(item.id), *([item.key] if item.key else []), *alone}

    def standing(self, query: MemoryQuery) -> list[Stretch]:
        at = self.time_of(query)
        return [s for s in self.beliefs[self.belief_of(query)] if query.include_invalidated or s.holds(at)]

    def reached(
        self, query: MemoryQuery, first: Callable[[Stretch], bool], relation: str | None
    ) -> set[Stretch]:
        """Follow links step by step, from what comes first."""
        standing = self.standing(query)
        found = step = {s for s in standing if first(s)}
        for _ in range(query.depth - 1):
            step = {
                s for s in standing for t in step for name, target in s.said.item.links
                if relation in (None, name) and target in self.names(t) and self._one_map(s, t)
            }  # fmt: skip
            found = found | step
        return found

    @staticmethod
    def _one_map(one: Stretch, other: Stretch) -> bool:
        here, there = (s.said.item.scope.get('map_id', '') for s in (one, other))
        return here == there or not here or not there

    def matches(self, query: MemoryQuery) -> list[Stretch]:
        found = set(self.answer(query))
        if query.relation is not None:
            relation = query.relation
            found &= self.reached(query, lambda s: relation in s.said.item.links, relation[0])
        for name in query.entities:

            def named(s: Stretch, name: str = name) -> bool:
                return name in s.said.item.entities

            walks = query.relation is None
            found &= self.reached(query, named, None) if walks else {s for s in found if named(s)}
        return [s for s in found if self._is_told(s.said.item, query)]

    @staticmethod
    def _is_told(item: MemoryItem, query: MemoryQuery) -> bool:
        return (
            set(query.object_ids) <= set(item.object_ids)
            and item.confidence >= (query.min_confidence or 0.0)
            and (query.embedding is None or SPACE in item.embeddings)
        )


places = st.sampled_from([None, (0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 2.0, 1.0), (3.0, 3.0, 0.0)])
links = st.lists(st.tuples(st.sampled_from(('on', 'in')), st.sampled_from(NAMES)), max_size=2, unique=True)
vectors = st.sampled_from([None, (1.0, 0.0), (0.6, 0.8), (0.0, 1.0), (-1.0, 0.2)])


@st.composite
def items(draw: st.DrawFn) -> MemoryItem:
    position, vector = draw(places), draw(vectors)
    map_id = draw(st.sampled_from(MAPS))
    return MemoryItem(
        kind=draw(st.sampled_from(('semantic', 'spatial'))),
        key=draw(st.sampled_from(('cup', 'tray', 'k1', 'k2', 'k3'))),
        label=draw(st.sampled_from(('', 'mug'))),
        content=' '.join(draw(st.lists(st.sampled_from(('red', 'blue', 'mug')), max_size=4))),
        entities=tuple(draw(st.lists(st.sampled_from(('Bob', 'Eve')), max_size=2, unique=True))),
        object_ids=tuple(draw(st.lists(st.sampled_from(('O1', 'O2', 'O3')), max_size=2, unique=True))),
        links=tuple(draw(links)),
        scope={'map_id': map_id} if map_id else {},
        pose=None if position is None else Pose(frame_id='map', position=position),
        confidence=draw(st.sampled_from((0.25, 0.5, 1.0))),
        embeddings={} if vector is None else {SPACE: vector},
        valid_from=draw(st.integers(1, 30)),
    )


@st.composite
def queries(draw: st.DrawFn) -> MemoryQuery:
    def maybe(strategy: st.SearchStrategy[Any]) -> Any:
        return draw(st.one_of(st.none(), strategy))

    fields: dict[str, Any] = {
        'text': maybe(st.sampled_from(('red', 'mug', 'red mug', 'blue'))),
        'embedding': maybe(st.sampled_from([(SPACE, (1.0, 0.0)), (SPACE, (0.3, -0.9))])),
        'labels': maybe(st.just(('mug',))),
        'keys': maybe(st.lists(st.sampled_from(('cup', 'k1', 'k2')), min_size=1, max_size=2, unique=True)),
        'kinds': maybe(st.just(frozenset({'spatial'}))),
        'entities': maybe(st.just(('Bob',))),
        'object_ids': maybe(st.just(('O1',))),
        'relation': maybe(st.tuples(st.sampled_from(('on', 'in')), st.sampled_from(NAMES))),
        'depth': draw(st.sampled_from((1, 1, 2, 3, 8))),
        'scope': maybe(st.just({'map_id': 'lab'})),
        'min_confidence': maybe(st.just(0.5)),
        'as_of': maybe(st.integers(0, 35)),
        'known_seq': maybe(st.integers(0, 8)),
        'include_invalidated': draw(st.booleans()),
    }
    if (position := maybe(places)) is not None:
        radius_m = draw(st.sampled_from((0.0, 1.0, 2.5, 100.0)))
        fields |= {
            'near': (Pose(frame_id='map', position=position), radius_m),
            'horizontal': draw(st.booleans()),
        }
        fields['any_map'] = draw(st.booleans()) and fields['scope'] is None
    weights = st.dictionaries(
        st.sampled_from(('near', 'text', 'vector', 'recency', 'confidence')), st.sampled_from((0.0, 0.5, 2.0))
    )
    fields['weights'] = draw(weights)
    given = {name: value for name, value in fields.items() if value is not None}
    return MemoryQuery(**given, k=1000)


@contextmanager
def told(steps: list[Any]) -> Iterator[tuple[MemoryService, PlainRetrieval]]:
    """Tell the same to a memory and to the plain one."""
    clock, plain = ManualClock(100.0), PlainRetrieval()
    with MemoryService.open(clock=clock) as memory:
        for second, step in enumerate(steps, start=101):
            clock.set(float(second))
            plain.look_at(second * NS)
            if isinstance(step, MemoryItem):
                plain.write([step], list(memory.write([step]).ids))
            else:
                assert memory.forget(MemoryQuery(key=step)) == len(plain.forget(MemoryQuery(key=step)))
        yield memory, plain


def measured(hit: Hit, query: MemoryQuery) -> dict[str, float]:
    """Return what each order compares, the smaller the better; of words only the store knows the rank."""
    item = hit.item
    found = {'recency': -float(item.valid_from_ns or 0), 'confidence': -item.confidence}
    if query.near is not None:
        assert hit.distance_m is not None
        found['near'] = hit.distance_m
    if query.text is not None:
        found['text'] = -hit.details['text']
    if query.embedding is not None:
        one, other = (
            np.float64(np.float32(item.embeddings[SPACE])),
            np.float64(np.float32(query.embedding[1])),
        )
        found['vector'] = -float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
    return found


def expected_score(hit: Hit, hits: list[Hit], query: MemoryQuery) -> float:
    weights = {'near': 1.0, 'text': 1.0, 'vector': 1.0, 'recency': 0.0, 'confidence': 0.0} | query.weights
    orders = [name for name in measured(hit, query) if weights[name] > 0.0]
    own = measured(hit, query)
    if not orders:
        return 1.0
    if orders == ['near']:
        return 1.0 / (1.0 + own['near'])
    if orders == ['text']:
        return hit.details['text']
    if orders == ['vector']:
        return 0.5 - 0.5 * own['vector']
    score = 0.0
    for name in orders:
        better = sum(measured(other, query)[name] < own[name] - 1e-12 for other in hits)
        score += weights[name] / (61 + better)
    return score / sum(weights[name] / 61 for name in orders)


@settings(
    max_examples=scaled(40),
    deadline=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(
    steps=st.lists(st.one_of(items(), items(), items(), st.sampled_from(('cup', 'k1'))), max_size=14),
    asked=st.lists(queries(), min_size=1, max_size=6),
)
def test_any_combination_is_what_looking_at_everything_gives(
    steps: list[Any], asked: list[MemoryQuery]
) -> None:
    with told(steps) as (memory, plain):
        for query in asked:
            result = memory.query(query)
            hits = list(result)
            expected = {
                (s.said.item.id, s.start, s.end, s.status(plain.time_of(query))) for s in plain.matches(query)
            }
            assert {(h.item.id, h.item.valid_from_ns, h.valid_to_ns, h.status) for h in hits} == expected
            assert (len(hits), result.total, result.total_is_lower_bound) == (
                len(expected),
                len(expected),
                False,
            )
            for hit in hits:
                assert 0.0 <= hit.score <= 1.0
                assert hit.score == pytest.approx(expected_score(hit, hits, query), abs=1e-9)
            order = [(-h.score, h.distance_m or 0.0, -(h.item.valid_from_ns or 0), h.item.id) for h in hits]
            assert order == sorted(order)
            paged: list[Hit] = []
            cursor = None
            while cursor is not None or not paged:
                page = memory.query(query.model_copy(update={'k': 2, 'cursor': cursor}))
                paged += page
                if (cursor := page.cursor) is None:
                    break
            assert [(h.item, h.score, h.details) for h in paged] == [
                (h.item, h.score, h.details) for h in hits
            ]


def test_the_plain_memory_measures_as_the_question_says() -> None:
    with told([MemoryItem(kind='spatial', pose=Pose(frame_id='map', position=(3, 4, 12)), valid_from=1)]) as (
        _,
        plain,
    ):
        (stretch,) = plain.believed
        query = MemoryQuery(near=(Pose(frame_id='map', position=(0, 0, 0)), 20.0))
        assert distance(stretch, query) == 13.0
        assert math.isclose(distance(stretch, query.model_copy(update={'horizontal': True})) or 0.0, 5.0)
