"""Ports of the durable memory, as protocols, one for each consumer.

All times are integer nanoseconds; all methods may be called from any thread. Refusals are subclasses of
`HyloMemoryError`, and after one nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from hylo_memory_ros.domain.consolidation.planner import ConsolidationCandidate
    from hylo_memory_ros.model import (
        Changes,
        Helpfulness,
        MemoryItem,
        Removal,
        VerifyReport,
        Version,
        WriteResult,
    )
    from hylo_memory_ros.storage.archive.archive import ArchiveInfo
    from hylo_memory_ros.storage.archive.mover import Archivable, ArchivedSlice
    from hylo_memory_ros.storage.changeset import CommitResult
    from hylo_memory_ros.storage.consolidation.candidates import KindSize
    from hylo_memory_ros.storage.query.select import CandidateRows, RankedRow
    from hylo_memory_ros.storage.query.spec import QuerySpec
    from hylo_memory_ros.storage.statements.embeddings import VectorTuple, VersionTuple
    from hylo_memory_ros.storage.statements.mapper import ItemRow
    from hylo_memory_ros.storage.statements.removal import Ending
    from hylo_memory_ros.storage.unit_of_work import ReadView, UnitOfWork, UnnumberedUnitOfWork


Within = Callable[['UnitOfWork'], None]
"""Saves further state in the same transaction."""

SpatialTuple = tuple[int, int, str, str, float, float, float, int, int | None, int, int | None]
"""version row, spatial id, map, frame, x, y, z, valid from, valid to, from seq, to seq."""


class QuerySource(Protocol):
    """Statements as the retrieval engine asks for them; each method reads one consistent state."""

    @property
    def epoch(self) -> str:
        """Name of the history."""

    @property
    def sequence(self) -> int:
        """Number of the newest transaction."""

    def now_ns(self) -> int:
        """Return the highest service time seen."""

    def page(self, spec: QuerySpec, limit: int, offset: int = 0) -> tuple[list[RankedRow], int]:
        """Return matches in order, and the sequence that they are of."""

    def count(self, spec: QuerySpec) -> int:
        """Return how many match; one more than the limit of exact totals means "more"."""

    def matching(self, spec: QuerySpec, among: Sequence[int] | None) -> dict[int, float | None]:
        """Return the version rows that match, perhaps out of given ones, each with its text rank."""

    def fetch(self, version_rows: Sequence[int]) -> dict[int, ItemRow]:
        """Return item rows by version row."""

    def vectors(self, rows: Sequence[ItemRow]) -> dict[int, dict[str, tuple[float, ...]]]:
        """Return the vectors of item rows, by version row and space."""

    def episodes_said(self, rows: Sequence[ItemRow]) -> dict[int, str]:
        """Return the episode of each item row that was stated in one, by version row."""

    def helpfulness(self, rows: Sequence[ItemRow]) -> dict[int, Helpfulness]:
        """Return what is counted of item rows, by version row; of what nothing is, none."""

    def excluded_by_time(self, spec: QuerySpec, among: Sequence[int] | None = None) -> dict[str, int]:
        """Count the believed matches that do not hold at the time of a query, by reason."""

    def candidates(self, spec: QuerySpec, among: Sequence[int] | None = None) -> CandidateRows:
        """Return all that matches, perhaps out of given version rows, with what can be ranked."""

    def estimates(self, spec: QuerySpec, most: int) -> dict[str, int]:
        """Return about how many statements pass each filter that has an index, counted up to a limit."""

    def excluded_by_statistics(self, spec: QuerySpec, among: Sequence[int] | None = None) -> dict[str, int]:
        """Count what only the statistics of its landmark exclude, by reason."""

    def excluded_skills(self, spec: QuerySpec) -> tuple[int, list[int]]:
        """Return how many matching skills are refused; with a caller's state also their assertions."""

    def any_stale(self) -> bool:
        """Return whether any landmark is stale."""

    def names_reached(self, spec: QuerySpec) -> set[tuple[str, str]]:
        """Return (name, map) of what the links of a query reach with at least one to spare."""

    def sequence_at(self, known_at_ns: int) -> int:
        """Return the last sequence recorded at or before a service time."""

    def purged_after(self, seq: int) -> int:
        """Return how many statements were deleted for good after a sequence."""


class IndexSource(Protocol):
    """Places and vectors as the indexes load them."""

    def spatial_batches(self, size: int) -> Iterator[list[SpatialTuple]]:
        """Yield every version that has a place, believed or not."""

    def vectors_of(self, space: str, assertions: Sequence[int]) -> dict[int, bytes]:
        """Return the float32 bytes of vectors by assertion; one that is gone is left out."""

    def vector_records(self, space: str) -> list[tuple[int, str, bytes]]:
        """Return assertion, item id and SHA-256 of every vector of a space, in order of the assertion."""

    def vector_batches(self, size: int) -> Iterator[list[VectorTuple]]:
        """Yield every vector, in order of its assertion."""

    def vector_version_batches(self, size: int) -> Iterator[list[VersionTuple]]:
        """Yield every version that has a vector, believed or not, in order of its row."""


