"""Validation of the arguments of a request: their types, texts and times."""

from __future__ import annotations

import os
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from inspect import signature
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal

import numpy as np

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MAX_STAMP_NS, MemoryQuery, normalize_key, validate_text

MAX_NAME_BYTES = 512
MAX_REASON_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Argument:
    """Name and accepted types of one argument of a public method."""

    name: str
    """Name of the parameter."""
    types: tuple[type, ...]
    """Accepted types."""
    wanted: str
    """The accepted types in words."""
    excluded: tuple[type, ...] = ()
    """Subclasses of the accepted types that are refused: a text is no list of texts."""
    elements: tuple[type, ...] = ()
    """Accepted types of the elements of a collection; empty: it is none."""

    def check(self, value: object) -> None:
        """Raise the error of a value of another type.

        Raises
        ------
        InvalidRequestError
            With what is accepted, and what to write instead where that is known.
        """
        got, hint = repr(value), ''
        if isinstance(value, self.types) and not isinstance(value, self.excluded):
            if not self.elements or not isinstance(value, Collection):
                return
            wrong = [pair for pair in enumerate(value) if not isinstance(pair[1], self.elements)]
            if not wrong:
                return
            index, part = wrong[0]
            got = f'{part!r} at [{index}]'
        elif MemoryQuery in self.types:
            hint = '; build one with its fields, such as MemoryQuery(key=...) or MemoryQuery(text=...)'
        elif isinstance(value, self.elements):
            got, hint = f'one {type(value).__name__} {value!r}', '; put it into a list'
        got = got if len(got) <= 80 else f'{got[:79]}…'
        raise InvalidRequestError(f'{self.name}: expected {self.wanted}, got {got}{hint}', field=self.name)


def arguments_of(method: Callable[..., Any]) -> tuple[Argument, ...]:
    """Return the accepted types of the arguments of a method in their order, `self` left out."""
    # Names that the modules of the service import for type checkers alone.
    names = {'UnitOfWork': object, **method.__globals__}
    hints = typing.get_type_hints(method, names)
    return tuple(_argument(name, hints[name]) for name in list(signature(method).parameters)[1:])


_WORDS: Mapping[type, tuple[tuple[type, ...], str]] = {
    str: ((str,), 'a text'),
    bool: ((bool, np.bool_), 'True or False'),
    int: ((Integral,), 'an integer'),
    float: ((Real,), 'a number'),
    NoneType: ((NoneType,), 'None'),
}


def _argument(name: str, hint: Any) -> Argument:
    origin, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in (typing.Union, UnionType):
        ways = [_argument(name, part) for part in parts]
        return Argument(
            name,
            tuple(one for way in ways for one in way.types),
            ' or '.join(way.wanted for way in ways),
            tuple(one for way in ways for one in way.excluded),
            tuple(one for way in ways for one in way.elements),
        )
    if origin is Literal:
        return Argument(name, (str,), f'one of {", ".join(map(repr, parts))}')
    if origin in _WORDS:
        types, wanted = _WORDS[origin]
        return Argument(name, (*types, os.PathLike) if name.endswith('path') else types, wanted)
    if origin in (Sequence, Collection, tuple):
        elements = tuple(one for part in parts for one in _argument(name, part).types)
        of = {str: 'texts', int: 'integers'}.get(parts[0], getattr(parts[0], '__name__', 'values'))
        wanted = 'a pair' if origin is tuple else f'a list of {of}'
        return Argument(name, (Sequence if origin is tuple else origin,), wanted, (str, bytes), elements)
    if origin is Mapping:
        return Argument(name, (Mapping,), 'a mapping')
    if origin is Callable:
        return Argument(name, (Callable,), 'a function')
    if isinstance(origin, type) and issubclass(origin, Enum):
        return Argument(name, (origin, str), f'one of {", ".join(one.value for one in origin)}')
    if isinstance(origin, type):
        article = 'an' if origin.__name__[0] in 'AEIOU' else 'a'
        return Argument(name, (origin,), f'{article} {origin.__name__}')
    return Argument(name, (object,), 'anything')


def validate_fields(normal: Callable[[str, str], str], **texts: str | None) -> list[str | None]:
    """Return texts in their stored form, by a validator of the model."""
    return [text if text is None else validate_field(normal, text, field) for field, text in texts.items()]


def validate_names(**texts: str | None) -> None:
    """Refuse the name of a request or of an actor that has more than `MAX_NAME_BYTES` bytes in UTF-8."""
    for field, text in texts.items():
        if text:
            _refuse_long(field, text, MAX_NAME_BYTES)


def validate_reason(reason: str) -> None:
    """Refuse the reason of a change that has more than `MAX_REASON_BYTES` bytes in UTF-8."""
    _refuse_long('reason', reason, MAX_REASON_BYTES)


def _refuse_long(field: str, text: str, most: int) -> None:
    size = len(validate_field(validate_text, text, field).encode())
    if size > most:
        raise InvalidRequestError(
            f'{field}: {text[:32]!r}… has {size} bytes, at most {most} are allowed', field=field
        )


def validate_note(note: str, most: int) -> str:
    """Return a note, or raise if it is not a text or has more than ``most`` bytes in UTF-8."""
    size = len(validate_field(validate_text, note, 'note').encode())
    if size > most:
        raise InvalidRequestError(f'note: {size} bytes, at most {most}', field='note', limit=most)
    return note


def validate_stamp(at_ns: int) -> int:
    """Return a time, nanoseconds, within the range of stamps."""
    if not 0 <= at_ns <= MAX_STAMP_NS:
        raise InvalidRequestError(
            f'at_ns: expected a time from 0 to {MAX_STAMP_NS} ns, got {at_ns}', field='at_ns'
        )
    return int(at_ns)


def validate_field(normal: Callable[[str, str], str], text: str, field: str) -> str:
    """Return a text in its stored form."""
    if not isinstance(text, str):
        raise InvalidRequestError(f'{field}: expected a text, got {text!r}', field=field)
    try:
        return normal(text, field)
    except ValueError as exc:
        raise InvalidRequestError(str(exc), field=field) from exc


# The key of an episode item holds the name and more, within 512 bytes.
_MOST_ID_BYTES = 256
_MOST_NOTE_BYTES = 16_384
_MOST_SCOPE = 64


def validate_episode_id(id: str) -> str:
    """Return a name in its stored form."""
    name = validate_field(normalize_key, id, 'id')
    if (size := len(name.encode())) > _MOST_ID_BYTES:
        raise InvalidRequestError(
            f'id: {name[:32]!r}… has {size} bytes, at most {_MOST_ID_BYTES}', field='id'
        )
    return name


def validate_scope(scope: Mapping[str, str]) -> dict[str, str]:
    """Return a scope in its stored form."""
    if len(scope) > _MOST_SCOPE:
        raise InvalidRequestError(
            f'scope: {len(scope)} pairs, at most {_MOST_SCOPE}', field='scope', limit=_MOST_SCOPE
        )
    where = {
        validate_field(normalize_key, name, 'scope'): validate_field(normalize_key, value, f'scope[{name!r}]')
        for name, value in scope.items()
    }
    if len(where) < len(scope):
        raise InvalidRequestError(f'scope: a name is given twice in {sorted(scope)}', field='scope')
    if 'episode_id' in where:
        where['episode_id'] = validate_episode_id(where['episode_id'])
    return where


def validate_note_and_actor(note: str, actor: str) -> None:
    """Validate the types and lengths of a note and an actor."""
    validate_note(note, _MOST_NOTE_BYTES)
    validate_names(actor=actor)
