"""Metadata of the main file, and the erasure rule of each table."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy import MetaData

metadata = MetaData()

_KEY = 'erasure'


class Purged(Protocol):
    """Items that a purge deletes, and whether a record that stays touches them."""

    identity_ids: Sequence[int]
    assertion_ids: Sequence[int]
    spatial_ids: Sequence[int]
    landmarks: frozenset[tuple[str, str]]
    ids: frozenset[str]

    def named_in(self, value: Any) -> bool:
        """Return whether any text in a JSON value is one of the names."""

    def touches_text(self, text: str) -> bool:
        """Return whether a text contains one of the names as a word."""

    def touches_query(self, query: Mapping[str, Any] | None, *, is_answered: bool) -> bool:
        """Return whether a query, as a JSON object, asks by a name or value of the items."""

    def touches_scope(self, scope: Mapping[str, str] | None) -> bool:
        """Return whether a scope has a value of the items."""

    def scrub_retrieval(self, body: dict[str, Any]) -> bool:
        """Take the items out of a receipt of a retrieval, in place; return whether it changed."""


Erasure = Callable[[sa.Connection, Purged], None] | str
"""Function that takes purged items out of tables, or the reason why nothing in a table identifies an item."""


def set_erasure(erasure: Erasure, *tables: sa.Table) -> None:
    """Declare how tables lose purged items."""
    for table in tables:
        table.info[_KEY] = erasure


def erasure_of(table: sa.Table) -> Erasure | None:
    """Return the rule of a table; None: it declares none."""
    rule: Erasure | None = table.info.get(_KEY)
    return rule


def erase_from_tables(connection: sa.Connection, purged: Purged) -> None:
    """Take purged items out of every table, those that refer to others first."""
    rules = [erasure_of(table) for table in reversed(metadata.sorted_tables)]
    for rule in dict.fromkeys(rule for rule in rules if callable(rule)):
        rule(connection, purged)


def among(column: sa.Column[Any], values: Collection[int] | Collection[str]) -> sa.ColumnElement[bool]:
    """Return the condition that a column has one of any number of values."""
    listed = sa.func.json_each(json.dumps(list(values))).table_valued('value')
    return column.in_(sa.select(listed.c.value))
