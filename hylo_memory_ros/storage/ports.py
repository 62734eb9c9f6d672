"""Port of the retrieval engine: statements as it asks for them.

All times are integer nanoseconds; all methods may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hylo_memory_ros.model import Helpfulness
    from hylo_memory_ros.storage.query.select import CandidateRows, RankedRow
    from hylo_memory_ros.storage.query.spec import QuerySpec
    from hylo_memory_ros.storage.statements.mapper import ItemRow


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

    def endings(self, rows: Sequence[ItemRow]) -> dict[int, str]:
        """Return by what item rows were ended, ``forget`` or ``end`` with its reason, by version row."""

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

    def absences(self, spec: QuerySpec) -> list[str]:
        """Return a sentence for each value of a filter that no statement of any time has."""

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