class StatementSource(QuerySource, IndexSource, Protocol):
    """Everything that is read of statements."""

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
        """Return versions of an id or an identity in the order of belief."""

    def changes(self, after: int, limit: int) -> Changes:
        """Return the feed after a sequence."""

    def digest(self) -> str:
        """Return the snapshot hash."""

    def manifest(self) -> dict[str, Any]:
        """Return the snapshot hash and what it covers."""

    def verify(self) -> VerifyReport:
        """Recompute every timeline and hash."""

    def taken(self, ids: Collection[str]) -> set[str]:
        """Return which ids another statement has, if one were given them."""

    def archived_ids(self, ids: Collection[str]) -> set[str]:
        """Return which ids are those of statements in the archive."""

    def amount(self, kinds: Collection[str], scope: Mapping[str, str] | None) -> KindSize:
        """Return how much of some kinds is at hand, perhaps only of one scope."""

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
        """Return happenings that hold now, oldest first."""

    def maps(self) -> list[str]:
        """Return the maps that were current or written to."""

    def counts(self) -> dict[str, int]:
        """Return the number of open versions by kind."""


class ArchivePort(Protocol):
    """Moves of ended statements to the archive file and back; a move changes no answer and no hash."""

    def archivable(
        self,
        kinds: Collection[str] | None = None,
        scope: Mapping[str, str] | None = None,
        ended_before_ns: int | None = None,
        limit: int = 1000,
        *,
        after: int = 0,
    ) -> list[Archivable]:
        """Return identities with ended statements that may be archived, in order of their number."""

    def archivable_ids(self, identity_ids: Sequence[int]) -> dict[int, list[str]]:
        """Return the ids of what has ended of identities and may become archived, by identity."""

    def move(
        self, identity_ids: Sequence[int], *, ended_before_ns: int | None = None, limit: int = 128
    ) -> ArchivedSlice:
        """Move one slice of what has ended of identities to the archive; it changes no answer."""

    def restore(self, identity_ids: Sequence[int], *, limit: int = 128) -> ArchivedSlice:
        """Bring one slice of what is archived of identities back."""

    def info(self) -> ArchiveInfo | None:
        """Return what the archive file holds; None: there never was anything in it."""


class Store(Protocol):
    """A durable memory: every method is one transaction, or one consistent reading."""

    path: Path | None

    @property
    def reader(self) -> StatementSource:
        """Statements, for queries and indexes."""

    @property
    def archive(self) -> ArchivePort:
        """Moves to the archive file and back."""

    @property
    def epoch(self) -> str:
        """Name of the history."""

    @property
    def sequence(self) -> int:
        """Number of the newest transaction."""

    def now_ns(self) -> int:
        """Return the highest service time seen."""

    def clock_ns(self) -> int:
        """Return the service clock, which may lie behind the highest time seen."""

    def read(self) -> AbstractContextManager[ReadView]:
        """Open a view of one consistent state, read-only, for the block."""

    def begin(
        self, op: str, *, actor: str = '', durable: bool = True, dry_run: bool = False
    ) -> AbstractContextManager[UnitOfWork]:
        """Begin a numbered transaction: commit at a clean end of the block, else roll back."""

    def begin_unnumbered(self, *, durable: bool = False) -> AbstractContextManager[UnnumberedUnitOfWork]:
        """Begin a transaction that takes no sequence, for statistics, ledger and records."""

    def write(
        self,
        items: Sequence[MemoryItem],
        *,
        request_id: str | None = None,
        actor: str = '',
        dry_run: bool = False,
        durable: bool = True,
        within: Within | None = None,
    ) -> tuple[WriteResult, CommitResult | None]:
        """Store items in order, all or none; a known request gets its first answer again."""

    def forget(
        self, spec: QuerySpec, among: Sequence[int] | None, *, reason: str, actor: str, dry_run: bool
    ) -> tuple[Removal, CommitResult | None]:
        """End what matches at the service time."""

    def retract(
        self, spec: QuerySpec, among: Sequence[int] | None, *, reason: str, actor: str, dry_run: bool
    ) -> tuple[Removal, CommitResult | None]:
        """Withdraw what matches: it was never true."""

    def end(
        self,
        endings: Sequence[Ending],
        *,
        kind: str,
        reason: str,
        actor: str,
        dry_run: bool,
        durable: bool = True,
    ) -> tuple[Removal, CommitResult | None]:
        """End what holds at the stated world times."""

    def purge(
        self,
        spec: QuerySpec,
        among: Sequence[int] | None,
        unstored: Sequence[str] = (),
        *,
        reason: str,
        actor: str,
        dry_run: bool,
    ) -> tuple[Removal, CommitResult | None]:
        """Delete the identities of what matches, for good, and from every record what is named beside.

        Those are the ids of what goes too, but was in no file; they are counted.
        """

    def recall_episode(self, episode_id: str) -> None:
        """Bring back from the archive what was stated in an episode, and what its feed and verdicts name."""

    def copy(self, target: Path) -> None:
        """Copy the whole memory to a new file."""

    def restore(self, source: Path, ready: Callable[[ReadView], None] | None = None) -> CommitResult:
        """Put a verified copy in the place of the whole memory, and begin a new epoch.

        Parameters
        ----------
        ready : callable, optional
            Given the verified copy, before anything is replaced.
        """

    def close(self) -> None:
        """Close the store; safe to repeat."""
