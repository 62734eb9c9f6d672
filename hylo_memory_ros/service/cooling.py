"""Moves into cold storage, one slice after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hylo_memory_ros.store.cold.moving import Cooled

__all__ = ['slices']

_MOST_TRIES = 3


def slices(cool: Callable[[], Cooled], limit: int) -> Iterator[Cooled]:
    """Yield what each slice moves, until all has gone that goes.

    Parameters
    ----------
    cool : callable
        Moves one slice.
    limit : int
        Most statements of one; a slice of fewer is the last.
    """
    tries = _MOST_TRIES
    while tries:
        cooled = cool()
        yield cooled
        if 0 < cooled.assertions < limit:
            return
        # Nothing: there is nothing left, or somebody wrote to it while it was being copied.
        tries -= not cooled.assertions
