"""References to purged items in the remaining records: search, and erasure from episodes.

A key event about an item is deleted with it. A note or an outcome that names it is deleted, and so is the
summary of an episode that names it or repeats such a text. An episode whose summary is asked for itself
loses notes and outcome, and its name and scope too when no statement of it is left.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from struct import pack
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.model import Episode, MemoryKind
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.episodes import SUMMARY_PREFIX, SUMMARY_SOURCE, all_episodes, summary_key
from hylo_memory_ros.storage.query.filters import identifying_values
from hylo_memory_ros.storage.receipts import is_kept, scrub_hits
from hylo_memory_ros.storage.schema import assertion, episode, identity, metadata, receipt, tag, txn
from hylo_memory_ros.storage.schema.base import Purged
from hylo_memory_ros.storage.statements.mapper import paired


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


PURGED = 'purged'
"""Outcome of an episode whose outcome named what was purged."""

_EMPTY = {'note': '', 'end_note': '', 'outcome': PURGED}


class EpisodeErasure:
    """Traces of purged items in the ends of episodes.

    Parameters
    ----------
    changeset : Changeset
        That of the purge, before anything is deleted; what of it is archived comes back.
    purged : Purged
        What is to be deleted.
    """

    def __init__(self, changeset: Changeset, purged: Purged) -> None:
        connection = self._connection = changeset.connection
        if purged.identity_ids and changeset.archive:
            changeset.archive.restore_links([paired('about', item_id) for item_id in purged.ids])
            changeset.archive.restore(connection.scalars(_SUMMARY_IDENTITIES, _KEYS))
        direct = set(purged.identity_ids)
        events = _events_about(connection, purged.ids) - direct
        gone = set(purged.ids)
        for part in chunks(events):
            gone |= set(connection.scalars(_ids_of, {'ids': part}))
        summaries = connection.execute(_SUMMARIES, _KEYS).all()
        asked_for = {row.key for row in summaries if row.identity_id in direct}
        self._emptied: list[Episode] = []
        self._changed: list[tuple[str, dict[str, str]]] = []
        for one in all_episodes(connection):
            fields = {name: text for name, text in _EMPTY.items() if purged.touches_text(getattr(one, name))}
            if summary_key(one.id) in asked_for:
                self._emptied.append(one)
                fields = _EMPTY
            if fields:
                self._changed.append((one.id, fields))
        changed = {summary_key(name) for name, _ in self._changed}
        touching = {
            row.identity_id for row in summaries if row.key in changed or _names(row.detail, gone)
        } - direct
        self.identity_ids: list[int] = sorted(events | touching)
        """Identities of the key events and summaries that are deleted too."""

    def apply(self) -> None:
        """Delete notes, outcomes and names, once the items are deleted."""
        for name, fields in self._changed:
            self._connection.execute(episode.update().where(episode.c.id == name).values(fields))
        for one in self._emptied:
            anything = self._connection.execute(_ANYTHING_SAID, {'episode': one.id}).first()
            if not one.is_open and anything is None:
                _rename(self._connection, one)


def _events_about(connection: sa.Connection, ids: Iterable[str]) -> set[int]:
    """Return the identities of key events that are about one of some items."""
    found: set[int] = set()
    for part in chunks(ids):
        values = [paired('about', item_id) for item_id in part]
        found |= set(connection.scalars(_ABOUT, {'values': values, 'source': SUMMARY_SOURCE}))
    return found


def _names(detail: str | None, ids: set[str]) -> bool:
    return not ids.isdisjoint(json.loads(detail or '{}').get('evidence', ()))


def _rename(connection: sa.Connection, one: Episode) -> None:
    """Let nothing but its times be known of an episode."""
    taken = set(connection.scalars(sa.select(episode.c.id)))
    name = f'{PURGED}-{one.begin_seq}'
    while name in taken:
        name += '-'
    fields = {'id': name, 'outcome': PURGED, 'scope': '{}', 'actor': ''}
    connection.execute(episode.update().where(episode.c.id == one.id).values(fields))
    for table in metadata.sorted_tables:
        if table is not episode and 'episode' in table.c:
            connection.execute(table.update().where(table.c.episode == one.id).values(episode=name))
    body = sa.func.json_set(receipt.c.body, '$.episode', name)
    size = sa.func.length(sa.cast(body, sa.LargeBinary))
    connection.execute(receipt.update().where(receipt.c.episode == name).values(body=body, size=size))


# The next character: behind every key of a summary.
_BEHIND = SUMMARY_PREFIX[:-1] + chr(ord(SUMMARY_PREFIX[-1]) + 1)
_KEYS = {'first': SUMMARY_PREFIX, 'end': _BEHIND}
_identities: sa.BindParameter[Any] = sa.bindparam('ids', expanding=True)
_ids_of: sa.Select[Any] = sa.select(assertion.c.id).where(assertion.c.identity_id.in_(_identities))
_ABOUT: sa.Select[Any] = (
    sa.select(assertion.c.identity_id)
    .join(tag, tag.c.assertion_id == assertion.c.assertion_id)
    .where(
        tag.c.field == 'link',
        tag.c.value.in_(sa.bindparam('values', expanding=True)),
        assertion.c.source == sa.bindparam('source'),
    )
)
_is_summary = (
    (identity.c.key >= sa.bindparam('first'))
    & (identity.c.key < sa.bindparam('end'))
    & (identity.c.kind == MemoryKind.EPISODIC.value)
)
_SUMMARY_IDENTITIES: sa.Select[Any] = sa.select(identity.c.identity_id).where(_is_summary)
_SUMMARIES = (
    sa.select(identity.c.identity_id, identity.c.key, assertion.c.detail)
    .join(assertion, assertion.c.identity_id == identity.c.identity_id)
    .where(_is_summary, assertion.c.source == SUMMARY_SOURCE)
)
_ANYTHING_SAID = (
    sa.select(assertion.c.assertion_id)
    .join(txn, txn.c.sequence == assertion.c.sequence)
    .where(txn.c.episode != '', txn.c.episode == sa.bindparam('episode'))
    .limit(1)
)
