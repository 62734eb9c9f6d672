"""Corrections and their reversals, made in a unit of work."""

from __future__ import annotations

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.corrections.apply import Edit, correct_assertions
from hylo_memory_ros.storage.corrections.records import CorrectionRepository, Moved
from hylo_memory_ros.storage.corrections.revert import Reversal, revert
from hylo_memory_ros.storage.statements.writer import resolved, write_items

__all__ = ['CorrectionWriter']


class CorrectionWriter(CorrectionRepository):
    """Corrections of maps in a numbered transaction."""

    def __init__(self, changeset: Changeset, config: MemoryConfig) -> None:
        super().__init__(changeset.connection)
        self._changeset = changeset
        self._config = config

    def apply(self, edit: Edit) -> Moved:
        """Move what was asserted in a map, and store the statements that the edit brings."""
        moved = correct_assertions(self._changeset, edit, self._config.identity_scope)
        ready = [resolved(item, self._changeset.recorded_at_ns) for item in edit.items]
        write_items(self._changeset, ready, self._config.identity_scope)
        return moved

    def revert(self, reversal: Reversal) -> Moved:
        """Put back the coordinates that a correction replaced."""
        return revert(self._changeset, reversal)
