"""Retention: how full each kind of memory is, and what was done to keep it within its limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hylo_memory_ros.model.consolidation import ConsolidationReport

__all__ = ['Fill', 'KindRetention', 'RetentionReport']


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

    def _limited(self) -> Iterator[tuple[str, int, int]]:
        yield 'items', self.items, self.max_items
        yield 'bytes', self.bytes, self.max_bytes

    @property
    def part(self) -> float:
        """Used share of the limits, the greater of both; above 1: over a limit; 0.0: no limit is set."""
        return max((held / limit for _, held, limit in self._limited() if limit), default=0.0)

    def reached(self, part: float) -> tuple[str, ...]:
        """Return a sentence for each limit of which at least a part is used."""
        return tuple(
            f'{self.kind}: {held} of {limit} {unit} ({held / limit:.0%})'.replace('%', ' %')
            for unit, held, limit in self._limited()
            if limit and held >= part * limit
        )

    def __str__(self) -> str:
        """Return it in words."""
        return ', '.join(
            f'{held} of {limit} {unit}' if limit else f'{held} {unit}'
            for unit, held, limit in self._limited()
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
        return tuple(one.problem for one in self.kinds if one.problem)
