"""Reader of statements, over the main file and the archive.

Threads: every method may be called from any thread, beside a writer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from typing import Any, TypeVar

import sqlalchemy as sa

from hylo_memory_ros.domain.consolidation.planner import ConsolidationCandidate
from hylo_memory_ros.domain.identity import CANONICAL_FORM, EMPTY_STATE, digest_of_state
from hylo_memory_ros.domain.timeline import END
from hylo_memory_ros.model import Changes, Helpfulness, VerifyReport, Version
from hylo_memory_ros.storage.archive.state import (
    everything,
    given_ids,
    nothing,
    reached_by,
    reached_by_history,
)
from hylo_memory_ros.storage.consolidation.candidates import KindSize, amount_at_hand, consolidable
from hylo_memory_ros.storage.engine.state import get_state
from hylo_memory_ros.storage.episodes import any_episode, said_in
from hylo_memory_ros.storage.feedback import any_helpfulness, helpfulness_of
from hylo_memory_ros.storage.integrity import verify_database
from hylo_memory_ros.storage.migrations import HEAD
from hylo_memory_ros.storage.observation_ledger import LedgerRepository
from hylo_memory_ros.storage.query import select
from hylo_memory_ros.storage.query.select import CandidateRows, RankedRow
from hylo_memory_ros.storage.query.spec import QuerySpec
from hylo_memory_ros.storage.receipts import existing_ids
from hylo_memory_ros.storage.schema import audit, known_map, txn
from hylo_memory_ros.storage.statements import embeddings, history
from hylo_memory_ros.storage.statements.embeddings import VectorTuple, VersionTuple, vectors_of_assertions
from hylo_memory_ros.storage.statements.mapper import ItemRow
from hylo_memory_ros.storage.transaction_manager import TransactionManager

SpatialTuple = tuple[int, int, str, str, float, float, float, int, int | None, int, int | None]
"""Version row, spatial id, map, frame, x, y, z, valid from, valid to, from seq, to seq."""
T = TypeVar('T')
_ENDED_BY, _KEY = 3, 7


class StatementReader:
    """Statements of a memory, in the main file and in the archive; each method reads one consistent state.

    Parameters
    ----------
    transactions : TransactionManager
        The memory.
    """

    def __init__(self, transactions: TransactionManager) -> None:
        self._transactions = transactions
        self._db = transactions.database
        self._archive = transactions.archive
        self._without_episodes: tuple[str, int] | None = None
        self._without_helpfulness: tuple[str, int] | None = None

    @property
    def epoch(self) -> str:
        """Name of the history."""
        return self._transactions.epoch

    @property
    def sequence(self) -> int:
        """Number of the newest transaction."""
        return self._transactions.sequence

    def now_ns(self) -> int:
        """Return the highest service time seen."""
        return self._transactions.now_ns()

    @contextmanager
    def _open(
        self, spec: QuerySpec, needed: QuerySpec | None = None
    ) -> Iterator[list[tuple[sa.Connection, QuerySpec]]]:
        """Open the main file, and the archive where a query can have a match there; each with its query."""
        if self._archive.is_empty:
            with self._db.reading() as connection:
                yield [(connection, spec)]
        else:
            with self._archive.reading(reached_by(spec), reached_by(needed or spec)) as files:
                yield files.specs(spec)

    def page(self, spec: QuerySpec, limit: int, offset: int = 0) -> tuple[list[RankedRow], int]:
        """Return matches in order, and the sequence that they are of."""
        with self._open(spec) as files:
            seq = spec.seq if spec.seq is not None else history.last_transaction(files[0][0])[0]
            if len(files) == 1:
                return select.match_page(*files[0], limit, offset), seq
            pages = [select.match_page(*file, offset + limit) for file in files]
        return list(islice(merge(*pages, key=_order), offset, offset + limit)), seq

    def count(self, spec: QuerySpec) -> int:
        """Return how many match; one more than the limit of exact totals means "more"."""
        with self._open(spec) as files:
            return min(sum(select.count_matches(*file) for file in files), select.TOTAL_LIMIT + 1)

    def matching(self, spec: QuerySpec, among: Sequence[int] | None) -> dict[int, float | None]:
        """Return the version rows that match, perhaps out of given ones, each with its text rank."""
        with self._open(spec) as files:
            return _united(select.matching_rows(*file, among) for file in files)

    def fetch(self, version_rows: Sequence[int]) -> dict[int, ItemRow]:
        """Return item rows by version row."""
        with self._db.reading() as connection:
            found = select.fetch(connection, version_rows)
        if len(found) == len(version_rows):
            return found
        with self._archive.reading(everything, nothing) as files:
            return _united(select.fetch(connection, version_rows) for connection in files.all)

    def vectors(self, rows: Sequence[ItemRow]) -> dict[int, dict[str, tuple[float, ...]]]:
        """Return the vectors of item rows, by version row and space."""
        wanted = list(filter(itemgetter(select.HAS_EMBEDDING), rows))
        if not wanted:
            return {}
        with self._db.reading() as connection:
            found = select.embeddings_of(connection, wanted)
        if len(found) == len(wanted):
            return found
        with self._archive.reading(everything, nothing) as files:
            return _united(select.embeddings_of(connection, wanted) for connection in files.all)

    def excluded_by_time(self, spec: QuerySpec, among: Sequence[int] | None = None) -> dict[str, int]:
        """Count the believed matches that do not hold at the time of a query, by reason."""
        # Links are followed through versions of any time, as the matches at any time are looked for.
        with self._open(replace(spec, world='any'), spec) as files:
            return _summed(
                select.excluded_by_time(connection, replace(of, world=spec.world), among)
                for connection, of in files
            )

    def candidates(self, spec: QuerySpec, among: Sequence[int] | None = None) -> CandidateRows:
        """Return all that matches, perhaps out of given version rows, with what can be ranked."""
        with self._open(spec) as files:
            if len(files) == 1:
                return select.candidates(*files[0], among)
            parts = [select.candidates(*file, among, ids=True) for file in files]
        parts = [part for part in parts if part.version_rows]
        if not parts:
            return CandidateRows()
        # A column that the query does not need is empty in both.
        filled = [name for name in CandidateRows._fields if getattr(parts[0], name)]
        rows = (zip(*(getattr(part, name) for name in filled), strict=True) for part in parts)
        stamp, name = filled.index('valid_from_ns'), filled.index('ids')
        in_order = merge(*rows, key=lambda row: (-row[stamp], row[name]))
        return CandidateRows(**dict(zip(filled, zip(*in_order, strict=True), strict=True)))

    def estimates(self, spec: QuerySpec, most: int) -> dict[str, int]:
        """Return about how many statements pass each filter that has an index, counted up to a limit."""
        with self._open(spec) as files:
            counts = select.estimates(*files[0], most)
            for file in files[1:]:
                # Keys and words are those of the main file, whichever file their statements are in.
                for name, count in select.estimates(*file, most).items():
                    if name not in ('keys', 'text'):
                        counts[name] = min(counts[name] + count, most)
        return counts

    def absences(self, spec: QuerySpec) -> list[str]:
        """Return a sentence for each value of a filter that no statement of any time has."""
        with self._archive.reading(everything, nothing) as files:
            first, *others = [select.absences(connection, spec) for connection in files.all]
        # What only one file lacks is in the other one; the labels that exist may differ.
        lacking = [{sentence.partition(' (')[0] for sentence in found} for found in others]
        return [one for one in first if all(one.partition(' (')[0] in found for found in lacking)]

    def excluded_by_statistics(self, spec: QuerySpec, among: Sequence[int] | None = None) -> dict[str, int]:
        """Count what only its statistics exclude, by reason."""
        with self._open(spec) as files:
            return _summed(select.excluded_by_statistics(*file, among) for file in files)

    def excluded_skills(self, spec: QuerySpec) -> tuple[int, list[int]]:
        """Return how many matching skills are refused; with a caller's state also their assertions."""
        with self._db.reading() as connection:
            return select.excluded_skills(connection, spec)

    def any_stale(self) -> bool:
        """Return whether any landmark is stale."""
        with self._db.reading() as connection:
            return select.any_stale(connection)

    def names_reached(self, spec: QuerySpec) -> set[tuple[str, str]]:
        """Return (name, map) of what the links of a query reach with at least one to spare."""
        with self._open(spec) as files:
            connection, of = files[-1]
            return select.names_reached(connection, of)

    def sequence_at(self, known_at_ns: int) -> int:
        """Return the last sequence recorded at or before a service time."""
        with self._db.reading() as connection:
            return history.sequence_at(connection, known_at_ns)

    def purged_after(self, seq: int) -> int:
        """Return how many statements were deleted for good after a sequence."""
        with self._db.reading() as connection:
            purges = sa.select(txn.c.sequence).where(txn.c.op == 'purge', txn.c.sequence > seq)
            total = sa.select(sa.func.sum(audit.c.count)).where(audit.c.sequence.in_(purges))
            return connection.execute(total).scalar() or 0

    def archived_ids(self, ids: Collection[str]) -> set[str]:
        """Return which ids are those of statements in the archive."""
        if not ids:
            return set()
        with self._archive.reading(everything, nothing) as files:
            return set() if files.archive is None else existing_ids(files.archive, ids)

    def taken(self, ids: Collection[str]) -> set[str]:
        """Return which ids another statement has, if one were given them."""
        with self._archive.reading(given_ids, nothing) as files:
            return set().union(*(existing_ids(one, ids) for one in files.all))

    def history(
        self,
        *,
        item_id: str | None,
        kind: str | None,
        key: str | None,
        map_id: str | None,
        limit: int,
        offset: int,
    ) -> list[Version]:
        """Return versions of an identity, given by an id or a key, in the order of belief."""
        named: dict[str, Any] = {'item_id': item_id, 'kind': kind, 'key': key, 'map_id': map_id}
        with self._archive.reading(reached_by_history(key)) as files:
            if item_id is not None:
                named['identity_ids'] = set().union(
                    *(history.identities_of(connection, item_id) for connection in files.all)
                )
            if files.archive is None:
                found = history.versions_of(files.live, limit=limit, offset=offset, **named)
            else:
                parts = [history.versions_of(one, limit=offset + limit, **named) for one in files.all]
                found = list(islice(merge(*parts, key=itemgetter(0)), offset, offset + limit))
            rows = [place[2] for place, version in found if version.ended_by == END]
            ends = _united(history.ends_of(one, rows) for one in files.all) if rows else {}
            reasons = history.reasons_of(files.live, set(ends.values()))
        return [
            replace(version, ended_by=f'{END}: {reason}')
            if (reason := reasons.get((ends.get(place[2], 0), version.item.key or '')))
            else version
            for place, version in found
        ]

    def changes(self, after: int, limit: int) -> Changes:
        """Return the feed after a sequence."""
        with self._db.reading() as connection:
            return history.changes_after(connection, self.epoch, after, limit)

    def digest(self) -> str:
        """Return the snapshot hash."""
        with self._db.reading() as connection:
            return digest_of_state(get_state(connection, 'set_hash', EMPTY_STATE))

    def manifest(self) -> dict[str, Any]:
        """Return the snapshot hash and what it covers."""
        with self._db.reading() as connection:
            sequence, recorded_at_ns = history.last_transaction(connection)
            lost = LedgerRepository(connection).losses()
            return {
                'digest': digest_of_state(get_state(connection, 'set_hash', EMPTY_STATE)),
                'timeline_digest': digest_of_state(get_state(connection, 'timeline_hash', EMPTY_STATE)),
                'epoch': self.epoch,
                'sequence': sequence,
                'recorded_at_ns': recorded_at_ns,
                'counts': json.loads(get_state(connection, 'counts', b'{}')),
                'complete': not lost,
                **({'incomplete': lost} if lost else {}),
                'canonical_form': CANONICAL_FORM,
                'schema': HEAD,
            }

    def verify(self) -> VerifyReport:
        """Recompute every timeline and hash."""
        with self._archive.reading(everything, nothing) as files:
            report = verify_database(files.live, self._transactions.config.identity_scope, *files.all[1:])
        if self._archive.lost is not None:
            return replace(report, problems=(*report.problems, str(self._archive.lost)))
        return report

    def spatial_batches(self, size: int = 50_000) -> Iterator[list[SpatialTuple]]:
        """Yield every version that has a place, believed or not."""
        with self._archive.reading(everything, nothing) as files:
            for connection in files.all:
                raw: Any = connection.connection.dbapi_connection
                # The rows go straight into arrays: a Row object for each of a million would double the time.
                cursor = raw.execute(_SPATIAL)
                while rows := cursor.fetchmany(size):
                    yield rows

    def vectors_of(self, space: str, assertions: Sequence[int]) -> dict[int, bytes]:
        """Return the float32 bytes of vectors by assertion; one that is gone is left out."""
        with self._db.reading() as connection:
            found = vectors_of_assertions(connection, space, assertions)
        if len(found) == len(assertions):
            return found
        with self._archive.reading(everything, nothing) as files:
            return _united(vectors_of_assertions(one, space, assertions) for one in files.all)

    def vector_records(self, space: str) -> list[tuple[int, str, bytes]]:
        """Return assertion, item id and SHA-256 of every vector of a space, in order of the assertion."""
        with self._archive.reading(everything, nothing) as files:
            return list(merge(*(embeddings.vector_records(one, space) for one in files.all)))

    def vector_batches(self, size: int = 5_000) -> Iterator[list[VectorTuple]]:
        """Yield every vector, in order of its assertion."""
        return self._batches(embeddings.vector_batches, size)

    def vector_version_batches(self, size: int = 50_000) -> Iterator[list[VersionTuple]]:
        """Yield every version that has a vector, believed or not, in order of its row."""
        return self._batches(embeddings.vector_version_batches, size)

    def _batches(
        self, batches: Callable[[sa.Connection, int], Iterator[list[Any]]], size: int
    ) -> Iterator[list[Any]]:
        with self._archive.reading(everything, nothing) as files:
            if files.archive is None:
                yield from batches(files.live, size)
                return
            rows = merge(
                *map(chain.from_iterable, (batches(one, size) for one in files.all)), key=itemgetter(0)
            )
            while batch := list(islice(rows, size)):
                yield batch

    def endings(self, rows: Sequence[ItemRow]) -> dict[int, str]:
        """Return by what item rows were ended, ``forget`` or ``end`` with its reason, by version row."""
        causes = {row[select.VERSION_ROW]: row[_ENDED_BY] for row in rows if row[_ENDED_BY]}
        ended = {row[select.VERSION_ROW]: row[_KEY] for row in rows if row[_ENDED_BY] == END}
        if not ended:
            return causes
        with self._db.reading() as connection:
            found = history.ends_of(connection, ended)
            reasons = history.reasons_of(connection, set(found.values()))
        if len(found) < len(ended):
            with self._archive.reading(everything, nothing) as files:
                found = _united(history.ends_of(connection, ended) for connection in files.all)
                reasons = history.reasons_of(files.live, set(found.values()))
        return causes | {
            row: f'{END}: {reason}'
            for row, key in ended.items()
            if (reason := reasons.get((found.get(row, 0), key)))
        }

    def episodes_said(self, rows: Sequence[ItemRow]) -> dict[int, str]:
        """Return the episode of each item row that was stated in one, by version row."""
        # Where there never was an episode, only the first answer after a commit looks for one.
        state = self._transactions.epoch, self.sequence
        if not rows or self._without_episodes == state:
            return {}
        wanted = {row[select.ASSERTION_ID] for row in rows}
        with self._db.reading() as connection:
            found = said_in(connection, wanted) if any_episode(connection) else None
        if found is None:
            if self._transactions.is_only_writer:
                self._without_episodes = state
            return {}
        if len(found) < len(wanted):
            with self._archive.reading(everything, nothing) as files:
                for one in files.all:
                    found |= said_in(one, wanted)
        episodes = ((row[select.VERSION_ROW], found.get(row[select.ASSERTION_ID])) for row in rows)
        return {version_row: name for version_row, name in episodes if name}

    def helpfulness(self, rows: Sequence[ItemRow]) -> dict[int, Helpfulness]:
        """Return the counts of item rows, by version row; of those with no count, none."""
        state = self._transactions.epoch, self._transactions.unnumbered
        if not rows or self._without_helpfulness == state:
            return {}
        with self._db.reading() as connection:
            if any_helpfulness(connection):
                return helpfulness_of(connection, rows)
        if self._transactions.is_only_writer:
            self._without_helpfulness = state
        return {}

    def amount(self, kinds: Collection[str], scope: Mapping[str, str] | None) -> KindSize:
        """Return how much of some kinds is at hand, perhaps only of one scope."""
        with self._db.reading() as connection:
            return amount_at_hand(connection, kinds, scope, holding=self._transactions.path is None)

    def consolidable(
        self,
        before_ns: int,
        limit: int,
        *,
        now_ns: int,
        scope: Mapping[str, str] | None,
        after: tuple[int, int],
        open_episode: str,
    ) -> list[ConsolidationCandidate]:
        """Return happenings that hold now, oldest first; see `candidates.consolidable`."""
        with self._db.reading() as connection:
            return consolidable(
                connection,
                before_ns,
                limit,
                now_ns=now_ns,
                scope=scope,
                after=after,
                open_episode=open_episode,
            )

    def maps(self) -> list[str]:
        """Return the maps that were current or written to."""
        with self._db.reading() as connection:
            return list(connection.execute(sa.select(known_map.c.map_id)).scalars())

    def counts(self) -> dict[str, int]:
        """Return the number of open versions by kind."""
        with self._db.reading() as connection:
            counts: dict[str, int] = json.loads(get_state(connection, 'counts', b'{}'))
        return counts


_SPATIAL = """
    SELECT v.version_row, v.spatial_id, s.map_id, s.frame_id, s.x, s.y, s.z,
           v.valid_from_ns, v.valid_to_ns, v.from_seq, v.to_seq
    FROM version AS v JOIN spatial AS s ON s.spatial_id = v.spatial_id
"""


def _order(one: RankedRow) -> tuple[float, int, str]:
    return -(one.text_rank or 0.0), -one.row[select.VALID_FROM], one.row[select.ID]


def _summed(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def _united(parts: Iterable[Mapping[int, T]]) -> dict[int, T]:
    return {number: value for part in parts for number, value in part.items()}
