"""Cache of compiled SQL statements, one per shape of query.

Building and preparing a statement took longer than SQLite took to answer it. What differs between
two queries of one shape is bound by name.

Threads: every function may be called from any thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect

from hylo_memory_ros.storage.query.filters import FILTERS
from hylo_memory_ros.storage.query.filters.base import DEFAULTS
from hylo_memory_ros.storage.query.spec import QuerySpec

__all__ = ['cached_rows', 'shape_of']

_CAPACITY = 128
_OF_SPEC = ('at_ns', 'seq', *(name for one in FILTERS for name in one.bound))
_BOUND = frozenset({*_OF_SPEC, 'rows', 'limit', 'offset'})
_DIALECT = sqlite_dialect(paramstyle='named')

_FIELDS = [(one, field) for one in FILTERS if one.in_statement for field in one.fields]
_PLAIN = tuple(field for one, field in _FIELDS if field in one.plain)
_NAMES = tuple(field for one, field in _FIELDS if field not in one.plain and not one.bound)
_BOUND_FIELDS = tuple(field for one, field in _FIELDS if field not in one.plain and one.bound)
_NO_NAMES = tuple(DEFAULTS[field] for field in _NAMES)
# Read all at once: calling each filter for each query takes fifteen times as long.
_get_plain, _get_names = attrgetter(*_PLAIN), attrgetter(*_NAMES)
_get_bound_fields = attrgetter(*_BOUND_FIELDS)
_get_bound = attrgetter(*_OF_SPEC)
_get_axes = attrgetter(
    'world', 'ever_believed', 'archived', 'clock', 'space', 'helpfulness', 'gated', 'reached'
)

_statements: OrderedDict[tuple[Any, ...], tuple[str, Mapping[str, Any]]] = OrderedDict()
_lock = threading.Lock()


def cached_rows(
    connection: sa.Connection,
    name: str,
    spec: QuerySpec,
    build: Callable[[], sa.Select[Any]],
    values: Mapping[str, Any],
) -> list[tuple[Any, ...]]:
    """Return the rows of a statement, as the driver gives them.

    Parameters
    ----------
    connection : Connection
    name : str
        Purpose of the statement, which is part of its shape.
    spec : QuerySpec
        The query.
    build : callable
        Builds the statement, with the names of `values` bound by name.
    values : mapping of str to Any
        Bound beside what the query binds itself.
    """
    shape = shape_of(spec)
    if shape is None:
        return [tuple(row) for row in connection.execute(build(), values)]
    sql, constants = _compiled((name, *shape), build)
    bound = {**constants, **dict(zip(_OF_SPEC, _get_bound(spec), strict=True)), **values}
    raw: Any = connection.connection.dbapi_connection
    rows: list[tuple[Any, ...]] = raw.execute(sql, bound).fetchall()
    return rows


def _compiled(shape: tuple[Any, ...], build: Callable[[], sa.Select[Any]]) -> tuple[str, Mapping[str, Any]]:
    with _lock:
        found = _statements.get(shape)
        if found is not None:
            _statements.move_to_end(shape)
            return found
    compiled = build().compile(dialect=_DIALECT, compile_kwargs={'render_postcompile': True})
    # What a query binds by name may hold words of its caller, which must not outlive it.
    constants = {name: value for name, value in compiled.params.items() if name not in _BOUND}
    found = str(compiled), constants
    with _lock:
        _statements[shape] = found
        while len(_statements) > _CAPACITY:
            _statements.popitem(last=False)
    return found


def shape_of(spec: QuerySpec) -> tuple[Any, ...] | None:
    """Return a value that differs wherever the statement or its constants do; None: do not keep it.

    A statement that names items of the memory is not kept: a purge must leave no trace of them.
    """
    query = spec.query
    if _get_names(query) != _NO_NAMES:
        return None
    given = (*_get_bound(spec), *_get_bound_fields(query))
    return (*_get_axes(spec), *_get_plain(query), *(value is None for value in given))
