"""Arguments of public methods: a wrong type, and a filter that leaves nothing out, are refused by name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MemoryItem, MemoryKind, MemoryQuery, Pose, TimeSpan
from hylo_memory_ros.service import MemoryService

HERE = Pose(frame_id='map', position=(0.0, 0.0, 0.0))
NOTHING_LEFT_OUT: list[dict[str, Any]] = [
    {},
    {'min_confidence': 0.0},
    {'time_range': (None, None)},
    {'kinds': list(MemoryKind)},
    {'kinds': []},
    {'scope': {}},
    {'keys': (), 'ids': (), 'labels': (), 'entities': (), 'object_ids': ()},
    {'min_existence': 0.0, 'min_helpfulness': 0.0},
    {'horizontal': True, 'any_map': True, 'include_invalidated': True, 'depth': 8},
    {'min_confidence': 0.0, 'time_range': (None, None), 'kinds': list(MemoryKind)},
]


@pytest.fixture
def memory() -> Iterator[MemoryService]:
    with MemoryService.open() as memory:
        memory.write(
            [
                MemoryItem(
                    kind=kind,
                    key=f'{kind.value} {number}',
                    content=f'thing {number}',
                    event_time=TimeSpan(start=number, end=number + 1),
                    valid_from=1,
                    confidence=number / 4,
                    pose=HERE if kind is MemoryKind.SPATIAL else None,
                )
                for number in range(5)
                for kind in (MemoryKind.SPATIAL, MemoryKind.SEMANTIC, MemoryKind.WORKING)
            ]
        )
        yield memory


@pytest.mark.parametrize('op', ['forget', 'retract', 'purge'])
@pytest.mark.parametrize('fields', NOTHING_LEFT_OUT, ids=str)
def test_a_filter_that_leaves_nothing_out_removes_nothing(
    memory: MemoryService, op: str, fields: dict[str, Any]
) -> None:
    for dry_run in (True, False):
        with pytest.raises(InvalidRequestError, match=f'{op}: a query without any filter'):
            getattr(memory, op)(MemoryQuery(**fields), dry_run=dry_run)
    assert sum(memory.counts().values()) == 15


@pytest.mark.parametrize('op', ['forget', 'retract', 'purge'])
@pytest.mark.parametrize(
    ('fields', 'count'),
    [
        ({'min_confidence': 0.25}, 12),
        ({'time_range': (4.5, None)}, 3),
        ({'time_range': (None, 0.5)}, 3),
        ({'kinds': ['working']}, 5),
        ({'kinds': ['spatial', 'semantic', 'working']}, 15),
        ({'near': (HERE, 1e9)}, 5),
        ({'key': 'spatial 3', 'min_confidence': 0.0}, 1),
    ],
    ids=str,
)
def test_a_filter_that_leaves_something_out_removes_what_matches(
    memory: MemoryService, op: str, fields: dict[str, Any], count: int
) -> None:
    assert getattr(memory, op)(MemoryQuery(**fields)) == count
    assert sum(memory.counts().values()) == 15 - count


def test_the_filter_that_leaves_nothing_out_is_named(memory: MemoryService) -> None:
    with pytest.raises(InvalidRequestError, match=r'filter \(min_confidence leaves nothing out\)'):
        memory.forget(MemoryQuery(min_confidence=0.0))


def test_one_item_in_place_of_a_list_and_a_text_in_place_of_a_query_are_explained(
    memory: MemoryService,
) -> None:
    item = MemoryItem(kind='semantic', content='x')
    with pytest.raises(
        InvalidRequestError,
        match=r'^items: expected a list of MemoryItem, got one Mem.*; put it into a',
    ):
        memory.write(item)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match=r"got \{'kind': 'semantic'\} at \[1\]"):
        memory.write([item, {'kind': 'semantic'}])  # type: ignore[list-item]
    with pytest.raises(InvalidRequestError, match=r"^query: expected a MemoryQuery, got 'mug'; .*text="):
        memory.query('mug')  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match=r'expected a list of texts.*put it into a list'):
        memory.end('mug', 5)
    assert sum(memory.counts().values()) == 15


class _Other:
    """A value of a type that no method takes."""


PUBLIC = sorted(
    (name, parameter)
    for name, method in vars(MemoryService).items()
    if inspect.isfunction(method) and hasattr(method, '__wrapped__') and not name.startswith('_')
    for parameter in list(inspect.signature(method.__wrapped__).parameters)[1:]
    if name not in ('read', 'begin_unnumbered')
)


@pytest.mark.parametrize(('name', 'parameter'), PUBLIC)
def test_every_argument_of_a_wrong_type_is_refused_by_name(
    memory: MemoryService, name: str, parameter: str
) -> None:
    method = getattr(memory, name)
    parameters = list(inspect.signature(method.__wrapped__).parameters.values())[1:]
    good: dict[str, Any] = {
        'items': [MemoryItem(kind='semantic', content='x')],
        'query': MemoryQuery(key='x'),
        'keys': ['x'],
        'at_ns': 1,
        'outcome': 'useful',
        'path': 'x',
        'listener': print,
        'identity': None,
        'correction': None,
    }
    given = {
        one.name: good.get(one.name, 'x') for one in parameters if one.default is inspect.Parameter.empty
    }
    for wrong in (_Other(), [_Other()]):
        with pytest.raises(InvalidRequestError, match=f'^{parameter}: expected '):
            method(**{**{k: v for k, v in given.items() if v is not None}, parameter: wrong})
    assert sum(memory.counts().values()) == 15
