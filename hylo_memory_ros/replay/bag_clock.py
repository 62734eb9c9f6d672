"""The clock of a replay: the time of the bag."""

from __future__ import annotations

__all__ = ['BagClock']


class BagClock:
    """Stands at the newest message that was read; a second loop sets it back.

    Parameters
    ----------
    start_ns : int
        Where it begins, nanoseconds.
    """

    def __init__(self, start_ns: int) -> None:
        self.now_ns = start_ns
        """The time, nanoseconds."""

    def __call__(self) -> int:
        """Return the time."""
        return self.now_ns
