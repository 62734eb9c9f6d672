"""Budgets of consolidation, and reports of consolidation and retention."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator
from typing_extensions import Self

from hylo_memory_ros.model.validation import Contract


class Budget(Contract):
    """Limits of a memory, or of a part of it, outside the archive; at least one is given.

    Examples
    --------
    >>> Budget(items=1000).bytes is None
    True
    """

    items: Annotated[int, Field(ge=1, lt=2**63, strict=True)] | None = None
    """Most statements; None: any number."""
    bytes: Annotated[int, Field(ge=1, lt=2**63, strict=True)] | None = None
    """Most bytes that they take; None: any number."""

    if TYPE_CHECKING:

        def __init__(self, **data: Any) -> None: ...

    @model_validator(mode='after')
    def _limits(self) -> Self:
        if self.items is None and self.bytes is None:
            raise ValueError('budget: neither items nor bytes is given')
        return self

    def excess(self, items: int, size: int) -> tuple[int, int]:
        """Return by how many statements and bytes so much is over it; 0: it is not."""
        over = (
            0 if most is None else max(held - most, 0)
            for held, most in ((items, self.items), (size, self.bytes))
        )
        items_over, bytes_over = over
        return items_over, bytes_over

    def holds(self, items: int, size: int) -> bool:
        """Return True if a number of statements and bytes is within the budget."""
        return (self.items is None or items <= self.items) and (self.bytes is None or size <= self.bytes)


@dataclass(frozen=True, slots=True)
class Condensed:
    """One summary and the statements that it replaces."""

    id: str
    """The statement that stands for them."""
    ids: tuple[str, ...]
    """Those that it stands for, in order of world time."""


@dataclass(frozen=True, slots=True)
class ConsolidationReport:
    """Result of one consolidation, or of its dry run."""

    consolidation_id: str = ''
    """Its name, by which it can be reverted; empty: it changed no statement, or was a dry run."""
    dry_run: bool = False
    """Whether this only tells what would be done."""
    cancelled: bool = False
    """Whether it was ended before its end; what it tells of was done."""
    met: bool = True
    """Whether what is at hand is within the budget now."""
    merged: tuple[Condensed, ...] = ()
    """Near duplicates that became one."""
    summarized: tuple[Condensed, ...] = ()
    """Groups that became a summary."""
    aged: tuple[str, ...] = ()
    """Ids of the statements that went into the archive."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Summaries that were not made although planned, by id, and why."""
    items_before: int = 0
    """Statements at hand before, in the scope of the request."""
    items_after: int = 0
    """Statements at hand afterwards."""
    bytes_before: int = 0
    """Bytes that those before took."""
    bytes_after: int = 0
    """Bytes that those afterwards take."""
    digest_before: str = ''
    """Snapshot hash before."""
    digest_after: str = ''
    """Snapshot hash afterwards; of a dry run, the one before."""
    hash_changed: bool = False
    """Whether it changes the snapshot hash: a merge or summary does, the archive does not."""
    sequence: int = 0
    """The newest transaction afterwards."""

    def as_dict(self, most: int | None = None) -> dict[str, Any]:
        """Return it in terms of JSON, how long its lists are, and of each at most so many."""
        report = _as_dict(self, ('merged', 'summarized', 'aged'), most)
        for name in ('merged', 'summarized'):
            report[name] = [{'id': group.id, 'ids': group.ids} for group in report[name]]
        return report


@dataclass(frozen=True, slots=True)
class Reversion:
    """Result of the reversal of a consolidation."""

    consolidation_id: str
    """The consolidation."""
    restored: tuple[str, ...] = ()
    """Statements that hold again."""
    withdrawn: tuple[str, ...] = ()
    """Summaries that were taken out."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Summaries that stay as they are, by id, and why."""
    digest: str = ''
    """Snapshot hash afterwards."""
    sequence: int = 0
    """The newest transaction afterwards."""

    def as_dict(self, most: int | None = None) -> dict[str, Any]:
        """Return it in terms of JSON, how long its lists are, and of each at most so many."""
        return _as_dict(self, ('restored', 'withdrawn'), most)


def _as_dict(report: Any, lists: Collection[str], most: int | None) -> dict[str, Any]:
    values = {item.name: getattr(report, item.name) for item in fields(report)}
    counts = {f'{name}_count': len(values[name]) for name in lists}
    return {**values, **{name: values[name][:most] for name in lists}, **counts}


@dataclass(frozen=True, slots=True)
class Fill:
    """Fill level of one kind of memory.

    Examples
    --------
    >>> fill = Fill('episodic', items=850, bytes=500_000, max_items=1000)
    >>> fill.part, str(fill), fill.reached(0.8)
    (0.85, '850 of 1000 items, 500000 bytes', ('episodic: 850 of 1000 items (85 %)',))
    """

    kind: str
    """The kind."""
    items: int
    """Statements at hand."""
    bytes: int
    """What they take, about."""
    max_items: int = 0
    """Most statements; 0: any number."""
    max_bytes: int = 0
    """Most bytes; 0: any number."""

    def _limits(self) -> Iterator[tuple[str, int, int]]:
        yield 'items', self.items, self.max_items
        yield 'bytes', self.bytes, self.max_bytes

    @property
    def part(self) -> float:
        """Used share of the limits, the greater of both; above 1: over a limit; 0.0: no limit is set."""
        return max((held / limit for _, held, limit in self._limits() if limit), default=0.0)

    def reached(self, part: float) -> tuple[str, ...]:
        """Return a sentence for each limit of which at least a part is used."""
        return tuple(
            f'{self.kind}: {held} of {limit} {unit} ({held / limit:.0%})'.replace('%', ' %')
            for unit, held, limit in self._limits()
            if limit and held >= part * limit
        )

    def __str__(self) -> str:
        """Return it in words."""
        return ', '.join(
            f'{held} of {limit} {unit}' if limit else f'{held} {unit}' for unit, held, limit in self._limits()
        )


@dataclass(frozen=True, slots=True)
class KindRetention:
    """Actions that brought one kind within its limits."""

    before: Fill
    """How full it was."""
    after: Fill
    """How full it is now."""
    consolidation: ConsolidationReport | None = None
    """How it was consolidated; None: it was not over a limit."""
    aged: int = 0
    """Statements that went into the archive for their age alone."""
    problem: str = ''
    """Which limit cannot be held, and why; empty: all are."""


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """Result of one retention run."""

    kinds: tuple[KindRetention, ...] = ()
    """One for each kind that has limits."""
    cancelled: bool = False
    """Whether it was ended before its end; what it tells of was done."""

    @property
    def problems(self) -> tuple[str, ...]:
        """The limits that cannot be held."""
        return tuple(kind.problem for kind in self.kinds if kind.problem)
