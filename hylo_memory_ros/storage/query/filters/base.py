"""Interface of a query filter: SQL, in-memory match, cache shape, erasure, message and command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Protocol

import sqlalchemy as sa

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.storage.query.spec import QuerySpec

MOST_SHOWN = 5
"""Up to so many values are named in a sentence."""
_UNSET: tuple[Any, ...] = (None, (), {})
DEFAULTS: Mapping[str, Any] = {name: field.get_default() for name, field in MemoryQuery.model_fields.items()}
"""Defaults of the fields of a query."""


@dataclass(frozen=True, slots=True)
class ItemContext:
    """Facts about an item of working memory that the item itself does not carry."""

    map_id: str | None = None
    """The map that `near` searches; None: every map."""
    clock: str = 'wall'
    """The clock that event times are compared on."""
    reached: Set[tuple[str, str]] = frozenset()
    """(name, map) that the links of the query reach in the durable memory."""
    episode: str = ''
    """Episode in which the item was written last; empty: none."""


class FilterMessage(Protocol):
    """Typed access to the fields of a `MemoryFilter` message; each method checks what it returns."""

    def texts(self, field: str) -> tuple[str, ...]:
        """Return a list of texts."""

    def text(self, field: str) -> str:
        """Return a text."""

    def pairs(self, field: str, separator: str) -> tuple[tuple[str, str], ...]:
        """Return texts that read ``name<separator>value`` as pairs."""

    def scope(self) -> dict[str, str]:
        """Return the scope, with the map of its own field."""

    def stamp_ns(self, field: str) -> int | None:
        """Return a time in nanoseconds; None: it is zero."""

    def value(self, field: str) -> Any:
        """Return a number, a flag or an array as it is."""

    def reject(self, field: str, problem: str) -> NoReturn:
        """Raise the error of a field."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the command line that sets one field of a query."""

    flag: str
    """``--label``; for a flag of its own opposite ``--stale/--no-stale``."""
    field: str
    """The field of `MemoryQuery`."""
    help: str
    """One sentence."""
    type: type = str
    """Type of one value."""
    parse: Callable[[str], Any] | None = None
    """Makes the value of a text, and raises ValueError; None: as the type does."""
    metavar: str | None = None
    """Placeholder in the help."""
    repeated: bool = False
    """Whether it may be given more than once."""


class Filter:
    """One condition of a query: in SQL, on a Python item, in messages and on the command line.

    A subclass names its fields and overrides what differs. Unless it says otherwise a filter is safe: every
    value of its fields may name an item (so that a purge removes it from recorded queries, and no cached
    statement keeps it), and each value has a statement of its own.
    """

    fields: ClassVar[tuple[str, ...]] = ()
    """Fields of `MemoryQuery` that belong to this filter alone; the first one names it."""
    plain: ClassVar[frozenset[str]] = frozenset()
    """Fields whose values never name an item: numbers, flags, times, words of a closed list."""
    modifiers: ClassVar[frozenset[str]] = frozenset()
    """Fields that only change how the others are tested."""
    bound: ClassVar[tuple[str, ...]] = ()
    """Attributes of `QuerySpec` that its conditions bind by that name, in place of constants."""
    in_statement: ClassVar[bool] = True
    """Whether its fields change the SQL statement; False: it is tested elsewhere, or by `QuerySpec`."""
    places: ClassVar[bool] = True
    """Whether SQL tests it for items that have a place or a vector."""
    selective: ClassVar[bool] = True
    """Whether a removal may be chosen by it alone."""
    options_json: ClassVar[tuple[str, ...]] = ()
    """Fields that a message carries in its ``options_json``."""
    options: ClassVar[tuple[Option, ...]] = ()
    """Its options on the command line."""
    no_options: ClassVar[str] = ''
    """Reason why it has none of its own there."""
    reasons: ClassVar[tuple[str, ...]] = ()
    """Reasons of exclusion that an answer may count for it."""

    _tested: ClassVar[tuple[tuple[str, Any], ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._tested = tuple((name, DEFAULTS[name]) for name in cls.fields if name not in cls.modifiers)

    @property
    def name(self) -> str:
        """Its first field."""
        return self.fields[0]

    @property
    def lifted(self) -> Mapping[str, Any]:
        """Values of its fields with which everything passes."""
        return {name: DEFAULTS[name] for name in self.fields}

    def narrows(self, query: MemoryQuery) -> bool:
        """Return True if a query sets this filter."""
        for name, default in self._tested:
            value = getattr(query, name)
            # Most fields of most queries have the default object itself.
            if value is not default and value != default and value not in _UNSET:
                return True
        return False

    def tests_rows(self, query: MemoryQuery) -> bool:
        """Return True if SQL has to test items that have a place or a vector, where it is set."""
        return self.places

    def selects(self, query: MemoryQuery) -> bool:
        """Return True if it may alone choose what a removal takes: it is set, and leaves something out."""
        return self.selective and self.narrows(query)

    def conditions(self, spec: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
        """Yield the conditions over version, item, identity and landmark of `select.item_source`."""
        return ()

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if an item of working memory passes."""
        return True

    def identifying_values(self, field: str, value: Any) -> list[Any]:
        """Return what of a recorded JSON value of one of its fields may name an item or a place."""
        return [] if field in self.plain else [value]

    def indexed(self, query: MemoryQuery) -> Iterable[tuple[str, sa.Select[Any]]]:
        """Yield (name, statement) of what an index finds of statements of any time, to be counted."""
        return ()

    def estimates(self, connection: sa.Connection, query: MemoryQuery, most: int) -> dict[str, int]:
        """Return about how many statements pass by the indexes of this filter, counted up to a limit."""
        return {
            name: connection.execute(
                sa.select(sa.func.count()).select_from(statement.limit(most).subquery())
            ).scalar_one()
            for name, statement in self.indexed(query)
        }

    def absences(self, connection: sa.Connection, query: MemoryQuery) -> list[str]:
        """Return a sentence for each value of which there is no statement of any time, by an index."""
        counts = self.estimates(connection, query, 1)
        return [f'no stored item of {name}' for name, count in counts.items() if not count]

    def from_message(self, message: FilterMessage) -> dict[str, Any]:
        """Return the fields of a query that a message sets."""
        return {}


class ListFilter(Filter):
    """A filter by a list of names; a message and the command line have a list of texts for it."""

    noun: ClassVar[str] = ''
    """One of its values, where an item has one of them; empty: an item has all of them."""

    def absences(self, connection: sa.Connection, query: MemoryQuery) -> list[str]:
        """Return the sentence of a list of which no statement has anything."""
        found = super().absences(connection, query)
        if not found or not self.noun:
            return found
        values = [value for field in self.fields for value in _listed(getattr(query, field))]
        more = ' …' if len(values) > MOST_SHOWN else ''
        return [f'no stored item of {self.noun} {" or ".join(values[:MOST_SHOWN])}{more}']

    def from_message(self, message: FilterMessage) -> dict[str, Any]:
        """Return the list."""
        return {self.name: message.texts(self.name)}


def _listed(value: str | Sequence[str] | None) -> Sequence[str]:
    return [value] if isinstance(value, str) else value or ()


class MinimumFilter(Filter):
    """A filter by a least number from 0 on; a message has a number for it, of which zero means none."""

    def narrows(self, query: MemoryQuery) -> bool:
        """Return True if the number is above zero, which everything reaches."""
        return bool(getattr(query, self.name))

    def from_message(self, message: FilterMessage) -> dict[str, Any]:
        """Return the number."""
        return {} if self.name in self.options_json else {self.name: message.value(self.name) or None}
