"""Base class of all records, and validators of short texts, JSON objects and number lists.

Every record and every request validates through these.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from typing_extensions import Self

MAX_KEY_BYTES = 512


def validate_text(text: str, field: str) -> str:
    """Return a text as given.

    Raises
    ------
    ValueError
        For a lone surrogate, which has no UTF-8.
    """
    try:
        text.encode('utf-8')
    except UnicodeEncodeError as exc:
        raise ValueError(f'{field}: expected text, got {text!r} with a lone surrogate') from exc
    return text


def normalize_key(text: str, field: str = 'key') -> str:
    r"""Return a key in its stored form (NFC).

    Keys are case-sensitive, 1 to 512 bytes of UTF-8, without control characters and not
    blank. ``%``, ``_`` and ``*`` are ordinary characters; nothing is trimmed.

    Raises
    ------
    ValueError
        With the field, the value and the rule.

    Examples
    --------
    >>> normalize_key('cup_1')
    'cup_1'
    >>> normalize_key(' ')
    Traceback (most recent call last):
    ...
    ValueError: key: ' ' is blank
    """
    text = unicodedata.normalize('NFC', validate_text(text, field))
    if not text.strip():
        raise ValueError(f'{field}: {text!r} is blank')
    size = len(text.encode('utf-8'))
    if size > MAX_KEY_BYTES:
        raise ValueError(f'{field}: {text[:32]!r}… has {size} bytes, at most {MAX_KEY_BYTES} are allowed')
    if not text.isprintable() and any(unicodedata.category(char) == 'Cc' for char in text):
        raise ValueError(f'{field}: {text!r} holds a control character')
    return text


def normalize_frame(text: str, field: str = 'frame_id') -> str:
    """Return a frame id in its stored form: exactly one leading slash is stripped.

    Raises
    ------
    ValueError
        If the id is empty, holds white space, or has a second leading slash.

    Examples
    --------
    >>> normalize_frame('/map'), normalize_frame('robot1/base_link')
    ('map', 'robot1/base_link')
    """
    bare = unicodedata.normalize('NFC', validate_text(text, field))
    bare = bare.removeprefix('/')
    if not bare or bare.startswith('/') or any(char.isspace() for char in bare):
        raise ValueError(
            f"{field}: expected a frame id without white space, with at most one leading '/', got {text!r}"
        )
    return normalize_key(bare, field)


Text = Annotated[str, AfterValidator(lambda text: validate_text(text, 'text'))]
"""Any text; returned as given."""

Key = Annotated[str, AfterValidator(normalize_key)]
"""A key: case-sensitive, NFC, 1 to 512 bytes, no control characters, not blank."""

Name = Annotated[str, AfterValidator(lambda text: normalize_key(text, 'name'))]
"""A name inside a list or mapping (entity, object id, scope); same rule as a key."""

Label = Annotated[str, AfterValidator(lambda text: normalize_key(text, 'label') if text else '')]
"""The class of a thing, or the empty text."""

FrameId = Annotated[str, AfterValidator(normalize_frame)]
"""A coordinate frame (REP-105), without leading slash."""


def floats_of(value: object) -> list[float]:
    """Return the numbers of a list, an array or another iterable as floats.

    Raises
    ------
    ValueError
        It is not a list of numbers, or one is too large for float64.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ValueError(f'expected a list of numbers, got {type(value).__name__}')
    try:
        return [float(part) for part in value]
    except (TypeError, ValueError, OverflowError) as exc:
        raise ValueError(f'expected a list of numbers: {exc}') from exc


NOT_A_PARAMETER = 'not a ROS parameter'
"""Metadata of a field that the library takes and the node does not declare: no robot needs to tune it."""


