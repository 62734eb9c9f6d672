"""What perception asks of the memory; `MemoryService` is one, tests have a smaller one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sqlalchemy import Connection

from hylo_memory_ros.model import CorrectionResult, MemoryItem, MemoryQuery, QueryResult, Removal, WriteResult
from hylo_memory_ros.perception.corrections.trajectory import RigidCorrection, Trajectory
from hylo_memory_ros.perception.settings import LandmarkSettings

__all__ = ['MemoryPort']


class MemoryPort(Protocol):
    """A memory that stores items, and side tables in the same transaction."""

    @property
    def epoch(self) -> str:
        """Name of the history that the sequences belong to; a restore begins a new one."""
        ...

    @property
    def sequence(self) -> int:
        """Number of the newest transaction."""
        ...

    def write(
        self,
        items: Sequence[MemoryItem],
        *,
        dry_run: bool = False,
        durable: bool = True,
        within: Callable[[Connection, int], None] | None = None,
    ) -> WriteResult:
        """Store items, and what `within` does with the connection, in one transaction.

        An exception out of `within` undoes all of it and reaches the caller.
        """
        ...

    def query(self, query: MemoryQuery) -> QueryResult:
        """Return the hits of a query."""
        ...

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
        """End what holds under each key at a stated world time, perhaps because it proves to be another."""
        ...

    def side_write(self, within: Callable[[Connection], None], *, durable: bool = False) -> None:
        """Read or change side tables in a transaction that takes no sequence."""
        ...

    def correct_map(
        self,
        correction: RigidCorrection | Trajectory,
        *,
        map_id: str | None = None,
        landmarks: LandmarkSettings | None = None,
        actor: str = '',
        dry_run: bool = False,
    ) -> CorrectionResult:
        """Move all that is remembered in a map, its landmarks too."""
        ...

    def revert_correction(
        self,
        correction_id: str,
        *,
        landmarks: LandmarkSettings | None = None,
        actor: str = '',
        dry_run: bool = False,
    ) -> CorrectionResult:
        """Put back what a correction replaced."""
        ...
