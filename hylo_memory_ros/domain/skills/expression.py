"""What a predicate consists of. Terms have a value, conditions are true or not.

Every part is hashable, and equal to another that means the same, so that it is evaluated once.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    'All',
    'AnyOf',
    'Arithmetic',
    'Call',
    'Compare',
    'Condition',
    'Constant',
    'Holds',
    'ListOf',
    'Not',
    'Path',
    'Term',
]


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    type: str
    """``number``, ``string``, ``bool`` or ``null``: 1 and true would be equal otherwise."""
    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Path:
    """A place in the state."""

    steps: tuple[str | int, ...]
    """Names and positions from the top."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of terms."""

    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function of terms."""

    function: str
    arguments: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two numbers joined."""

    operator: str
    """``+``, ``-``, ``*`` or ``/``."""
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Compare:
    """Two terms compared."""

    operator: str
    """``==``, ``<``, ``<=``, ``>``, ``>=`` or ``in``."""
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Holds:
    """A term that must be true or false itself."""

    term: Term


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class All:
    """Conditions of which each must hold."""

    conditions: frozenset[Condition]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Conditions of which one must hold."""

    conditions: frozenset[Condition]


Term = Constant | Path | ListOf | Call | Arithmetic
Condition = Compare | Holds | Not | All | AnyOf
