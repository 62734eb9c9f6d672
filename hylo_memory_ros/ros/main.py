"""Entry point of the node's process: signal handling before the slow imports.

Signals are only recorded: running work is finished, and the memory is closed in order.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from hylo_memory_ros.ros.transport import choose_transport

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Flag set by SIGINT and SIGTERM."""

    def __init__(self) -> None:
        self.requested = False

    def install(self) -> None:
        """Take SIGINT and SIGTERM; a second one changes nothing."""
        for number in SIGNALS:
            signal.signal(number, self._take)
        # The start script blocks them until here.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True

    def __call__(self) -> bool:
        """Return whether a stop was requested."""
        return self.requested


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until a signal or a lifecycle shutdown.

    Parameters
    ----------
    args : sequence of str, optional
        The command line; ``--ros-args`` and what follows are for ROS.

    Returns
    -------
    int
        0 after a signal or a lifecycle shutdown, 1 when ROS could not be started.
    """
    stop = Stop()
    stop.install()
    try:
        choose_transport(os.environ)
    except ValueError as exc:
        sys.stderr.write(f'hylo_memory: {exc}\n')
        return 1
    # Imported only now: it takes a second, in which a signal would end in a traceback.
    try:
        from hylo_memory_ros.ros.process import run  # noqa: PLC0415
    except ImportError as exc:
        # On a distribution with older libraries the bare error names neither the requirement nor the remedy.
        sys.stderr.write(
            f'hylo_memory: a library is missing or too old ({exc}). The node needs pydantic 2 and '
            'SQLAlchemy 2; see the README, "On a robot"\n'
        )
        return 1
    return run(list(sys.argv if args is None else args), stop)
