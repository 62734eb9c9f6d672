"""Conversion of `MemoryItem` to and from its message."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from geometry_msgs.msg import Vector3
from pydantic import ValidationError

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MemoryItem, Pose, parse_object
from hylo_memory_ros.msg import MemoryItem as ItemMsg
from hylo_memory_ros.ros.convert.errors import format_problems
from hylo_memory_ros.ros.convert.fields import (
    checked_text,
    fill_stamp,
    joined,
    pairs_of,
    scope_of,
    stamp_ns,
    texts,
)

PARTS = frozenset({'payload', 'embedding', 'evidence'})
"""Parts of an item that are sent only on request."""

IDENTITY = (0.0, 0.0, 0.0, 1.0)


def item_from_msg(msg: ItemMsg, place: str) -> MemoryItem:
    """Return the statement in a message.

    Parameters
    ----------
    msg : MemoryItem message
        Zero, an empty text and an empty array mean "not set".
    place : str
        Position in the request, such as ``items[2]``, for errors.

    Raises
    ------
    InvalidRequestError
        With every field that breaks a rule, its value and the rule.
    """
    at = f'{place}.'
    fields: dict[str, Any] = {
        'kind': checked_text(msg.kind, at + 'kind'),
        'content': checked_text(msg.content, at + 'content'),
        'label': checked_text(msg.label, at + 'label'),
        'source': checked_text(msg.source, at + 'source'),
        'entities': texts(msg.entities, at + 'entities'),
        'object_ids': texts(msg.object_ids, at + 'object_ids'),
        'evidence': texts(msg.evidence, at + 'evidence'),
        'links': pairs_of(msg.links, ':', at + 'links'),
        'scope': scope_of(msg.scope, msg.map_id, at),
        'confidence': msg.confidence,
        'valid_from_ns': stamp_ns(msg.valid_from, at + 'valid_from'),
        'pose': _pose(msg, at),
        'extent': _extent(msg.extent),
        'event_time': _event_time(msg, at),
        'payload': _payload(msg.payload_json, at + 'payload_json'),
        'embeddings': _embeddings(msg, at),
    }
    for name in ('id', 'key'):
        if text := checked_text(getattr(msg, name), at + name):
            fields[name] = text
    if fields['pose'] is None and fields['valid_from_ns'] is None and fields['event_time'] is None:
        # Without a pose the stamp of the observation can only be this.
        fields['valid_from_ns'] = stamp_ns(msg.header.stamp, at + 'header.stamp')
    _reject_extra(msg.extra_json, at + 'extra_json')
    try:
        return MemoryItem(**fields)
    except ValidationError as exc:
        raise InvalidRequestError(format_problems(exc, place), field=place) from exc


def _pose(msg: ItemMsg, at: str) -> dict[str, Any] | None:
    position, turn = msg.pose.position, msg.pose.orientation
    frame = checked_text(msg.header.frame_id, at + 'header.frame_id')
    if not frame:
        given = (position.x, position.y, position.z) != (0.0, 0.0, 0.0) or len(msg.covariance) > 0
        if given or msg.has_orientation or (turn.x, turn.y, turn.z, turn.w) not in (IDENTITY, (0.0,) * 4):
            raise InvalidRequestError(
                f"{at}header.frame_id: '' with a pose set; a pose needs the frame that it is in",
                field=at + 'header.frame_id',
            )
        return None
    if len(msg.covariance) not in (0, 36):
        raise InvalidRequestError(
            f'{at}covariance: {len(msg.covariance)} numbers, expected none or 36 (6x6)',
            field=at + 'covariance',
        )
    return {
        'frame_id': frame,
        'position': (position.x, position.y, position.z),
        'orientation': (turn.x, turn.y, turn.z, turn.w) if msg.has_orientation else None,
        'covariance': msg.covariance if len(msg.covariance) else None,
        'stamp_ns': stamp_ns(msg.header.stamp, at + 'header.stamp'),
    }


def _extent(extent: Vector3) -> tuple[float, float, float] | None:
    size = (extent.x, extent.y, extent.z)
    return size if any(size) else None


def _event_time(msg: ItemMsg, at: str) -> dict[str, Any] | None:
    start = stamp_ns(msg.event_start, at + 'event_start')
    end = stamp_ns(msg.event_end, at + 'event_end')
    if start is None and end is None:
        return None
    if start is None:
        raise InvalidRequestError(
            f'{at}event_start: not set, but event_end is {end} ns: an end needs a start',
            field=at + 'event_start',
        )
    return {'start_ns': start, 'end_ns': end}


def _payload(text: str, field: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        return parse_object(checked_text(text, field), field)
    except ValueError as exc:
        raise InvalidRequestError(str(exc), field=field) from exc


def _embeddings(msg: ItemMsg, at: str) -> dict[str, Any]:
    space = checked_text(msg.embedding_space, at + 'embedding_space')
    if bool(space) != (len(msg.embedding) > 0):
        raise InvalidRequestError(
            f'{at}embedding: {len(msg.embedding)} numbers in the space {space!r}: give both, or neither',
            field=at + 'embedding',
        )
    return {space: msg.embedding} if space else {}


def _reject_extra(text: str, field: str) -> None:
    if unknown := _payload(text, field):
        raise InvalidRequestError(f'{field}: unknown key {next(iter(unknown))!r}', field=field)


def item_to_msg(item: MemoryItem, include: Collection[str] = PARTS) -> ItemMsg:
    """Return a statement as a message; parameters as for `fill_item`."""
    msg = ItemMsg()
    fill_item(msg, item, include)
    return msg


def fill_item(msg: ItemMsg, item: MemoryItem, include: Collection[str] = PARTS) -> None:
    """Write a statement into a new message.

    A constructor with a nested message builds the default of that field too, which took most of the time of
    an answer; so nested messages are written in place.

    Parameters
    ----------
    msg : MemoryItem message
        With defaults in all fields.
    item : MemoryItem
        The statement; where it has vectors in several spaces, the first by name is sent.
    include : collection of str
        Which of `PARTS` are filled.
    """
    msg.id, msg.kind, msg.key, msg.label = item.id or '', item.kind.value, item.key or '', item.label
    msg.content, msg.confidence, msg.source = item.content, item.confidence, item.source
    fill_stamp(msg.valid_from, item.valid_from_ns)
    if item.entities:
        msg.entities = list(item.entities)
    if item.object_ids:
        msg.object_ids = list(item.object_ids)
    if item.pose is not None:
        _fill_pose(msg, item.pose)
    if item.extent is not None:
        msg.extent.x, msg.extent.y, msg.extent.z = item.extent
    if item.scope:
        msg.map_id = item.scope.get('map_id', '')
        if len(item.scope) > bool(msg.map_id):
            msg.scope = joined(((name, value) for name, value in item.scope.items() if name != 'map_id'), '=')
    if item.links:
        msg.links = joined(item.links, ':')
    if item.event_time is not None:
        fill_stamp(msg.event_start, item.event_time.start_ns)
        fill_stamp(msg.event_end, item.event_time.end_ns)
    if 'payload' in include and item.payload:
        msg.payload_json = json.dumps(item.payload, ensure_ascii=False, allow_nan=False)
    if 'evidence' in include and item.evidence:
        msg.evidence = list(item.evidence)
    if 'embedding' in include and item.embeddings:
        msg.embedding_space, vector = min(item.embeddings.items())
        msg.embedding = vector


def _fill_pose(msg: ItemMsg, pose: Pose) -> None:
    msg.header.frame_id = pose.frame_id
    point, turn = msg.pose.position, msg.pose.orientation
    point.x, point.y, point.z = pose.position
    fill_stamp(msg.header.stamp, pose.stamp_ns)
    if pose.orientation is not None:
        turn.x, turn.y, turn.z, turn.w = pose.orientation
        msg.has_orientation = True
    if pose.covariance is not None:
        msg.covariance = pose.covariance
