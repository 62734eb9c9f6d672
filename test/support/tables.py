"""Tables of an open memory, past its repositories: to plant a row, or to count what is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa

from hylo_memory_ros.service import MemoryService

T = TypeVar('T')


def read_tables(memory: MemoryService, act: Callable[[sa.Connection], T]) -> T:
    """Return what a function reads from one consistent state."""
    with memory.read() as view:
        return act(view._connection)


def write_tables(memory: MemoryService, act: Callable[[sa.Connection], T]) -> T:
    """Return what a function returns that changes tables in a transaction without a sequence."""
    with memory.begin_unnumbered() as uow:
        return act(uow._connection)
