"""Time stamps and spans in integer nanoseconds, and conversion from and to seconds."""

from __future__ import annotations

from collections.abc import MutableMapping
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from hylo_memory_ros.model.validation import Contract

NS_PER_S = 1_000_000_000

# The last instant that builtin_interfaces/Time (int32 seconds) can hold, on 2038-01-19.
MAX_STAMP_NS = (2**31 - 1) * NS_PER_S + (NS_PER_S - 1)

StampNs = Annotated[int, Field(ge=0, le=MAX_STAMP_NS, strict=True)]
"""A point in time: integer nanoseconds since the epoch of its clock, 0 to 2038-01-19."""


def ns_from_seconds(seconds: float, field: str = 'time') -> int:
    """Convert seconds exactly to nanoseconds, rounded half to even.

    Raises
    ------
    ValueError
        If ``seconds`` is not a finite number.

    Examples
    --------
    >>> ns_from_seconds(1.5)
    1500000000
    >>> ns_from_seconds(1553575413)
    1553575413000000000
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise ValueError(f'{field}: expected a number of seconds, got {seconds!r}')
    try:
        # A product of floats would round twice: 2**53 ns are only 104 days.
        return round(Fraction(seconds) * NS_PER_S)
    except (OverflowError, ValueError) as exc:
        raise ValueError(f'{field}: expected finite seconds, got {seconds!r}') from exc


def seconds_from_ns(stamp_ns: int | None) -> float | None:
    """Convert nanoseconds to seconds as the nearest float (exact only below 2**53 ns)."""
    return None if stamp_ns is None else stamp_ns / NS_PER_S


def rename_seconds(data: MutableMapping[str, Any], *names: str) -> None:
    """Replace each ``name`` (seconds) in `data` by its twin ``name_ns`` (nanoseconds).

    Raises
    ------
    ValueError
        If both are given, or the seconds are not a finite number.
    """
    for name in names:
        if name not in data:
            continue
        seconds = data.pop(name)
        if seconds is None:
            continue
        if data.get(f'{name}_ns') is not None:
            raise ValueError(f'{name} and {name}_ns are one value in two units: give one of them')
        data[f'{name}_ns'] = ns_from_seconds(seconds, name)


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
    def _validate_order(self) -> TimeSpan:
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
