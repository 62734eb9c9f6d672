"""Purged items, and the search for references to them in the remaining records."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from struct import pack
from typing import Any

from hylo_memory_ros.storage.query.filters import identifying_values
from hylo_memory_ros.storage.receipts import is_kept, scrub_hits

__all__ = ['PurgedItems']


@dataclass(eq=False)
class PurgedItems:
    """Items that are deleted for good: row numbers, names and values.

    Matching is conservative and accepts false positives: a text refers to an item if it contains its id, its
    key or an entity as a whole word; a query refers to it if it filters by one of its values (see
    `touches_query`). Other words of the items are not searched for.
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
        return self._touches(identifying_values(query))

    def scrub_retrieval(self, body: dict[str, Any]) -> bool:
        """Take the items out of a receipt of a retrieval, in place; return whether it changed."""
        is_answered = any(is_kept(hit, self.ids) for hit in body['hits'])
        touched = self.touches_query(body['query'], is_answered=is_answered)
        return scrub_hits(body, self.ids, drop_query=touched)

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


def _folded(text: str) -> str:
    """Return a text in lower case and without diacritics, as the full text has it."""
    folded = unicodedata.normalize('NFKD', text.casefold())
    return ''.join(char for char in folded if not unicodedata.combining(char))


def _digest_of_numbers(numbers: Sequence[float]) -> bytes:
    try:
        return sha256(pack(f'<{len(numbers)}f', *numbers)).digest()
    except OverflowError:
        return b''
