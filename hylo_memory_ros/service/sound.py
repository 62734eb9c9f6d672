"""Texts and times of a request in their stored form, or refused by name."""

from __future__ import annotations

from collections.abc import Callable

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import (
    MAX_STAMP_NS,
)

__all__ = ['refuse_unsound', 'sound', 'sound_stamp']


def refuse_unsound(normal: Callable[[str, str], str], **texts: str | None) -> list[str | None]:
    """Return texts in their stored form, by a validator of the model."""
    return [text if text is None else sound(normal, text, field) for field, text in texts.items()]


def sound_stamp(at_ns: int) -> int:
    """Return a time, nanoseconds, that can be one."""
    if not 0 <= at_ns <= MAX_STAMP_NS:
        raise InvalidRequestError(f'at_ns: {at_ns} is not a time from 0 to {MAX_STAMP_NS} ns', field='at_ns')
    return int(at_ns)


def sound(normal: Callable[[str, str], str], text: str, field: str) -> str:
    """Return a text in its stored form."""
    try:
        return normal(text, field)
    except ValueError as exc:
        raise InvalidRequestError(str(exc), field=field) from exc
