"""What a purge takes away, and how each table loses it.

Every table with words or bytes says in its own module how a purge leaves it: with `on_purge`, or
with `tells_nothing` why there is nothing in it to take out. What asks after that is a test.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from struct import pack
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.storage.schema import metadata

__all__ = [
    'Purged',
    'Scrub',
    'how_purged',
    'on_purge',
    'scrub_tables',
    'tells_nothing',
    'told_by',
]

_PURGE = 'purge'


@dataclass(frozen=True)
class Purged:
    """What is deleted for good: its row numbers and its names, and which records touch it.

    The rules for records that stay are simple, and rather delete too much: a text touches it that contains
    an id, a key or an entity of it as a word; a query touches it that asks by a value of it (see
    `touches_query`). Other words of what was said are not looked for.
    """

    identity_ids: Sequence[int]
    """Rows of `identity`."""
    assertion_ids: Sequence[int]
    """Rows of `assertion`."""
    spatial_ids: Sequence[int]
    """Rows of `spatial`."""
    landmarks: frozenset[tuple[str, str]]
    """(map_id, key) of what may be a landmark."""
    ids: frozenset[str]
    """Ids of items."""
    names: frozenset[str]
    """Ids, keys and entities."""
    values: frozenset[str]
    """Labels, objects, targets of links, and values of the scope."""
    vectors: frozenset[bytes]
    """SHA-256 of its vectors."""
    places: frozenset[tuple[float, ...]]
    """Positions that it ever had."""

    def named_in(self, value: Any) -> bool:
        """Return whether any text in a JSON value is one of the names."""
        if isinstance(value, str):
            return value in self.names
        if isinstance(value, Mapping):
            return any(map(self.named_in, value)) or any(map(self.named_in, value.values()))
        return isinstance(value, list | tuple) and any(map(self.named_in, value))

    def touches_text(self, text: str) -> bool:
        """Return whether a text contains one of the names as a word, whatever its case and diacritics."""
        return bool(text) and self._pattern.search(_folded(text)) is not None

    def touches_query(self, query: Mapping[str, Any] | None, *, is_answered: bool) -> bool:
        """Return whether a query, as a JSON object, asks by a name or value of it.

        Parameters
        ----------
        is_answered : bool
            Whether anything that it found stays; the words of a text query are then words of that.
        """
        if query is None:
            return False
        if query.get('text') and not (is_answered and query.get('embedding') is None):
            return True
        return self._touches(told_by(query))

    def touches_scope(self, scope: Mapping[str, str] | None) -> bool:
        """Return whether a scope has a value of it, other than the map."""
        return self._touches([value for name, value in (scope or {}).items() if name != 'map_id'])

    def _touches(self, value: Any) -> bool:
        if isinstance(value, str):
            return value in self.values or self.touches_text(value)
        if isinstance(value, Mapping):
            return any(map(self._touches, value.values()))
        if not isinstance(value, list | tuple):
            return False
        if value and all(isinstance(one, int | float) for one in value):
            return tuple(value) in self.places or _digest_of_numbers(value) in self.vectors
        return any(map(self._touches, value))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        names = sorted(map(_folded, self.names))
        return re.compile(rf'(?<!\w)(?:{"|".join(map(re.escape, names))})(?!\w)' if names else r'(?!)')


Scrub = Callable[[sa.Connection, Purged], None]
"""Takes out of its tables what was purged, in the transaction of the purge."""


def on_purge(*tables: sa.Table) -> Callable[[Scrub], Scrub]:
    """Say how tables lose what was purged: a decorator of the function that does it."""

    def register(scrub: Scrub) -> Scrub:
        for table in tables:
            table.info[_PURGE] = scrub
        return scrub

    return register


def tells_nothing(table: sa.Table, why: str) -> None:
    """Say that nothing in a table tells of an item, and why."""
    table.info[_PURGE] = why


def how_purged(table: sa.Table) -> Scrub | str | None:
    """Return what takes out of a table what was purged, or why nothing does; None: the table says neither."""
    how: Scrub | str | None = table.info.get(_PURGE)
    return how


def scrub_tables(connection: sa.Connection, purged: Purged) -> None:
    """Take what was purged out of every table, those that refer to others first."""
    scrubs = [how_purged(table) for table in reversed(metadata.sorted_tables)]
    for scrub in dict.fromkeys(scrub for scrub in scrubs if callable(scrub)):
        scrub(connection, purged)


# What of a query says no more than when, where and how much was asked.
_PLAIN = frozenset(
    {
        'kinds', 'depth', 'horizontal', 'any_map', 'time_range_ns', 'as_of_ns', 'known_at_ns',
        'known_seq', 'include_invalidated', 'include_stale', 'min_confidence', 'min_score', 'min_existence',
        'min_helpfulness', 'weights', 'k', 'cursor', 'explain', 'text_space', 'skill_status',
    }
)  # fmt: skip


def told_by(query: Mapping[str, Any] | None, *, place: bool = True) -> list[Any]:
    """Return what of a query, as a JSON object, may tell of an item.

    Parameters
    ----------
    place : bool
        Whether a place can: only one where the item was, not one that it was near to.
    """
    asked = {name: value for name, value in (query or {}).items() if name not in _PLAIN}
    relation, scope, near = (asked.pop(name, None) or () for name in ('relation', 'scope', 'near'))
    told = [*asked.values(), *relation[1:]]
    told += [value for name, value in dict(scope).items() if name != 'map_id']
    return [*told, near[0]['position']] if near and place else told


def _folded(text: str) -> str:
    """Return a text in lower case and without diacritics, as the full text has it."""
    folded = unicodedata.normalize('NFKD', text.casefold())
    return ''.join(char for char in folded if not unicodedata.combining(char))


def _digest_of_numbers(numbers: Sequence[float]) -> bytes:
    try:
        return sha256(pack(f'<{len(numbers)}f', *numbers)).digest()
    except OverflowError:
        return b''
