"""A service clock that tests turn by hand."""

from __future__ import annotations

NS = 1_000_000_000


class ManualClock:
    """Returns the nanoseconds it was set to; `step_ns` is added after every look."""

    def __init__(self, seconds: float = 0.0, step_ns: int = 0) -> None:
        self.now_ns = round(seconds * NS)
        self.step_ns = step_ns

    def __call__(self) -> int:
        now_ns = self.now_ns
        self.now_ns += self.step_ns
        return now_ns

    def set(self, seconds: float) -> None:
        self.now_ns = round(seconds * NS)
