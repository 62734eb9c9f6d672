"""JSON objects as they may be stored: walked once, refused by path."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

__all__ = ['JsonObject', 'depth_of', 'parse_object', 'sound_object']

# Far above any payload a robot needs and far below Python's recursion limit.
MAX_DEPTH = 128
MAX_DIGITS = 4300
_TOO_LONG = 10**MAX_DIGITS


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object as they were written; a key may come twice."""


def sound_object(value: object) -> dict[str, Any]:
    """Return a fresh, plain copy of a JSON object; -0.0 becomes 0.0, tuples become lists.

    Raises
    ------
    ValueError
        With the JSON path (``$.a[2]``) of the first part that is no JSON: NaN or an
        infinity, a key that is no text or appears twice (also after NFC), a lone
        surrogate, an integer of more than 4300 digits, another type, or too deep nesting.
    """
    if not isinstance(value, (Mapping, _Pairs)):
        raise ValueError(f'$: {type(value).__name__} is no JSON object')
    result: dict[str, Any] = _copy(value, '$', 1)
    return result


def _copy(value: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f'{path}: nested deeper than {MAX_DEPTH}')
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int):
        if abs(value) >= _TOO_LONG:
            raise ValueError(f'{path}: an integer of more than {MAX_DIGITS} digits')
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f'{path}: {value} is no JSON number')
        return float(value) + 0.0
    if isinstance(value, Mapping):
        return _copy_object(value.items(), path, depth)
    if isinstance(value, _Pairs):
        return _copy_object(value, path, depth)
    if isinstance(value, (list, tuple)):
        return [_copy(part, f'{path}[{index}]', depth + 1) for index, part in enumerate(value)]
    raise ValueError(f'{path}: {type(value).__name__} is no JSON value')


def _copy_object(pairs: Iterable[tuple[Any, Any]], path: str, depth: int) -> dict[str, Any]:
    seen: set[str] = set()
    copy = {}
    for key, part in pairs:
        if not isinstance(key, str):
            raise ValueError(f'{path}: the key {key!r} is no text')
        normal = unicodedata.normalize('NFC', _text(key, f'{path}.{key!r}'))
        if normal in seen:
            raise ValueError(f'{path}.{key}: the key appears twice (after NFC)')
        seen.add(normal)
        copy[key] = _copy(part, f'{path}.{key}', depth + 1)
    return copy


def _text(value: str, path: str) -> str:
    try:
        value.encode('utf-8')
    except UnicodeEncodeError as exc:
        raise ValueError(
            f'{path.encode("ascii", "backslashreplace").decode()}: a lone surrogate is no text'
        ) from exc
    return value


def parse_object(text: str, field: str = 'payload_json') -> dict[str, Any]:
    """Read one JSON object from text, as strictly as `sound_object` and with no duplicate keys.

    Raises
    ------
    ValueError
        With the field and what is wrong.

    Examples
    --------
    >>> parse_object('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> parse_object('{"d": NaN}')
    Traceback (most recent call last):
    ...
    ValueError: payload_json: $.d: nan is no JSON number
    """
    try:
        # Numbers and keys that are none are read all the same, so that the walk can name their path.
        return sound_object(json.loads(text, parse_int=_integer, object_pairs_hook=_Pairs))
    except RecursionError as exc:
        raise ValueError(f'{field}: nested deeper than {MAX_DEPTH}') from exc
    except ValueError as exc:
        raise ValueError(f'{field}: {exc}') from exc


def _integer(text: str) -> int:
    return int(text) if len(text.lstrip('-')) <= MAX_DIGITS else _TOO_LONG


def depth_of(value: Any) -> int:
    """Return how deep a JSON value is nested; a plain value has depth 0, ``{}`` depth 1."""
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


JsonObject = Annotated[Mapping[str, Any], BeforeValidator(sound_object)]
"""One JSON object of plain values."""