class Contract(BaseModel):
    """A frozen, validated record; an unknown field is refused."""

    model_config = ConfigDict(frozen=True, extra='forbid', use_attribute_docstrings=True, allow_inf_nan=False)

    @classmethod
    def trusted(cls, fields: dict[str, Any]) -> Self:
        """Return a record of fields that were validated before; every field must be given.

        What `model_construct` does, less the search for defaults and aliases, which took
        most of the time of a query that returns whole items.
        """
        record = cls.__new__(cls)
        # The model is frozen, so its own `__setattr__` refuses.
        place = object.__setattr__
        place(record, '__dict__', fields)
        place(record, '__pydantic_fields_set__', set(fields))
        place(record, '__pydantic_extra__', None)
        place(record, '__pydantic_private__', None)
        return record


# Far above any payload a robot needs and far below Python's recursion limit.
MAX_DEPTH = 128
MAX_DIGITS = 4300
_TOO_LONG = 10**MAX_DIGITS


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object as they were written; a key may come twice."""


def validate_object(value: object) -> dict[str, Any]:
    """Return a fresh, plain copy of a JSON object; -0.0 becomes 0.0, tuples become lists.

    Raises
    ------
    ValueError
        With the JSON path (``$.a[2]``) of the first invalid part: NaN or an
        infinity, a key that is not a text or appears twice (also after NFC), a lone
        surrogate, an integer of more than 4300 digits, another type, or too deep nesting.
    """
    if not isinstance(value, (Mapping, _Pairs)):
        raise ValueError(f'$: expected a JSON object, got {type(value).__name__}')
    result: dict[str, Any] = _copy(value, '$', 1)
    return result


def _copy(value: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f'{path}: nested deeper than {MAX_DEPTH}')
    # Before int: a bool is an int.
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
            raise ValueError(f'{path}: expected a finite number, got {value}')
        # Adding 0.0 turns -0.0 into 0.0, whose text is another one.
        return float(value) + 0.0
    if isinstance(value, Mapping):
        return _copy_object(value.items(), path, depth)
    if isinstance(value, _Pairs):
        return _copy_object(value, path, depth)
    if isinstance(value, (list, tuple)):
        return [_copy(part, f'{path}[{index}]', depth + 1) for index, part in enumerate(value)]
    raise ValueError(f'{path}: expected a JSON value, got {type(value).__name__}')


def _copy_object(pairs: Iterable[tuple[Any, Any]], path: str, depth: int) -> dict[str, Any]:
    seen: set[str] = set()
    copy = {}
    for key, part in pairs:
        if not isinstance(key, str):
            raise ValueError(f'{path}: expected a text as key, got {key!r}')
        # Two keys that are equal in NFC would be one key in canonical form.
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
            f'{path.encode("ascii", "backslashreplace").decode()}: a lone surrogate in a text'
        ) from exc
    return value


def parse_object(text: str, field: str = 'payload_json') -> dict[str, Any]:
    """Read one JSON object from text, as strictly as `validate_object` and with no duplicate keys.

    Raises
    ------
    ValueError
        With the field and the reason.

    Examples
    --------
    >>> parse_object('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> parse_object('{"d": NaN}')
    Traceback (most recent call last):
    ...
    ValueError: payload_json: $.d: expected a finite number, got nan
    """
    try:
        # Invalid numbers and keys are read all the same, so that the walk can name their path.
        return validate_object(json.loads(text, parse_int=_integer, object_pairs_hook=_Pairs))
    except RecursionError as exc:
        raise ValueError(f'{field}: nested deeper than {MAX_DEPTH}') from exc
    except ValueError as exc:
        raise ValueError(f'{field}: {exc}') from exc


def _integer(text: str) -> int:
    # Python 3.11 refuses longer digits with an error that names no path.
    return int(text) if len(text.lstrip('-')) <= MAX_DIGITS else _TOO_LONG


def depth_of(value: Any) -> int:
    """Return how deep a JSON value is nested; a plain value has depth 0, ``{}`` depth 1."""
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


JsonObject = Annotated[Mapping[str, Any], BeforeValidator(validate_object)]
"""One JSON object of plain values."""
