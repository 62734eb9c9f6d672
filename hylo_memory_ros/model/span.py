"""When something happened in the world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from hylo_memory_ros.model._contract import Contract
from hylo_memory_ros.model._time import StampNs, rename_seconds, seconds_from_ns

__all__ = ['ClockName', 'TimeSpan']

ClockName = Literal['sim', 'wall']


class TimeSpan(Contract):
    """A closed stretch of world time on a named clock; without an end it is still going on."""

    start_ns: StampNs
    """First instant, integer nanoseconds; ``start`` takes seconds."""
    end_ns: StampNs | None = None
    """Last instant, integer nanoseconds, None: open; ``end`` takes seconds."""
    clock: ClockName = 'wall'
    """The clock that the stamps were read from."""

    if TYPE_CHECKING:

        def __init__(self, **data: Any) -> None: ...

    @model_validator(mode='before')
    @classmethod
    def _seconds(cls, data: Any) -> Any:
        if isinstance(data, dict):
            data = dict(data)
            rename_seconds(data, 'start', 'end')
        return data

    @model_validator(mode='after')
    def _ordered(self) -> TimeSpan:
        if self.end_ns is not None and self.end_ns < self.start_ns:
            raise ValueError(f'end {self.end_ns} ns lies before start {self.start_ns} ns')
        return self

    @property
    def start(self) -> float:
        """First instant in seconds."""
        return self.start_ns / 1e9

    @property
    def end(self) -> float | None:
        """Last instant in seconds; None: open."""
        return seconds_from_ns(self.end_ns)
