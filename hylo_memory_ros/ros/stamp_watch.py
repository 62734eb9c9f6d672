"""Stamps of another age: a replay against the wall clock, mostly, and told of once."""

from __future__ import annotations

import logging
from collections.abc import Callable

__all__ = ['StampWatch']

logger = logging.getLogger(__name__)

FAR_S = 86_400.0


class StampWatch:
    """Warns once when what is received was stamped more than a day away from the node's clock.

    Parameters
    ----------
    clock : callable
        The node's clock, nanoseconds; 0 while it has not started.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._told = False

    def check(self, stamp_ns: int | None, what: str) -> None:
        """Look at a stamp.

        Parameters
        ----------
        stamp_ns : int or None
            Nanoseconds; None or 0: there is none.
        what : str
            Where it was found, for the warning.
        """
        if self._told or not stamp_ns or not (now_ns := self._clock()):
            return
        apart_s = (stamp_ns - now_ns) / 1e9
        if abs(apart_s) > FAR_S:
            self._told = True
            logger.warning(
                '%s: stamp %.3f s lies %.0f s %s the clock of the node; in a replay, set use_sim_time',
                what,
                stamp_ns / 1e9,
                abs(apart_s),
                'before' if apart_s < 0 else 'after',
            )
