"""Plans and results of map corrections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hylo_memory_ros.model import MemoryItem, Pose

__all__ = [
    'CorrectionPlan',
    'CorrectionSummary',
    'PlacedStatement',
    'ReversalPlan',
    'StoredCorrection',
]


class PlacedStatement(NamedTuple):
    """A statement with a pose."""

    key: str | None
    """Key of its item."""
    kind: str
    """Kind of its item."""
    valid_from_ns: int
    """Start of its validity, nanoseconds."""
    pose: Pose
    """Its pose."""


@dataclass(frozen=True, slots=True, eq=False)
class CorrectionPlan:
    """Changes that one correction makes to the statements of a map."""

    map_id: str
    """The map."""
    frame_id: str
    """Only poses in this frame move."""
    kind: str
    """``rigid`` or ``path``."""
    detail: Mapping[str, Any]
    """The request, JSON."""
    move: Callable[[Sequence[PlacedStatement]], Sequence[Pose]]
    """Returns the new pose of each statement."""
    merged: frozenset[str] = frozenset()
    """Keys of landmarks that were merged into others."""
    items: Sequence[MemoryItem] = ()
    """New statements, such as those of landmarks that were split off."""
    merges: int = 0
    """Number of merged landmarks, unwritten ones included."""
    splits: int = 0
    """Number of landmarks that were begun."""


class StoredCorrection(NamedTuple):
    """Record of a correction."""

    sequence: int
    correction_id: str
    map_id: str
    frame_id: str
    kind: str
    reverts: int | None
    undo: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class ReversalPlan:
    """Reversal of a correction."""

    former: StoredCorrection
    """The correction."""
    kept_keys: frozenset[str] = frozenset()
    """Keys of landmarks that stay unchanged, including those that the correction began."""
    remark: str = ''
    """Remark for the caller."""


@dataclass(frozen=True, slots=True)
class CorrectionSummary:
    """Changes that a correction or its reversal made."""

    correction_id: str
    moved: int = 0
    """Versions with another pose."""
    merged: int = 0
    """Keys that were merged into others."""
    split: int = 0
    """Keys that were begun."""
    remark: str = ''
    """Remark for the caller."""
