"""Conversion of `MemoryFilter.msg` to `MemoryQuery`."""

from __future__ import annotations

from typing import Any

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

__all__ = ['OPTIONS', 'query_from_msg']

OPTIONS = ('state', 'skill_status', 'min_helpfulness', 'episode', 'outcome', 'depth', 'weights')
"""Keys of ``options_json``, each a field of the query."""
ALWAYS = frozenset({*OPTIONS, 'k', 'include_stale'})


def query_from_msg(msg: MemoryFilter, **asked: Any) -> MemoryQuery:
    """Return the query that a filter describes.

    Parameters
    ----------
    msg : MemoryFilter message
        Zero, an empty text and an empty array mean "not set"; `near` is set when its frame is.
    **asked : Any
        Further fields of the query: ``k``, ``cursor``, ``explain``.

    Raises
    ------
    InvalidRequestError
        With every field that breaks a rule, its value and the rule.
    """
    fields: dict[str, Any] = {
        **_options(msg.options_json),
        'ids': texts(msg.ids, 'filter.ids'),
        'keys': texts(msg.keys, 'filter.keys'),
        'labels': texts(msg.labels, 'filter.labels'),
        'entities': texts(msg.entities, 'filter.entities'),
        'object_ids': texts(msg.object_ids, 'filter.object_ids'),
        'text': checked_text(msg.text, 'filter.text') or None,
        'scope': scope_of(msg.scope, msg.map_id, 'filter.') or None,
        'any_map': msg.any_map,
        'near': _near(msg),
        'horizontal': msg.horizontal,
        'as_of_ns': stamp_ns(msg.as_of, 'filter.as_of'),
        'known_at_ns': stamp_ns(msg.known_at, 'filter.known_at'),
        'known_seq': checked_sequence(msg.known_seq, 'filter.known_seq') or None,
        'include_invalidated': msg.include_invalidated,
        'include_stale': msg.include_stale,
        'min_confidence': msg.min_confidence or None,
        'min_existence': msg.min_existence or None,
        'min_score': msg.min_score or None,
        **_vector(msg),
        **asked,
    }
    if msg.kinds:
        fields['kinds'] = frozenset(texts(msg.kinds, 'filter.kinds'))
    if msg.relation:
        fields['relation'] = pairs_of([msg.relation], ':', 'filter.relation')[0]
    start, end = stamp_ns(msg.time_start, 'filter.time_start'), stamp_ns(msg.time_end, 'filter.time_end')
    if start is not None or end is not None:
        fields['time_range_ns'] = (start, end)
    # Unset fields are left out; a zero is meaningful, or refused, in these.
    given = {name: value for name, value in fields.items() if value or name in ALWAYS}
    try:
        return MemoryQuery(**given)
    except ValidationError as exc:
        in_options = {str(error['loc'][0]) for error in exc.errors() if error['loc']} <= set(OPTIONS)
        place = 'filter.options_json' if in_options else 'filter'
        raise InvalidRequestError(format_problems(exc, place), field=place) from exc


def _near(msg: MemoryFilter) -> tuple[dict[str, Any], float] | None:
    header, point = msg.near.header, msg.near.point
    if not header.frame_id:
        if (point.x, point.y, point.z, msg.radius_m) != (0.0, 0.0, 0.0, 0.0):
            raise InvalidRequestError(
                f"filter.near.header.frame_id: '' with a centre or the radius {msg.radius_m} m set; "
                'a centre needs the frame that it is in',
                field='filter.near.header.frame_id',
            )
        return None
    centre = {
        'frame_id': checked_text(header.frame_id, 'filter.near.header.frame_id'),
        'position': (point.x, point.y, point.z),
        'stamp_ns': stamp_ns(header.stamp, 'filter.near.header.stamp'),
    }
    return centre, msg.radius_m


def _vector(msg: MemoryFilter) -> dict[str, Any]:
    space = checked_text(msg.embedding_space, 'filter.embedding_space')
    if space and msg.text and not len(msg.embedding):
        return {'text_space': space}
    if bool(space) != (len(msg.embedding) > 0):
        raise InvalidRequestError(
            f'filter.embedding: {len(msg.embedding)} numbers in the space {space!r}: give both, or neither; '
            'with a text the space alone',
            field='filter.embedding',
        )
    return {'embedding': (space, msg.embedding)} if space else {}


def _options(text: str) -> dict[str, Any]:
    if not text:
        return {}
    field = 'filter.options_json'
    try:
        options = parse_object(checked_text(text, field), field)
    except ValueError as exc:
        raise InvalidRequestError(str(exc), field=field) from exc
    for name in options:
        if name not in OPTIONS:
            known = ', '.join(OPTIONS)
            raise InvalidRequestError(f'{field}: unknown key {name!r}; known are {known}', field=field)
        if options[name] is None:
            raise InvalidRequestError(
                f'{field}.{name}: expected a value, got null; leave the key out', field=field
            )
    return options
