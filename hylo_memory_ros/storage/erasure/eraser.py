"""Purges: rows, then their remains in pages, logs and unfinished files.

Threads: any; purges serialise on the database's lock.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.errors import DamagedFileError, StoreError
from hylo_memory_ros.model import Removal
from hylo_memory_ros.storage.changeset import Changeset, CommitResult
from hylo_memory_ros.storage.consolidation.records import summaries_over, versions_of_identities
from hylo_memory_ros.storage.engine.connection import log_of
from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.erasure.copies import copies_beside, copies_since, remove_unfinished
from hylo_memory_ros.storage.erasure.episodes import EpisodeErasure
from hylo_memory_ros.storage.query.filters import identifying_values
from hylo_memory_ros.storage.query.spec import QuerySpec
from hylo_memory_ros.storage.schema import (
    assertion,
    corrected,
    embedding,
    identity,
    metadata,
    spatial,
    text_index_of,
    txn,
    version,
)
from hylo_memory_ros.storage.schema.erasure import ERASURE, Purged
from hylo_memory_ros.storage.statements.removal import Matched, keep_audit, matched_versions
from hylo_memory_ros.storage.statements.timeline_repository import effective, says_now
from hylo_memory_ros.storage.transaction_manager import TransactionManager

__all__ = ['Eraser']

logger = logging.getLogger(__name__)

# Set by a purge until its remains are erased from every page and log.
_REMAINS = 'purge_remains'


class _Scope(NamedTuple):
    """What a purge deletes."""

    identity_ids: list[int]
    """Identities of what matches, of the summaries over it, and of what episodes keep of it."""
    episodes: EpisodeErasure
    matched: list[Matched]
    """Their versions."""
    first: int
    """Transaction that brought the first of what matches; 0: nothing does."""


class Eraser:
    """Deletion for good of statements, of every record of them, and of their remains in files.

    Parameters
    ----------
    transactions : TransactionManager
        The memory.
    """

    def __init__(self, transactions: TransactionManager) -> None:
        self._transactions = transactions

    def purge(
        self,
        asked: QuerySpec,
        among: Sequence[int] | None,
        unstored: Sequence[str] = (),
        *,
        reason: str,
        actor: str,
        dry_run: bool,
    ) -> tuple[Removal, CommitResult | None]:
        """Delete the identities of what matches for good, with every record of them.

        Parameters
        ----------
        unstored : sequence of str
            Further ids that are in no file; they are counted.
        """
        memory = self._transactions
        with memory.begin('purge', actor=actor, dry_run=dry_run, references=False) as uow:
            txn = uow.changeset
            scope = _scope(txn, matched_versions(txn.connection, txn.archive.match(asked, among)))
            copies = copies_since(uow.state, scope.first)
            if not dry_run:
                _delete_identities(txn, scope.identity_ids, unstored)
                scope.episodes.apply()
            ids = list(dict.fromkeys((*(one.id for one in scope.matched), *unstored)))
            keep_audit(txn, reason, None, None, len(ids))
            uow.state.put(_REMAINS, b'1')
            if not ids:
                uow.discard()
        if not ids:
            return Removal(0, sequence=memory.sequence), None
        if memory.path is not None and memory.archive.file is not None:
            copies += [*copies_beside(memory.path), *copies_beside(memory.archive.file.path)]
        if uow.result is not None:
            copies += self._erase_remains()
        return Removal(len(ids), ids, uow.sequence, sorted(set(copies))), uow.result

    def finish_interrupted(self) -> None:
        """Erase the remains of a purge that was interrupted before it reached every file."""
        with self._transactions.read() as view:
            remains = view.state.get(_REMAINS)
        if remains:
            self._erase_remains()

    def _erase_remains(self) -> list[str]:
        """Erase what was purged from every file of the memory; return the files that may still hold it.

        What cannot be done now is done when the memory is opened again.
        """
        memory = self._transactions
        if memory.path is None:
            return []
        unreached = memory.archive.erase_remains()
        try:
            remove_unfinished(memory.path)
            memory.database.rewrite()
        except (StoreError, OSError):
            logger.warning('%s may still hold parts of what was purged', memory.path, exc_info=True)
            unreached.append(str(memory.path))
        memory.log_holds_erased = not memory.database.checkpoint()
        if memory.log_holds_erased:
            unreached.append(str(log_of(memory.path)))
        if not unreached:
            with memory.begin_unnumbered(durable=True) as uow:
                uow.state.put(_REMAINS, b'')
        return unreached


def _scope(txn: Changeset, matched: list[Matched]) -> _Scope:
    connection = txn.connection
    identity_ids = sorted({one.identity_id for one in matched})
    while True:
        # Their past goes too, wherever the query found them.
        txn.archive.restore(identity_ids)
        episodes = EpisodeErasure(txn, _purged_of(connection, identity_ids))
        # The words of a summary are those of what it replaces, also of events about that.
        summaries = summaries_over(connection, [*identity_ids, *episodes.identity_ids])
        if not summaries:
            break
        txn.archive.restore(summaries)
        identity_ids += summaries
        matched += matched_versions(connection, versions_of_identities(connection, summaries))
    txn.archive.restore(episodes.identity_ids)
    matched += matched_versions(connection, versions_of_identities(connection, episodes.identity_ids))
    first = _first_sequence(connection, identity_ids)
    return _Scope([*identity_ids, *episodes.identity_ids], episodes, matched, first)


def _first_sequence(connection: sa.Connection, identity_ids: Sequence[int]) -> int:
    """Return the first transaction with a statement of identities; 0: there are none."""
    firsts = (connection.scalar(_first, {'ids': part}) for part in chunks(identity_ids))
    return min((first for first in firsts if first is not None), default=0)


def _purged_of(connection: sa.Connection, identity_ids: Sequence[int]) -> Purged:
    """Return what a purge of identities would delete."""
    rows = [row for part in chunks(identity_ids) for row in connection.execute(_statements, {'ids': part})]
    return _purged(connection, identity_ids, rows)


def _delete_identities(
    changeset: Changeset, identity_ids: Sequence[int], unstored: Sequence[str] = ()
) -> None:
    """Delete identities with every row that belongs to them, and erase them from every record.

    References between tables must not be enforced row by row (`Database.writing`): they are checked here,
    once and whole.

    Parameters
    ----------
    identity_ids : sequence of int
    unstored : sequence of str
        Further ids that are in no table; records may name them.

    Raises
    ------
    DamagedFileError
        A row that stays refers to a deleted one; the transaction must not be committed.
    """
    rows = [
        row
        for part in chunks(identity_ids)
        for row in changeset.connection.execute(_statements, {'ids': part})
    ]
    purged = _purged(changeset.connection, identity_ids, rows, unstored)
    changeset.unsaid += purged.assertion_ids
    for part in chunks(purged.assertion_ids):
        for row in changeset.connection.execute(_versions, {'ids': part}):
            changeset.removed.append(row.version_row)
            if row.to_seq is None:
                changeset.count_version(row.kind, row.element, (row.valid_to_ns, row.forgotten), -1)
    _delete_words(changeset.connection, rows)
    rules = [table.info.get(ERASURE) for table in reversed(metadata.sorted_tables)]
    for erase in dict.fromkeys(rule for rule in rules if callable(rule)):
        erase(changeset.connection, purged)
    if loose := changeset.connection.exec_driver_sql('PRAGMA foreign_key_check').first():
        raise DamagedFileError(f'purge: a row of {loose[0]} refers to a deleted row of {loose[2]}')


def _purged(
    connection: sa.Connection, identity_ids: Sequence[int], rows: Sequence[Any], unstored: Sequence[str] = ()
) -> Purged:
    assertion_ids = [row.assertion_id for row in rows]
    spatial_ids: list[int] = []
    vectors: list[bytes] = []
    for part in chunks(assertion_ids):
        spatial_ids += connection.execute(_places, {'ids': part}).scalars()
        vectors += connection.execute(_vectors, {'ids': part}).scalars()
    places = (row for part in chunks(spatial_ids) for row in connection.execute(_positions, {'ids': part}))
    ids = frozenset((*(row.id for row in rows), *unstored))
    keys = frozenset(row.key for row in rows if row.key is not None)
    details = [json.loads(row.detail or '{}') for row in rows]
    entities = {name for detail in details for name in detail.get('entities', ())}
    return Purged(
        identity_ids,
        assertion_ids,
        spatial_ids,
        landmarks=frozenset(
            (row.map_id, row.key) for row in rows if row.key is not None and row.kind == 'spatial'
        ),
        ids=ids,
        names=ids | keys | entities,
        values=frozenset(chain.from_iterable(map(_values, rows, details))),
        vectors=frozenset(vectors),
        places=frozenset(tuple(row) for row in places),
        identifying_values=identifying_values,
    )


def _values(row: Any, detail: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values that a statement can be found by, other than its names and its map."""
    yield row.label
    yield from detail.get('object_ids', ())
    yield from (target for _, target in detail.get('links', ()))
    yield from (value for name, value in detail.get('scope', {}).items() if name != 'map_id')


