"""The contract of every registered filter: SQL, Python, cache, purge, message and command line agree."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations
from pathlib import Path
from typing import Any, NoReturn

import pytest

import hylo_memory_ros.cli.query as query_command
from hylo_memory_ros.cli import main
from hylo_memory_ros.errors import NotFoundError
from hylo_memory_ros.evidence.receipts import query_facts
from hylo_memory_ros.model import SKILL_STATUSES, MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.msg import MemoryFilter
from hylo_memory_ros.ros.convert.filters import query_from_msg
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.query.filters import (
    FILTERS,
    NOT_FILTERS,
    Filter,
    ItemContext,
    identifying_values,
    matches,
)
from hylo_memory_ros.storage.query.select import _BOUND, _DIALECT, _select, shape_of
from hylo_memory_ros.storage.query.spec import QuerySpec
from hylo_memory_ros.storage.schema import version

SPACE = 'clip@1'
CENTRE = Pose(frame_id='map', position=(1.0, 2.0, 0.0))


def at(x: float, frame_id: str = 'map') -> dict[str, Any]:
    return {'kind': 'spatial', 'pose': Pose(frame_id=frame_id, position=(x, 2.0, 0.0))}


def event(start: float, end: float | None = None) -> dict[str, Any]:
    return {'kind': 'episodic', 'event_time': {'start': start, 'end': end}}


@dataclass(frozen=True)
class Case:
    """One filter at work."""

    query: Mapping[str, Any]
    """Fields of `MemoryQuery`."""
    other: Mapping[str, Any]
    """The same fields with another value."""
    passing: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a statement that passes."""
    failing: Sequence[Mapping[str, Any]] = ({},)
    """Fields of statements that fail."""
    names: Sequence[Any] = ()
    """What of the query may name an item."""
    message: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `MemoryFilter`."""
    options: Sequence[str] = ()
    """Arguments of the command line."""
    durable: bool = False
    """Whether it tests what is known of durable statements alone: all of working memory passes."""


CASES: dict[str, Case] = {
    'kinds': Case(
        {'kinds': ['episodic']}, {'kinds': ['semantic', 'spatial']}, {'kind': 'episodic'}, [{}],
        message={'kinds': ['episodic']}, options=['--kind', 'episodic'],
    ),
    'ids': Case(
        {'ids': ('one', 'two')}, {'ids': ('three',)}, {'id': 'two'}, [{'id': 'other'}],
        names=[['one', 'two']], message={'ids': ['one', 'two']}, options=['--id', 'one', '--id', 'two'],
    ),
    'keys': Case(
        {'keys': ('keys-pass', 'unknown')}, {'key': 'keys-pass'},
        names=[['keys-pass', 'unknown']], message={'keys': ['keys-pass', 'unknown']},
        options=['--key', 'keys-pass', '--key', 'unknown'],
    ),
    'labels': Case(
        {'labels': ('mug', 'cup')}, {'labels': ('lamp',)}, {'label': 'cup'}, [{'label': 'lamp'}, {}],
        names=[['mug', 'cup']], message={'labels': ['mug', 'cup']},
        options=['--label', 'mug', '--label', 'cup'],
    ),
    'episode': Case(
        {'episode': 'shift'}, {'outcome': 'success'}, {'scope': {'episode_id': 'shift'}},
        [{'scope': {'episode_id': 'other'}}, {}],
        names=['shift'], message={'options_json': '{"episode": "shift"}'}, options=['--episode', 'shift'],
    ),
    'entities': Case(
        {'entities': ('Bob', 'Eve')}, {'entities': ('Bob',)}, {'entities': ['Eve', 'Bob', 'Al']},
        [{'entities': ['Bob']}, {}],
        names=[['Bob', 'Eve']], message={'entities': ['Bob', 'Eve']},
        options=['--entity', 'Bob', '--entity', 'Eve'],
    ),
    'object_ids': Case(
        {'object_ids': ('O1', 'O2')}, {'object_ids': ('O2',)}, {'object_ids': ['O2', 'O1']},
        [{'object_ids': ['O1']}, {}],
        names=[['O1', 'O2']], message={'object_ids': ['O1', 'O2']},
        options=['--object', 'O1', '--object', 'O2'],
    ),
    'relation': Case(
        {'relation': ('on', 'O12')}, {'relation': ('on', 'O12'), 'depth': 2}, {'links': [('on', 'O12')]},
        [{'links': [('in', 'O12')]}, {'links': [('on', 'O1')]}, {}],
        names=['O12'], message={'relation': 'on:O12'}, options=['--relation', 'on:O12'],
    ),
    'scope': Case(
        {'scope': {'map_id': 'lab', 'task': 'tidy'}}, {'scope': {'map_id': 'lab'}},
        {'scope': {'task': 'tidy', 'map_id': 'lab', 'shift': 'a'}},
        [{'scope': {'map_id': 'lab'}}, {'scope': {'map_id': 'hall', 'task': 'tidy'}}, {}],
        names=['tidy'], message={'scope': ['task=tidy'], 'map_id': 'lab'},
    ),
    'min_confidence': Case(
        {'min_confidence': 0.5}, {'min_confidence': 0.25}, {'confidence': 0.5}, [{'confidence': 0.49}],
        message={'min_confidence': 0.5}, options=['--min-confidence', '0.5'],
    ),
    'time_range_ns': Case(
        {'time_range': (10, 20)}, {'time_range': (10, None)}, event(5, 10),
        [event(5, 9), event(21), {}],
        message={'time_start.sec': 10, 'time_end.sec': 20},
    ),
    'text': Case(
        {'text': 'Red MUG'}, {'text': '---'}, {'content': 'a mug, red'}, [{'content': 'a red cup'}, {}],
        names=['Red MUG'], message={'text': 'Red MUG'}, options=['--text', 'Red MUG'],
    ),
    'near': Case(
        {'near': (CENTRE, 1.5)}, {'near': (CENTRE, 2.5), 'horizontal': True}, at(2.5),
        [at(2.6), at(1.0, 'odom'), {}],
        names=[[1.0, 2.0, 0.0]],
        message={'near.header.frame_id': 'map', 'near.point.x': 1.0, 'near.point.y': 2.0, 'radius_m': 1.5},
        options=['--near', '1', '2', '0', '--radius', '1.5'],
    ),
    'embedding': Case(
        {'embedding': (SPACE, (1.0, 0.0))}, {'embedding': ('other@1', (1.0, 0.0))},
        {'embeddings': {SPACE: (0.0, 1.0)}},
        names=[[SPACE, [1.0, 0.0]]], message={'embedding_space': SPACE, 'embedding': [1.0, 0.0]},
    ),
    'min_existence': Case(
        {'min_existence': 0.5}, {'min_existence': 0.25}, {'kind': 'spatial', 'key': 'sure'},
        [{'kind': 'spatial', 'key': 'doubted'}], durable=True,
        message={'min_existence': 0.5}, options=['--min-existence', '0.5'],
    ),
    'include_stale': Case(
        {'include_stale': False}, {'include_stale': True}, {'kind': 'spatial', 'key': 'sure'},
        [{'kind': 'spatial', 'key': 'stale'}], durable=True, options=['--no-stale'],
    ),
    'min_helpfulness': Case(
        {'min_helpfulness': 0.5}, {'min_helpfulness': 0.25}, {'key': 'useful'}, [{'key': 'wrong'}],
        durable=True, message={'options_json': '{"min_helpfulness": 0.5}'},
        options=['--min-helpfulness', '0.5'],
    ),
    'skill_status': Case(
        {'skill_status': ('proposed',)}, {'skill_status': ('verified',)},
        {'kind': 'skill', 'payload': {'params': {}, 'api_surface': 'a@1', 'status': 'proposed'}}, [],
        message={'options_json': '{"skill_status": ["proposed"]}'}, durable=True,
    ),
}  # fmt: skip
by_filter = pytest.mark.parametrize('one', FILTERS, ids=lambda one: one.name)


def items_of(name: str, case: Case) -> Iterator[tuple[bool, MemoryItem]]:
    """Yield each statement of a case, and whether it passes."""
    for number, fields in enumerate([case.passing, *case.failing]):
        key = f'{name}-fail{number}' if number else f'{name}-pass'
        yield not number, MemoryItem(**{'kind': 'semantic', 'key': key, 'valid_from': 1, **fields})


# Some cases name the same landmark: it is one item.
ITEMS = {item.key: item for name, case in CASES.items() for _, item in items_of(name, case)}


@pytest.fixture(scope='module')
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryService]:
    """All statements of all cases in one memory, with what is counted of them."""
    path: Path = tmp_path_factory.mktemp('filters') / 'memory.db'
    with MemoryService.open(f'sqlite:///{path}') as memory:
        memory.write(list(ITEMS.values()))
        row = {
            'map_id': '', 'label': '', 'has_instance': 0, 'observations': 3, 'n': 3, 'first_ns': 1,
            'since_ns': 1, 'last_ns': 2, 'x': 0.0, 'y': 0.0, 'z': 0.0, 'estimate': b'',
        }  # fmt: skip
        counts = [('sure', 3.0, 0), ('doubted', -1.0, 0), ('stale', 2.0, 1)]
        with sqlite3.connect(path) as connection:
            for key, existence, stale in counts:
                values = {**row, 'key': key, 'existence': existence, 'stale': stale}
                marks = ', '.join(f':{name}' for name in values)
                connection.execute(f'INSERT INTO landmark ({", ".join(values)}) VALUES ({marks})', values)
        connection.close()
        for verdict in ('useful', 'wrong'):
            (hit,) = memory.query(MemoryQuery(key=verdict))
            memory.feedback(verdict, ids=[hit.item.id])
        yield memory


def test_every_filter_has_a_case() -> None:
    assert set(CASES) == {one.name for one in FILTERS}


def test_every_field_of_a_query_belongs_to_one_filter_or_says_why_to_none() -> None:
    fields = [name for one in FILTERS for name in one.fields]
    assert sorted([*fields, *NOT_FILTERS]) == sorted(MemoryQuery.model_fields)
    assert all(NOT_FILTERS.values())


@by_filter
def test_sql_and_python_agree(one: Filter, memory: MemoryService) -> None:
    case = CASES[one.name]
    query = MemoryQuery(**{'k': 1000, 'skill_status': SKILL_STATUSES, **case.query})
    found = {hit.item.key for hit in memory.query(query)}
    for passes, item in items_of(one.name, case):
        assert (item.key in found) is passes, item.key
    if case.durable:
        unset = MemoryItem(kind='working')
        assert matches(unset, query, ItemContext(map_id=''))
    else:
        assert found == {key for key, item in ITEMS.items() if matches(item, query, ItemContext(map_id=''))}


def specs() -> Iterator[QuerySpec]:
    """Yield queries that differ in one filter, one value or one axis."""
    plain = QuerySpec(MemoryQuery(), 5)
    for case in CASES.values():
        for fields in (case.query, case.other):
            query = MemoryQuery(**fields)
            space = '' if query.embedding is None else query.embedding[0]
            yield replace(plain, query=query, space=space)
    skills = replace(plain, query=MemoryQuery(kinds=['skill'], state={'a': 1}))
    for base in (plain, skills, replace(plain, query=MemoryQuery(text='red', kinds=['semantic']))):
        yield base
        for change in (
            {'world': 'any'}, {'world': 'unended'}, {'seq': 3}, {'ever_believed': True}, {'at_ns': 6},
            {'helpfulness': True}, {'gated': False}, {'fitting': '[1]'}, {'fitting': '[2]'}, {'space': SPACE},
            {'archived': True},
        ):  # fmt: skip
            yield replace(base, **change)
    hostile = [
        {'min_confidence': 0.0}, {'min_confidence': 1.0}, {'min_existence': 0.0}, {'min_existence': 1.0},
        {'min_helpfulness': 0.0}, {'kinds': []}, {'text': ''}, {'text': 'red'}, {'text': 'blue'},
        {'text': '""'},
        {'time_range': (None, None)}, {'time_range': (None, 20)}, {'time_range': (20, None)}, {'scope': {}},
        {'skill_status': ('verified', 'proposed')}, {'skill_status': SKILL_STATUSES}, {'state': {'a': 1}},
        {'kinds': ['semantic'], 'state': {'a': 2}}, {'any_map': True}, {'depth': 3},
    ]  # fmt: skip
    for fields in hostile:
        yield replace(plain, query=MemoryQuery(**fields))
        yield replace(plain, query=MemoryQuery(**fields), clock='sim')


def compiled(spec: QuerySpec) -> tuple[str, dict[str, Any]]:
    """Return the statement of a query with all its constants, those aside that the cache binds by name."""
    statement = _select(spec, version.c.version_row, ranked=True)
    sql = statement.compile(dialect=_DIALECT, compile_kwargs={'render_postcompile': True})
    return str(sql), {name: value for name, value in sql.params.items() if name not in _BOUND}


def test_statements_that_differ_never_share_a_shape() -> None:
    shaped = [(shape_of(spec), *compiled(spec)) for spec in specs()]
    kept = [(shape, *statement) for shape, *statement in shaped if shape is not None]
    assert len({shape for shape, *_ in kept}) > 30
    for first, other in combinations(kept, 2):
        if first[0] == other[0]:
            assert first[1:] == other[1:]


@by_filter
def test_no_kept_statement_holds_a_name(one: Filter) -> None:
    case = CASES[one.name]
    query = MemoryQuery(**case.query)
    shape = shape_of(QuerySpec(query, 5, space='' if query.embedding is None else query.embedding[0]))
    texts = [part for value in case.names for part in (value if isinstance(value, list) else [value])]
    for text in texts:
        if isinstance(text, str) and text != SPACE:
            assert shape is None or text not in repr(shape)


@by_filter
def test_a_purge_knows_what_of_a_recorded_query_names_items(one: Filter) -> None:
    case = CASES[one.name]
    recorded = query_facts(MemoryQuery(**case.query))
    assert identifying_values(recorded) == list(case.names)
    assert identifying_values(recorded, place=False) == ([] if one.name == 'near' else list(case.names))


def test_a_recorded_field_that_no_filter_knows_counts_as_a_name() -> None:
    assert identifying_values({'colour': 'red', 'k': 3}) == ['red']


@by_filter
def test_a_message_asks_the_same(one: Filter) -> None:
    case, message = CASES[one.name], MemoryFilter()
    for path, value in case.message.items():
        *parents, name = path.split('.')
        setattr(reduce(getattr, parents, message), name, value)
    assert query_from_msg(message) == MemoryQuery(**{'include_stale': False, **case.query})


@by_filter
def test_the_command_line_asks_the_same_or_says_why_not(one: Filter, monkeypatch: pytest.MonkeyPatch) -> None:
    case, queries = CASES[one.name], []

    class Recorder:
        def query(self, query: MemoryQuery) -> NoReturn:
            queries.append(query)
            raise NotFoundError('recorded')

    @contextmanager
    def opened(_: Path) -> Iterator[Recorder]:
        yield Recorder()

    assert bool(one.options) != bool(one.no_options)
    monkeypatch.setattr(query_command, 'open_memory_file', opened)
    if case.options:
        assert main(['query', 'memory.db', *case.options]) == 1
        assert queries == [MemoryQuery(any_map=True, **case.query)]
    else:
        assert one.no_options
