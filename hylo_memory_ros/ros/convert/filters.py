"""Conversion of `MemoryFilter.msg` to `MemoryQuery`, by the registry of filters."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NoReturn

from pydantic import ValidationError

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MemoryQuery, parse_object
from hylo_memory_ros.msg import MemoryFilter
from hylo_memory_ros.ros.convert.errors import format_problems
from hylo_memory_ros.ros.convert.fields import (
    checked_sequence,
    checked_text,
    pairs_of,
    scope_of,
    stamp_ns,
    texts,
)
from hylo_memory_ros.storage.query.filters import FILTERS

OPTIONS = (*(field for one in FILTERS for field in one.options_json), 'weights', 'rerank')
"""Keys of ``options_json``, each a field of the query."""
_OPTIONS_FIELD = 'filter.options_json'
# Zero means "not set" in a message, but for these fields.
_ALWAYS = frozenset({*OPTIONS, 'k', 'include_stale'})


@dataclass(frozen=True, slots=True)
class _Message:
    """Checked access to the fields of a message, for the filters of the registry."""

    msg: MemoryFilter

    def texts(self, field: str) -> tuple[str, ...]:
        return texts(getattr(self.msg, field), f'filter.{field}')

    def text(self, field: str) -> str:
        return checked_text(self.value(field), f'filter.{field}')

    def pairs(self, field: str, separator: str) -> tuple[tuple[str, str], ...]:
        value = getattr(self.msg, field)
        return pairs_of([value] if isinstance(value, str) else value, separator, f'filter.{field}')

    def scope(self) -> dict[str, str]:
        return scope_of(self.msg.scope, self.msg.map_id, 'filter.')

    def stamp_ns(self, field: str) -> int | None:
        return stamp_ns(self.value(field), f'filter.{field}')

    def value(self, field: str) -> Any:
        return attrgetter(field)(self.msg)

    def reject(self, field: str, problem: str) -> NoReturn:
        raise InvalidRequestError(f'filter.{field}: {problem}', field=f'filter.{field}')


def query_from_msg(msg: MemoryFilter, **further: Any) -> MemoryQuery:
    """Return the query of a message.

    Parameters
    ----------
    msg : MemoryFilter message
        Zero, an empty text and an empty array mean "not set"; `near` is set when its frame is.
    **further : Any
        Further fields of the query: ``k``, ``cursor``, ``explain``.

    Raises
    ------
    InvalidRequestError
        With every field that breaks a rule, its value and the rule.
    """
    message = _Message(msg)
    fields: dict[str, Any] = _options(msg.options_json)
    for one in FILTERS:
        fields |= one.from_message(message)
    fields |= {
        'as_of_ns': message.stamp_ns('as_of'),
        'known_at_ns': message.stamp_ns('known_at'),
        'known_seq': checked_sequence(msg.known_seq, 'filter.known_seq'),
        'include_invalidated': msg.include_invalidated,
        'min_score': msg.min_score,
        **further,
    }
    given = {name: value for name, value in fields.items() if value or name in _ALWAYS}
    try:
        return MemoryQuery(**given)
    except ValidationError as exc:
        in_options = {str(error['loc'][0]) for error in exc.errors() if error['loc']} <= set(OPTIONS)
        place = _OPTIONS_FIELD if in_options else 'filter'
        raise InvalidRequestError(format_problems(exc, place), field=place) from exc


def _options(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        options = parse_object(checked_text(text, _OPTIONS_FIELD), _OPTIONS_FIELD)
    except ValueError as exc:
        raise InvalidRequestError(str(exc), field=_OPTIONS_FIELD) from exc
    for name in options:
        if name not in OPTIONS:
            raise InvalidRequestError(
                f'{_OPTIONS_FIELD}: unknown key {name!r}; known are {", ".join(OPTIONS)}',
                field=_OPTIONS_FIELD,
            )
        if options[name] is None:
            raise InvalidRequestError(
                f'{_OPTIONS_FIELD}.{name}: expected a value, got null; leave the key out',
                field=_OPTIONS_FIELD,
            )
    return options
