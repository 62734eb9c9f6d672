"""What a purge takes away, and how each table loses it.

Every table with words or bytes says in its own module how a purge leaves it: with `on_purge`, or
with `tells_nothing` why there is nothing in it to take out. What asks after that is a test.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from struct import pack
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.storage.schema import FULL_TEXT, SUMMARY_TEXT, metadata

__all__ = [
    'Purged',
    'Scrub',
    'how_purged',
    'on_purge',
    'scrub_tables',
    'tells_nothing',
    'told_by',
    'words_of',
]

_WORD = re.compile(r'[^\W_]+')
_HOLDS = [
    sa.text(f'SELECT 1 FROM {index} WHERE {index} MATCH :word LIMIT 1')  # noqa: S608
    for index in (FULL_TEXT, SUMMARY_TEXT)
]
_PURGE = 'purge'


@dataclass(frozen=True)
class Purged:
    """What is deleted for good: its row numbers, its names, and what was said of it.

    Once its words are out of the full text, it also tells whether a record that stays speaks of it.
    """

    connection: sa.Connection
    """In the transaction of the purge."""
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
    """Ids and keys."""
    words: frozenset[str]
    """Words of all that was said, folded as `words_of` does."""
    vectors: frozenset[bytes]
    """SHA-256 of its vectors."""
    places: frozenset[tuple[float, ...]]
    """Where it ever was."""
    _kept: dict[str, bool] = field(default_factory=dict)

    def named_in(self, value: Any) -> bool:
        """Whether any text in a JSON value is one of the ids and keys."""
        if isinstance(value, str):
            return value in self.names
        if isinstance(value, Mapping):
            return any(map(self.named_in, value)) or any(map(self.named_in, value.values()))
        return isinstance(value, list | tuple) and any(map(self.named_in, value))

    def told_in(self, value: Any) -> bool:
        """Whether a text or JSON value names it, or has a word that was said of it and of nothing that stays.

        Also whether it holds one of its vectors, or a place where it was. Names of JSON members tell nothing.
        """
        if isinstance(value, str):
            return value in self.names or any(map(self._only_here, words_of(value)))
        if isinstance(value, Mapping):
            return any(map(self.told_in, value.values()))
        if not isinstance(value, list | tuple):
            return False
        if value and all(isinstance(one, int | float) for one in value):
            return tuple(value) in self.places or _digest_of_numbers(value) in self.vectors
        return any(map(self.told_in, value))

    def _only_here(self, word: str) -> bool:
        if word not in self.words:
            return False
        if word not in self._kept:
            asked = {'word': f'"{word}"'}
            self._kept[word] = any(self.connection.execute(holds, asked).first() for holds in _HOLDS)
        return not self._kept[word]


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


def words_of(*texts: str) -> set[str]:
    """Return the words of texts, folded: in lower case and without diacritics, as the full text has them.

    Examples
    --------
    >>> sorted(words_of('Zoë, mug_1'))
    ['1', 'mug', 'zoe']
    """
    folded = unicodedata.normalize('NFKD', '\n'.join(texts).casefold())
    plain = ''.join(char for char in folded if not unicodedata.combining(char))
    return set(_WORD.findall(plain))


def _digest_of_numbers(numbers: Sequence[float]) -> bytes:
    try:
        return sha256(pack(f'<{len(numbers)}f', *numbers)).digest()
    except OverflowError:
        return b''
