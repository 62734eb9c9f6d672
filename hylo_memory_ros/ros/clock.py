"""Clock checks: stamps against the node's clock, and the clock against the memory file."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hylo_memory_ros.parameters import NodeConfig

__all__ = ['StampWatch', 'check_clock']

logger = logging.getLogger(__name__)

FAR_S = 86_400.0


class StampWatch:
    """Warns once when a received stamp lies more than a day away from the node's clock.

    Parameters
    ----------
    clock : callable
        The node's clock, nanoseconds; 0 while it has not started.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._warned = False

    def check(self, stamp_ns: int | None, place: str) -> None:
        """Compare a stamp with the clock.

        Parameters
        ----------
        stamp_ns : int or None
            Nanoseconds; None or 0: not set.
        place : str
            Where it was found, for the warning.
        """
        if self._warned or not stamp_ns or not (now_ns := self._clock()):
            return
        apart_s = (stamp_ns - now_ns) / 1e9
        if abs(apart_s) > FAR_S:
            self._warned = True
            # Mostly a recording that is replayed against the wall clock.
            logger.warning(
                '%s: stamp %.3f s lies %.0f s %s the clock of the node; in a replay, set use_sim_time',
                place,
                stamp_ns / 1e9,
                abs(apart_s),
                'before' if apart_s < 0 else 'after',
            )


def check_clock(config: NodeConfig, recorded_ns: int, now_ns: int) -> str:
    """Return a warning when the clock lies far behind the memory file; empty: it does not.

    A file opened before the clock has started can only be compared afterwards.

    Parameters
    ----------
    config : NodeConfig
        How far behind is accepted.
    recorded_ns : int
        The last record when the file was opened, nanoseconds.
    now_ns : int
        The node's time, nanoseconds; 0 while its clock has not started.
    """
    ahead_s = (recorded_ns - now_ns) / 1e9
    if not now_ns or config.memory.accept_older_clock or ahead_s <= config.memory.max_clock_step_back_s:
        return ''
    return (
        f'clock: the last record of {config.database_path} lies {ahead_s:.0f} s ahead of it, more than '
        f'max_clock_step_back_s {config.memory.max_clock_step_back_s:g}, and until the clock has passed that '
        'everything is recorded at that time: is it the right file? If so, set accept_older_clock'
    )
