"""What a purge takes out of episodes: what their ends said of it, and notes that tell of it.

A key event about something leaves with it. A summary loses the ids of what is gone; if a note or the
outcome of its episode tells of that, it is written again without. An episode whose summary is purged
itself loses notes and outcome, and its name and scope too when nothing that was said in it is left.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.model import Episode, MemoryItem, MemoryKind
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.consolidation.sizes import held
from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.episodes.facts import SUMMARY_PREFIX, SUMMARY_SOURCE, summary_key, summary_text
from hylo_memory_ros.storage.episodes.repository import all_episodes
from hylo_memory_ros.storage.erasure.registry import Purged, tells_nothing, words_of
from hylo_memory_ros.storage.receipts import receipt
from hylo_memory_ros.storage.schema import (
    FULL_TEXT,
    SUMMARY_TEXT,
    assertion,
    episode,
    identity,
    metadata,
    tag,
    txn,
    version,
)
from hylo_memory_ros.storage.statements.mapper import ITEM_COLUMNS, item_of, paired, select_items
from hylo_memory_ros.storage.statements.writer import write_items

__all__ = ['PurgedEpisodes']

PURGED = 'purged'
"""Outcome of an episode whose outcome told of what was purged."""

_EPISODIC = MemoryKind.EPISODIC.value
_EMPTY = {'note': '', 'end_note': '', 'outcome': PURGED}


class PurgedEpisodes:
    """What the end of episodes said of things that are to be purged.

    Parameters
    ----------
    transaction : Changeset
        That of the purge, before anything is deleted; what of it is cold comes back.
    purged : Purged
        What is to be deleted.
    """

    def __init__(self, transaction: Changeset, purged: Purged) -> None:
        connection = self._connection = transaction.connection
        if purged.identity_ids and transaction.cold:
            transaction.cold.linked([paired('about', item_id) for item_id in purged.ids])
            transaction.cold.bring(connection.scalars(_TELLING, _KEYS))
        direct = set(purged.identity_ids)
        self.event_ids: list[int] = sorted(_events_about(connection, purged.ids) - direct)
        """Identities of the key events that are about it."""
        gone = set(purged.ids)
        for part in chunks(self.event_ids):
            gone |= set(connection.scalars(_ids_of, {'ids': part}))
        summaries = connection.execute(_SUMMARIES, _KEYS).all()
        ours = {*purged.assertion_ids, *(row.assertion_id for row in summaries), *self._events_said()}
        told = _Told(connection, purged, ours)
        self._emptied: list[Episode] = []
        self._telling: list[tuple[Episode, Mapping[str, str]]] = []
        mine = {row.key: row.identity_id for row in summaries if row.identity_id in direct}
        for one in all_episodes(connection):
            fields = {name: text for name, text in _EMPTY.items() if told.of(getattr(one, name))}
            if summary_key(one.id) in mine:
                self._emptied.append(one)
                fields = _EMPTY
            if fields:
                self._telling.append((one, fields))
        again = {summary_key(one.id) for one, _ in self._telling} - set(mine)
        self.summary_ids: list[int] = sorted({row.identity_id for row in summaries if row.key in again})
        """Identities of the summaries that must be written again."""
        self._summaries = self._open_items(gone)
        kept = direct.union(self.summary_ids)
        self._named = [row for row in summaries if row.identity_id not in kept and _names(row.detail, gone)]
        self._gone = gone

    def event_rows(self) -> list[int]:
        """Return the version rows of the key events, believed or not."""
        found: list[int] = []
        for part in chunks(self.event_ids):
            found += self._connection.scalars(_rows_of, {'ids': part})
        return found

    def _events_said(self) -> Iterator[int]:
        for part in chunks(self.event_ids):
            yield from self._connection.scalars(_said_of, {'ids': part})

    def _open_items(self, gone: set[str]) -> list[MemoryItem]:
        """Return the summaries that are to be written again, as they will be."""
        texts = {summary_key(one.id): (one, fields) for one, fields in self._telling}
        items = []
        for part in chunks(self.summary_ids):
            for row in self._connection.execute(_OPEN, {'ids': part}):
                item = item_of(row[: len(ITEM_COLUMNS)])
                one, fields = texts[item.key or '']
                outcome = fields.get('outcome', one.outcome)
                payload = {**item.payload, 'outcome': outcome}
                notes = [fields.get(name, getattr(one, name)) for name in ('note', 'end_note')]
                changed = {
                    'payload': payload,
                    'content': summary_text(payload, notes),
                    'evidence': tuple(name for name in item.evidence if name not in gone),
                    'id': None,
                }
                items.append(item.model_copy(update=changed))
        return items

    def clean(self, transaction: Changeset, identity_scope: Sequence[str]) -> None:
        """Take out what told of it, once it is deleted."""
        connection = transaction.connection
        for one, fields in self._telling:
            connection.execute(episode.update().where(episode.c.id == one.id).values(fields))
        for row in self._named:
            detail = json.loads(row.detail)
            detail['evidence'] = [name for name in detail['evidence'] if name not in self._gone]
            text = json.dumps(detail, ensure_ascii=False, separators=(',', ':'))
            where = assertion.c.assertion_id == row.assertion_id
            connection.execute(assertion.update().where(where).values(detail=text))
            less = len(row.detail.encode()) - len(text.encode())
            connection.execute(
                held.update().where(held.c.kind == _EPISODIC).values(bytes=held.c.bytes - less)
            )
        if self._summaries:
            write_items(transaction, self._summaries, identity_scope)
        for one in self._emptied:
            if not one.is_open and connection.execute(_ANYTHING_SAID, {'episode': one.id}).first() is None:
                _rename(connection, one)


class _Told:
    """Whether a text tells of what is purged: by a name of it, or a word that nothing else will say."""

    def __init__(self, connection: sa.Connection, purged: Purged, ours: set[int]) -> None:
        self._connection, self._purged, self._ours = connection, purged, ours
        self._known: dict[str, bool] = {}

    def of(self, text: str) -> bool:
        return bool(text) and (
            text in self._purged.names or any(map(self._only_ours, words_of(text) & self._purged.words))
        )

    def _only_ours(self, word: str) -> bool:
        if word not in self._known:
            self._known[word] = all(number in self._ours for number in self._saying(word))
        return self._known[word]

    def _saying(self, word: str) -> Iterator[int]:
        for index in (FULL_TEXT, SUMMARY_TEXT):
            rows = self._connection.exec_driver_sql(_SAYING.format(index=index), (f'"{word}"',))
            yield from rows.scalars()
            rows.close()


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


tells_nothing(episode, 'its notes, outcome and name are taken by `PurgedEpisodes`, which knows its summary')

# The next character: behind every key of a summary.
_BEHIND = SUMMARY_PREFIX[:-1] + chr(ord(SUMMARY_PREFIX[-1]) + 1)
_KEYS = {'first': SUMMARY_PREFIX, 'end': _BEHIND}
_SAYING = 'SELECT rowid FROM {index} WHERE {index} MATCH ?'
_identities: sa.BindParameter[Any] = sa.bindparam('ids', expanding=True)
_ids_of: sa.Select[Any] = sa.select(assertion.c.id).where(assertion.c.identity_id.in_(_identities))
_said_of: sa.Select[Any] = sa.select(assertion.c.assertion_id).where(assertion.c.identity_id.in_(_identities))
_rows_of: sa.Select[Any] = (
    sa.select(version.c.version_row)
    .join(assertion, assertion.c.assertion_id == version.c.assertion_id)
    .where(assertion.c.identity_id.in_(_identities))
)
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
    & (identity.c.kind == _EPISODIC)
)
_TELLING: sa.Select[Any] = sa.select(identity.c.identity_id).where(_is_summary)
_SUMMARIES = (
    sa.select(identity.c.identity_id, identity.c.key, assertion.c.assertion_id, assertion.c.detail)
    .join(assertion, assertion.c.identity_id == identity.c.identity_id)
    .where(_is_summary, assertion.c.source == SUMMARY_SOURCE)
)
_OPEN = select_items.where(
    version.c.identity_id.in_(_identities), version.c.to_seq.is_(None), version.c.valid_to_ns.is_(None)
)
_ANYTHING_SAID = (
    sa.select(assertion.c.assertion_id)
    .join(txn, txn.c.sequence == assertion.c.sequence)
    .where(txn.c.episode != '', txn.c.episode == sa.bindparam('episode'))
    .limit(1)
)
