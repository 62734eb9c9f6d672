"""Ports of perception: the memory that landmarks are written to, and the repositories of their state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from hylo_memory_ros.model import CorrectionResult, MemoryItem, MemoryQuery, QueryResult, Removal, WriteResult
from hylo_memory_ros.perception.corrections.trajectory import RigidCorrection, Trajectory
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.storage.landmarks import (
    AssociationReceipt,
    Block,
    ConsumedBlock,
    InputRow,
    Removals,
    Removed,
)

Columns = Mapping[str, Sequence[Any]]


class LandmarkPort(Protocol):
    """State of landmarks between two runs."""

    def load(self, map_id: str) -> Columns:
        """Return all landmarks of a map, column by column, ordered by number."""

    def save(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert or replace landmarks by their number."""

    def delete(self, numbers: Collection[int]) -> None:
        """Delete landmarks by their number."""

    def numbers(self, map_id: str) -> set[int]:
        """Return the numbers of all landmarks of a map."""

    def next_number(self) -> int:
        """Return a number that no landmark has or had."""

    def save_next_number(self, number: int) -> None:
        """Store the number of the next new landmark."""

    def latest_sequence(self) -> int:
        """Return the number of the newest transaction in this view."""

    def removals_since(self, sequence: int, own: Collection[int] = ()) -> Removals:
        """Return the removals after a transaction, except those in own transactions."""

    def removed(self, map_id: str, keys: Collection[str] | None = None) -> list[Removed]:
        """Return written landmarks without a current item, perhaps out of given keys."""


class SightingPort(Protocol):
    """Keyframes and sightings between two runs."""

    def load_keyframes(self, map_id: str) -> Columns:
        """Return the keyframes of a map, column by column, ordered by number."""

    def save_keyframes(self, map_id: str, rows: Sequence[tuple[int, int, bytes]]) -> None:
        """Insert or replace keyframes of a map: number, stamp, pose."""

    def load(self, map_id: str) -> Columns:
        """Return the sightings of all landmarks of a map, column by column."""

    def save(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert or replace sightings."""

    def delete(self, keys: Collection[tuple[int, int, int]]) -> None:
        """Delete sightings by landmark, keyframe and origin."""


class LedgerPort(Protocol):
    """Consumed messages and the assignments of their detections."""

    def load_inputs(self) -> dict[str, InputRow]:
        """Return the stored state of each input, by name."""

    def input_number(self, name: str) -> int:
        """Return the number of an input; a new input gets one."""

    def save_counts(self, name: str, dropped: int, late: int) -> None:
        """Store the counts of an input."""

    def add(self, block: Block) -> int:
        """Store consumed messages; return the size of their assignments, bytes."""

    def blocks_at(self, input_id: int, stamp_ns: int) -> list[ConsumedBlock]:
        """Return the blocks of an input whose stamps include a stamp."""

    def assignment_span(self) -> tuple[int, int | None]:
        """Return the size of all assignments, bytes, and the stamp of the oldest."""

    def prune(self, before_ns: int, excess_bytes: int) -> int:
        """Delete the oldest assignments; return the freed bytes."""


class ReceiptPort(Protocol):
    """Receipts of data association."""

    def save(self, receipts: Sequence[AssociationReceipt], most: int) -> None:
        """Store receipts, and delete the oldest beyond a number."""


class StatePort(Protocol):
    """Repositories of perception over one consistent state, or in one transaction."""

    @property
    def landmarks(self) -> LandmarkPort:
        """State of landmarks."""

    @property
    def sightings(self) -> SightingPort:
        """Keyframes and sightings."""

    @property
    def ledger(self) -> LedgerPort:
        """Consumed messages and assignments."""

    @property
    def association_receipts(self) -> ReceiptPort:
        """Receipts of data association."""


class MemoryPort(Protocol):
    """A memory that stores items, and the state of perception in the same transaction."""

    @property
    def epoch(self) -> str:
        """Name of the history that the sequences belong to; a restore begins a new one."""

    @property
    def sequence(self) -> int:
        """Number of the newest transaction."""

    def write(
        self,
        items: Sequence[MemoryItem],
        *,
        dry_run: bool = False,
        durable: bool = True,
        within: Callable[[StatePort], None] | None = None,
    ) -> WriteResult:
        """Store items, and the state that `within` saves, in one numbered transaction.

        An exception raised by `within` rolls everything back and reaches the caller.
        """

    def query(self, query: MemoryQuery) -> QueryResult:
        """Return the hits of a query."""

    def end(
        self,
        keys: Sequence[str],
        at_ns: Sequence[int],
        *,
        map_id: str,
        reason: str,
        merged_into: str,
        durable: bool,
    ) -> Removal:
        """End the items of keys at given world times."""

    def read(self) -> AbstractContextManager[StatePort]:
        """Open a view of one consistent state, read-only, for the block."""

    def begin_unnumbered(self, *, durable: bool = False) -> AbstractContextManager[StatePort]:
        """Begin a transaction that takes no sequence."""

    def correct_map(
        self,
        correction: RigidCorrection | Trajectory,
        *,
        map_id: str | None = None,
        landmarks: LandmarkSettings | None = None,
        actor: str = '',
        dry_run: bool = False,
    ) -> CorrectionResult:
        """Move all items of a map, and its landmarks."""

    def revert_correction(
        self,
        correction_id: str,
        *,
        landmarks: LandmarkSettings | None = None,
        actor: str = '',
        dry_run: bool = False,
    ) -> CorrectionResult:
        """Restore the coordinates that a correction replaced."""