def _delete_words(connection: sa.Connection, rows: Sequence[Any]) -> None:
    words: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        entities = ' '.join(json.loads(row.detail or '{}').get('entities', ()))
        text = (row.assertion_id, row.content, row.key or '', row.label, entities)
        words.setdefault(text_index_of(row.op), []).append(text)
    for index, texts in words.items():
        connection.exec_driver_sql(_DELETE_WORDS.format(index=index), texts)
        # Deleted words stay in older segments until they are merged away.
        connection.exec_driver_sql(f"INSERT INTO {index} ({index}) VALUES ('optimize')")  # noqa: S608


_DELETE_WORDS = (
    "INSERT INTO {index} ({index}, rowid, content, key, label, entities) VALUES ('delete', ?, ?, ?, ?, ?)"
)
_ids: sa.BindParameter[Any] = sa.bindparam('ids', expanding=True)
_first = sa.select(sa.func.min(assertion.c.sequence)).where(assertion.c.identity_id.in_(_ids))
_statements = (
    sa.select(
        assertion.c.assertion_id,
        assertion.c.id,
        assertion.c.map_id,
        assertion.c.content,
        assertion.c.label,
        assertion.c.detail,
        identity.c.kind,
        identity.c.key,
        txn.c.op,
    )
    .join(txn, txn.c.sequence == assertion.c.sequence)
    .join(identity, identity.c.identity_id == assertion.c.identity_id)
    .where(assertion.c.identity_id.in_(_ids))
)
_versions = (
    sa.select(
        version.c.version_row,
        version.c.kind,
        version.c.valid_to_ns,
        version.c.forgotten,
        version.c.to_seq,
        effective('element'),
    )
    .join(assertion, assertion.c.assertion_id == version.c.assertion_id)
    .outerjoin(corrected, says_now)
    .where(version.c.assertion_id.in_(_ids))
)
_places = sa.union(
    *(
        sa.select(table.c.spatial_id).where(table.c.assertion_id.in_(_ids), table.c.spatial_id.is_not(None))
        for table in (assertion, corrected)
    )
)
_positions = sa.select(spatial.c.x, spatial.c.y, spatial.c.z).where(spatial.c.spatial_id.in_(_ids))
_vectors = sa.select(embedding.c.digest).where(embedding.c.assertion_id.in_(_ids))
