"""Query specification for SQL: a query with its valid time and its transaction time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa

from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.storage.query.links import Versions

World = Literal['at', 'any', 'unended']


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """A query with its place on both time axes."""

    query: MemoryQuery
    """The filters; `near` is tested by the spatial index."""
    at_ns: int
    """World time of the query."""
    world: World = 'at'
    """``at``: holds at `at_ns`; ``any``: whenever; ``unended``: holds at `at_ns` or later."""
    seq: int | None = None
    """Believed as of this sequence; None: believed now."""
    ever_believed: bool = False
    """Lift the filter on belief (purge)."""
    clock: str = 'wall'
    """The clock that event times are compared on."""
    space: str = ''
    """Only what has a vector in this space; empty: all."""
    helpfulness: bool = False
    """Whether candidates carry their score of helpfulness."""
    gated: bool = True
    """Whether the skill filter applies; False where there are no skills."""
    fitting: str | None = None
    """JSON array of the assertions of skills whose status and preconditions match the query; None: the
    query has no state."""
    archived: bool = False
    """Sent to an archive file, with the main file attached."""
    reached: tuple[str, ...] | None = None
    """Version rows reached through links, one JSON array per chain; None: not resolved yet."""

    @property
    def reads_helpfulness(self) -> bool:
        """True if the statistics of helpfulness filter or are returned."""
        return self.helpfulness or self.query.min_helpfulness is not None

    @property
    def words(self) -> str | None:
        """The full-text expression of its text; None: no text, or one without a word."""
        return None if self.query.text is None else search_words(self.query.text)


def search_words(text: str) -> str | None:
    """Return the full-text expression of a text: all its words, no operators; None: no word.

    Examples
    --------
    >>> search_words('red OR mug*')
    '"red" AND "OR" AND "mug*"'
    >>> search_words('*** --') is None
    True
    """
    words = text.replace('\0', ' ').replace('"', '""').split()
    return ' AND '.join(f'"{word}"' for word in words if any(map(str.isalnum, word))) or None


def believed(versions: Versions, spec: QuerySpec) -> sa.ColumnElement[bool]:
    """Return whether a version is believed as of the sequence of a query."""
    if spec.ever_believed:
        return sa.true()
    to_seq: sa.ColumnElement[int] = versions.c.to_seq
    still = to_seq.is_(None)
    if spec.seq is None:
        return still
    from_seq: sa.ColumnElement[int] = versions.c.from_seq
    seq = sa.bindparam('seq', spec.seq, type_=sa.BigInteger)
    return (from_seq <= seq) & (still | (to_seq > seq))


def holds(versions: Versions, spec: QuerySpec) -> sa.ColumnElement[bool]:
    """Return whether a version holds at the world time of a query."""
    if spec.world == 'any':
        return sa.true()
    valid_to_ns: sa.ColumnElement[int] = versions.c.valid_to_ns
    at_ns = sa.bindparam('at_ns', spec.at_ns, type_=sa.BigInteger)
    ends_later = valid_to_ns.is_(None) | (valid_to_ns > at_ns)
    if spec.world == 'unended':
        return ends_later
    valid_from_ns: sa.ColumnElement[int] = versions.c.valid_from_ns
    return ends_later & (valid_from_ns <= at_ns)
