"""Every way to an answer, before and after a restart: the same, whole, and nothing that is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model import EmbeddingSpace, MemoryItem, MemoryQuery, Pose, QueryResult, TimeSpan
from hylo_memory_ros.service import MemoryService

NS = 10**9
SPACE = 'clip@1'
BACKENDS = ('exact', 'usearch', 'turbo_quant')
CENTRE = Pose(frame_id='map', position=(0.0, 0.0, 0.0))
COUNT, DIMENSION = 400, 16


class Room:
    """A memory of things in a row, each with words, a vector and a time, that can be restarted."""

    def __init__(self, path: Path, backend: str) -> None:
        self.path, self.now_ns = path, 10_000 * NS
        space = EmbeddingSpace(dimension=DIMENSION, backend=backend, exact_up_to=50)
        self.config = MemoryConfig(embedding_spaces={SPACE: space})
        self.vectors = np.random.default_rng(3).normal(size=(COUNT, DIMENSION)).astype(np.float32)
        self.memory = self._open()

    def _open(self) -> MemoryService:
        memory = MemoryService.open(f'sqlite:///{self.path}', config=self.config, clock=lambda: self.now_ns)
        memory._core.indexes.vectors.wait_idle()
        return memory

    def restart(self) -> None:
        self.memory.close()
        self.memory = self._open()

    def thing(self, number: int, **fields: Any) -> MemoryItem:
        return MemoryItem(
            **{
                'kind': 'spatial',
                'key': f'k{number}',
                'label': 'cup' if number % 2 else 'jar',
                'content': f'thing {"red" if number % 4 else "blue"}',
                'valid_from': 1.0,
                'event_time': TimeSpan(start=float(number), end=float(number) + 1.0),
                'pose': Pose(frame_id='map', position=(number * 0.1, 0.0, 0.0)),
                'embeddings': {SPACE: self.vectors[number]},
                **fields,
            }
        )

    def fill(self) -> None:
        self.memory.write([self.thing(number) for number in range(COUNT)])
        self.memory._core.indexes.vectors.wait_idle()

    def like(self, number: int) -> tuple[str, tuple[float, ...]]:
        return SPACE, tuple(self.vectors[number].tolist())


@pytest.fixture(params=BACKENDS)
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path / 'memory.db', request.param)
    room.fill()
    yield room
    room.memory.close()


def keys(result: QueryResult) -> list[str | None]:
    return [hit.item.key for hit in result]


def ways(room: Room, number: int) -> list[dict[str, Any]]:
    """Return questions of every index that all have one thing among their answers."""
    return [
        {'key': f'k{number}'},
        {'text': 'thing'},
        {'labels': ('cup', 'jar')},
        {'embedding': room.like(number)},
        {'near': (CENTRE, 1000.0)},
        {'near': (CENTRE, 1000.0), 'text': 'thing', 'embedding': room.like(number)},
        {'near': (CENTRE, 1000.0), 'key': f'k{number}'},
        {'time_range': (float(number), float(number))},
    ]


@pytest.mark.parametrize('removal', ['forget', 'retract', 'purge', 'end', 'supersede'])
def test_what_is_gone_or_closed_comes_back_through_no_index(room: Room, removal: str) -> None:
    gone = 41
    gone_id = room.memory.query(MemoryQuery(key=f'k{gone}'))[0].item.id
    for way in ways(room, gone):
        assert f'k{gone}' in keys(room.memory.query(MemoryQuery(**way, k=COUNT))), way
    room.now_ns += NS
    if removal == 'end':
        assert room.memory.end([f'k{gone}'], room.now_ns, kind='spatial') == 1
    elif removal == 'supersede':
        room.memory.write(
            [room.thing(gone, content='thing green', valid_from_ns=room.now_ns, valid_from=None)]
        )
    else:
        assert getattr(room.memory, removal)(MemoryQuery(key=f'k{gone}')) == 1
    room.now_ns += NS

    for _ in range(2):
        for way in ways(room, gone):
            result = room.memory.query(MemoryQuery(**way, k=COUNT))
            assert gone_id not in [hit.item.id for hit in result], way
            assert all(hit.valid_to_ns is None for hit in result), way
        room.restart()


@pytest.mark.parametrize('text', [None, 'thing red'])
def test_never_fewer_than_asked_while_more_match(room: Room, text: str | None) -> None:
    room.now_ns += NS
    room.memory.forget(MemoryQuery(keys=[f'k{number}' for number in range(0, COUNT, 3)]))
    room.now_ns += NS
    left = sum(number % 3 > 0 and (text is None or number % 4 > 0) for number in range(COUNT))

    for k in (1, 10, 100, left, left + 5):
        result = room.memory.query(MemoryQuery(embedding=room.like(7), text=text, k=k))
        assert len(result) == min(k, left)
        assert result.truncated == (k < left)
        assert result.total == left or result.total_is_lower_bound
        assert (np.diff([hit.score for hit in result]) <= 0).all()


def test_vectors_lead_where_no_filter_leaves_few_and_pages_go_on(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = MemoryQuery(embedding=room.like(7), labels=['cup'], k=COUNT)
    expected = room.memory.query(asked)
    monkeypatch.setattr('hylo_memory_ros.retrieval.executor.SUBSET', 50)

    page = room.memory.query(asked.model_copy(update={'k': 30}))
    found = list(page)
    assert page.plan[-1].startswith('vectors first')
    assert page.total_is_lower_bound or page.total == len(expected)
    while page.cursor is not None:
        page = room.memory.query(asked.model_copy(update={'k': 30, 'cursor': page.cursor}))
        found += page

    assert [(hit.item.key, hit.score) for hit in found] == [(hit.item.key, hit.score) for hit in expected]
    assert len(found) == COUNT // 2


def test_a_time_range_and_a_least_score_narrow_down_what_is_fused(room: Room) -> None:
    asked = MemoryQuery(
        text='thing', near=(CENTRE, 1000.0), embedding=room.like(20), time_range=(10.0, 29.5), k=COUNT
    )
    everything = room.memory.query(asked)
    assert set(keys(everything)) == {f'k{number}' for number in range(9, 30)}
    least = everything[9].score

    result = room.memory.query(asked.model_copy(update={'min_score': least}))

    assert [hit.score for hit in result] == [hit.score for hit in everything if hit.score >= least]
    assert result.excluded['below_score'] == len(everything) - len(result)


def test_working_memory_stands_among_what_is_durable(room: Room) -> None:
    room.memory.write(
        [room.thing(7, kind='working', key='now', content='thing red', pose=CENTRE, valid_from=9_000.0)]
    )
    by_vector = room.memory.query(MemoryQuery(embedding=room.like(7), k=3))
    by_all = room.memory.query(MemoryQuery(embedding=room.like(7), near=(CENTRE, 5.0), text='thing', k=COUNT))

    assert set(keys(by_vector)[:2]) == {'now', 'k7'}
    assert by_vector[0].score == pytest.approx(by_vector[1].score)
    assert 'now' in keys(by_all)
    assert {'near', 'vector', 'rrf'} <= set(by_all[keys(by_all).index('now')].details)


def test_many_filters_and_an_enormous_radius_are_explained_by_what_passes_them(room: Room) -> None:
    room.now_ns += NS
    room.memory.forget(MemoryQuery(key='k5'))
    room.now_ns += NS

    gone = room.memory.query(MemoryQuery(key='k5', near=(CENTRE, 1e6)))
    far = room.memory.query(MemoryQuery(key='k300', near=(CENTRE, 1.0)))
    elsewhere = room.memory.query(
        MemoryQuery(key='k300', near=(Pose(frame_id='odom', position=(0.0, 0.0, 0.0)), 100.0))
    )

    assert dict(gone.excluded) == {'forgotten': 1}
    assert (dict(far.excluded), far.nearest_excluded_m) == ({'outside_radius': 1}, pytest.approx(30.0))
    assert dict(elsewhere.excluded) == {'other_frame': 1}


@pytest.mark.parametrize('removal', ['retract', 'purge'])
def test_a_chain_of_links_decides_what_is_taken_away(tmp_path: Path, removal: str) -> None:
    now_ns = 100 * NS
    with MemoryService.open(f'sqlite:///{tmp_path / "m.db"}', clock=lambda: now_ns) as memory:
        chain = [('tray', 'table'), ('cup', 'tray'), ('spoon', 'cup'), ('lamp', 'wall')]
        memory.write(
            [
                MemoryItem(kind='semantic', key=key, content=key, links=[('on', target)], valid_from=1)
                for key, target in chain
            ]
        )
        removed = getattr(memory, removal)(MemoryQuery(relation=('on', 'table'), depth=2))

        assert removed == 2
        assert keys(memory.query(MemoryQuery(kinds=['semantic']))) in (['lamp', 'spoon'], ['spoon', 'lamp'])
        assert len(memory.history(key='cup').versions) == (1 if removal == 'retract' else 0)
