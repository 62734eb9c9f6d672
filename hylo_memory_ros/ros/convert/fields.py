"""Conversion of single fields of messages: stamps, texts, pairs; zero and empty mean "not set"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from builtin_interfaces.msg import Time

from hylo_memory_ros.errors import InvalidRequestError

NS_PER_S = 1_000_000_000
MAX_SEQUENCE = 2**63 - 1
REPLACEMENT = '\N{REPLACEMENT CHARACTER}'


def stamp_ns(stamp: Time, field: str) -> int | None:
    """Return a ``builtin_interfaces/Time`` in integer nanoseconds; zero is None.

    Raises
    ------
    InvalidRequestError
        If it is negative or its nanoseconds fill a second.
    """
    seconds, nanoseconds = stamp.sec, stamp.nanosec
    if not seconds and not nanoseconds:
        return None
    if seconds < 0 or nanoseconds >= NS_PER_S:
        raise InvalidRequestError(
            f'{field}: {seconds} s {nanoseconds} ns, expected seconds >= 0 and nanoseconds < 1e9', field=field
        )
    return int(seconds) * NS_PER_S + int(nanoseconds)


def stamp_msg(ns: int | None) -> Time:
    """Return nanoseconds as a message; None is zero."""
    seconds, nanoseconds = divmod(ns or 0, NS_PER_S)
    return Time(sec=seconds, nanosec=nanoseconds)


def fill_stamp(stamp: Time, ns: int | None) -> None:
    """Write nanoseconds into a message; None is zero."""
    stamp.sec, stamp.nanosec = divmod(ns or 0, NS_PER_S)


def checked_text(text: str, field: str) -> str:
    """Return a text as received, unless its bytes were not UTF-8.

    rclpy puts U+FFFD in place of such bytes, so that two different keys would become one.

    Raises
    ------
    InvalidRequestError
        If there is a U+FFFD, or a lone surrogate.
    """
    if REPLACEMENT in text:
        raise InvalidRequestError(f'{field}: {text[:80]!r} holds U+FFFD: it was not UTF-8', field=field)
    if not text.isascii():
        try:
            text.encode('utf-8')
        except UnicodeEncodeError as exc:
            raise InvalidRequestError(f'{field}: {text[:80]!r} holds a lone surrogate', field=field) from exc
    return text


def checked_sequence(value: int, field: str) -> int:
    """Return a sequence as received, unless it is too large for any store.

    Raises
    ------
    InvalidRequestError
        If it is 2^63 or more.
    """
    if value > MAX_SEQUENCE:
        raise InvalidRequestError(
            f'{field}: expected a sequence of at most {MAX_SEQUENCE}, got {value}', field=field
        )
    return value


def texts(values: Iterable[str], field: str) -> tuple[str, ...]:
    """Return a list of texts, each checked."""
    return tuple(checked_text(value, f'{field}[{index}]') for index, value in enumerate(values))


def pairs_of(values: Sequence[str], separator: str, field: str) -> tuple[tuple[str, str], ...]:
    """Split ``name=value`` or ``relation:target`` at the first separator.

    Raises
    ------
    InvalidRequestError
        If a text has no separator.

    Examples
    --------
    >>> pairs_of(['on:O12', 'in:box:3'], ':', 'links')
    (('on', 'O12'), ('in', 'box:3'))
    """
    pairs = []
    for index, text in enumerate(texts(values, field)):
        name, found, value = text.partition(separator)
        if not found:
            raise InvalidRequestError(
                f'{field}[{index}]: expected name{separator}value, got {text!r}', field=f'{field}[{index}]'
            )
        pairs.append((name, value))
    return tuple(pairs)


def scope_of(values: Sequence[str], map_id: str, prefix: str = '') -> dict[str, str]:
    """Return a scope; the map may be named by its own field or by the pair ``map_id=…``.

    Raises
    ------
    InvalidRequestError
        If a name is given twice with different values.
    """
    scope: dict[str, str] = {}
    given = list(pairs_of(values, '=', f'{prefix}scope'))
    if map_id:
        given.append(('map_id', checked_text(map_id, f'{prefix}map_id')))
    for name, value in given:
        if scope.setdefault(name, value) != value:
            raise InvalidRequestError(
                f'{prefix}scope: {name!r} is both {scope[name]!r} and {value!r}', field=f'{prefix}scope'
            )
    return scope


def joined(pairs: Iterable[tuple[str, str]], separator: str) -> list[str]:
    """Return pairs as texts of a message."""
    return [f'{name}{separator}{value}' for name, value in pairs]
