"""Consolidation: less at hand, nothing lost; see `Consolidating.consolidate`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from hylo_memory_ros.errors import UnsupportedError
from hylo_memory_ros.model import Budget, ConsolidationReport, MemoryKind, Reversion
from hylo_memory_ros.service.parts import Parts

__all__ = ['Consolidating']


class Consolidating(Parts):
    """The operations of a memory that bring it within a budget, and take that back."""

    def consolidate(
        self,
        scope: Mapping[str, str] | None = None,
        budget: Budget | None = None,
        *,
        kinds: Collection[MemoryKind] | None = None,
        dry_run: bool = False,
        tell: Callable[[float, str], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        actor: str = '',
    ) -> ConsolidationReport:
        """Bring what is at hand in a scope within a budget, in slices between which others write."""
        raise UnsupportedError('consolidate: not part of this version')

    def revert_consolidation(self, consolidation_id: str, *, actor: str = '') -> Reversion:
        """Let what a consolidation ended hold again, and take its summaries out."""
        raise UnsupportedError('revert_consolidation: not part of this version')
