"""What perception has to say, in order: items to be written, and what has ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.store.ending import Ending

__all__ = ['Phase', 'Statement', 'concerns', 'phases']

Statement = MemoryItem | Ending


class Phase(NamedTuple):
    """Statements that may be made in two strokes: all that is written, then all that ended."""

    items: list[MemoryItem]
    endings: list[Ending]


def concerns(statement: Statement) -> tuple[str, str]:
    """Return map and key of what a statement is about."""
    if isinstance(statement, Ending):
        return statement.map_id, statement.key
    return statement.scope.get('map_id', ''), statement.key or ''


def phases(statements: Iterable[Statement]) -> Sequence[Phase]:
    """Cut statements into phases.

    Only what is said of one thing at one time depends on the order, so a phase goes on until
    something is said of a thing that has ended in it.

    Examples
    --------
    >>> gone, back = Ending('cup', 5), MemoryItem(kind='spatial', key='cup', content='cup')
    >>> [(len(phase.items), len(phase.endings)) for phase in phases([back, gone, back, gone])]
    [(1, 1), (1, 1)]
    """
    found = [Phase([], [])]
    ended: set[tuple[str, str]] = set()
    for statement in statements:
        about = concerns(statement)
        if about in ended:
            found.append(Phase([], []))
            ended.clear()
        if isinstance(statement, Ending):
            found[-1].endings.append(statement)
            ended.add(about)
        else:
            found[-1].items.append(statement)
    return found
