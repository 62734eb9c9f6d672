"""Records that cross the border between perception and the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from numpy import int64
from numpy.typing import NDArray

__all__ = [
    'AssociationReceipt',
    'Block',
    'ConsumedBlock',
    'InputRow',
    'ObservationRecord',
    'Removals',
    'Removed',
]


class Removals(NamedTuple):
    """Removals after a transaction, and the keys that they may concern."""

    happened: bool
    """Whether there was any operation other than a write."""
    keys: frozenset[str] | None
    """Keys to check; None: all."""
    moved: bool = False
    """Whether a map was corrected, so that landmarks in memory are outdated."""


class Removed(NamedTuple):
    """A landmark whose item was removed."""

    key: str
    """Key of the landmark."""
    at_ns: int | None
    """Time of the forget, service clock; None: purged, nothing may be left of it."""


class InputRow(NamedTuple):
    """Stored state of an input."""

    input_id: int
    """Its number in the blocks."""
    newest_ns: int | None
    """Stamp of the newest consumed message; None: there is none."""
    dropped: int
    """Messages that were lost, ever."""
    late: int
    """Messages that came too late, ever."""


class Block(NamedTuple):
    """Consumed messages of one input, to be stored."""

    input_id: int
    """The input."""
    stamps_ns: Sequence[int]
    """Nanoseconds, ascending, length n >= 1."""
    digests: Sequence[int]
    """32-bit digests, length n."""
    landmarks: Sequence[NDArray[int64]]
    """Number of the landmark of each detection of each message, 0 for none."""


class ConsumedBlock(NamedTuple):
    """Consumed messages of one input, as stored."""

    first_ns: int
    """Stamp of the first."""
    last_ns: int
    """Stamp of the last."""
    messages: frozenset[tuple[int, int]]
    """Stamp and digest of each."""


class ObservationRecord(NamedTuple):
    """One detection and its landmark."""

    input: str
    """Name of the input."""
    stamp_ns: int
    """Stamp of the message."""
    detection: int
    """Its index in the message."""
    landmark: str | None
    """Key of the landmark that it was assigned to, or None."""


class AssociationReceipt(NamedTuple):
    """A receipt that is to be stored."""

    id: str
    """Its id."""
    map_id: str
    """Map of the decision."""
    stamp_ns: int
    """Stamp of the decision, nanoseconds."""
    keys: Sequence[str]
    """Keys of all landmarks in it."""
    body: str
    """JSON text."""
