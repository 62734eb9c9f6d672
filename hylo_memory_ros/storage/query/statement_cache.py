"""Statements of questions that recur: compiled once for each shape of question, then sent as they are.

Building and preparing a statement took longer than SQLite took to answer it. What differs between
two questions of one shape is bound by name: `at_ns`, `seq`, `words`, `rows`, `limit`, `offset`, `fitting`.

Threads: every function may be called from any thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect

from hylo_memory_ros.storage.query.filters import QuerySpec, search_words

__all__ = ['prepared_rows']

_MOST = 128
_BOUND = frozenset({'at_ns', 'seq', 'words', 'rows', 'limit', 'offset', 'fitting'})
_DIALECT = sqlite_dialect(paramstyle='named')

_kept: OrderedDict[tuple[Any, ...], tuple[str, Mapping[str, Any]]] = OrderedDict()
_lock = threading.Lock()


def prepared_rows(
    connection: sa.Connection,
    name: str,
    asked: QuerySpec,
    build: Callable[[], sa.Select[Any]],
    values: Mapping[str, Any],
) -> list[tuple[Any, ...]]:
    """Return the rows of a statement, as the driver gives them.

    Parameters
    ----------
    connection : Connection
    name : str
        What the statement is for; with the shape of the question it decides what is built.
    asked : QuerySpec
        The question.
    build : callable
        Builds the statement, with what `values` names bound under those names.
    values : mapping of str to Any
        What is bound beside `at_ns`, `seq` and `words`.
    """
    shape = _shape(asked)
    if shape is None:
        return [tuple(row) for row in connection.execute(build(), values)]
    sql, constants = _compiled((name, *shape), build)
    words = None if asked.query.text is None else search_words(asked.query.text)
    named = {'at_ns': asked.at_ns, 'seq': asked.seq, 'words': words, 'fitting': asked.fitting}
    bound = {**constants, **named, **values}
    raw: Any = connection.connection.dbapi_connection
    rows: list[tuple[Any, ...]] = raw.execute(sql, bound).fetchall()
    return rows


def _compiled(shape: tuple[Any, ...], build: Callable[[], sa.Select[Any]]) -> tuple[str, Mapping[str, Any]]:
    with _lock:
        found = _kept.get(shape)
        if found is not None:
            _kept.move_to_end(shape)
            return found
    compiled = build().compile(dialect=_DIALECT, compile_kwargs={'render_postcompile': True})
    # A text that was asked for is not kept.
    constants = {name: value for name, value in compiled.params.items() if name not in _BOUND}
    found = str(compiled), constants
    with _lock:
        _kept[shape] = found
        while len(_kept) > _MOST:
            _kept.popitem(last=False)
    return found


def _shape(asked: QuerySpec) -> tuple[Any, ...] | None:
    """Return all that decides about the statement, but for what is bound by name; None: it is not kept.

    What names things of the memory is not kept: a purge must find no trace of it.
    """
    query = asked.query
    named = query.all_keys or query.ids or query.entities or query.object_ids or query.labels
    if named or query.relation or query.scope or query.episode or query.outcome:
        return None
    return (
        asked.world,
        asked.seq is None,
        asked.ever_believed,
        asked.archived,
        asked.clock,
        asked.space,
        None if query.text is None else search_words(query.text) is None,
        query.kinds,
        query.min_confidence,
        query.time_range_ns,
        query.min_existence,
        query.include_stale,
        query.min_helpfulness,
        asked.helpfulness,
        asked.gated,
        query.skill_status,
        asked.fitting is None,
    )
