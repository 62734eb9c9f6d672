"""`MemoryItem` to and from its message."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from geometry_msgs.msg import Point, Quaternion, Vector3
from geometry_msgs.msg import Pose as PoseMsg
from pydantic import ValidationError
from std_msgs.msg import Header

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MemoryItem, parse_object
from hylo_memory_ros.msg import MemoryItem as ItemMsg
from hylo_memory_ros.ros.convert.blank import maker
from hylo_memory_ros.ros.convert.errors import told
from hylo_memory_ros.ros.convert.fields import (
    checked_text,
    joined,
    pairs_of,
    scope_of,
    stamp_msg,
    stamp_ns,
    texts,
)

__all__ = ['PARTS', 'item_from_msg', 'item_to_msg']

PARTS = frozenset({'payload', 'embedding', 'evidence'})
"""Parts of an item that are sent only on request."""

IDENTITY = (0.0, 0.0, 0.0, 1.0)

_make_item = maker(ItemMsg, 'id', 'kind', 'key', 'label', 'content', 'confidence', 'source', 'valid_from')
_make_header, _make_pose = maker(Header, 'frame_id'), maker(PoseMsg, 'position')
_make_point = maker(Point, 'x', 'y', 'z')


def item_from_msg(msg: Any, place: str) -> MemoryItem:
    """Return the statement that a message makes.

    Parameters
    ----------
    msg : MemoryItem message
        Zero, an empty text and an empty array mean "not set".
    place : str
        Where it stands in the request (``items[2]``), for refusals.

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
        # Without a pose this is the only thing that the stamp of the observation can say.
        fields['valid_from_ns'] = stamp_ns(msg.header.stamp, at + 'header.stamp')
    _refuse_extra(msg.extra_json, at + 'extra_json')
    try:
        return MemoryItem(**fields)
    except ValidationError as exc:
        raise InvalidRequestError(told(exc, place), field=place) from exc


def _pose(msg: Any, at: str) -> dict[str, Any] | None:
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
            f'{at}covariance: {len(msg.covariance)} numbers are no 6x6 covariance: none, or 36',
            field=at + 'covariance',
        )
    return {
        'frame_id': frame,
        'position': (position.x, position.y, position.z),
        'orientation': (turn.x, turn.y, turn.z, turn.w) if msg.has_orientation else None,
        'covariance': msg.covariance if len(msg.covariance) else None,
        'stamp_ns': stamp_ns(msg.header.stamp, at + 'header.stamp'),
    }


def _extent(extent: Any) -> tuple[float, float, float] | None:
    size = (extent.x, extent.y, extent.z)
    return size if any(size) else None


def _event_time(msg: Any, at: str) -> dict[str, Any] | None:
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


def _embeddings(msg: Any, at: str) -> dict[str, Any]:
    space = checked_text(msg.embedding_space, at + 'embedding_space')
    if bool(space) != (len(msg.embedding) > 0):
        raise InvalidRequestError(
            f'{at}embedding: {len(msg.embedding)} numbers in the space {space!r}: give both, or neither',
            field=at + 'embedding',
        )
    return {space: msg.embedding} if space else {}


def _refuse_extra(text: str, field: str) -> None:
    if unknown := _payload(text, field):
        raise InvalidRequestError(f'{field}: unknown key {next(iter(unknown))!r}', field=field)


def item_to_msg(item: MemoryItem, include: Collection[str] = PARTS) -> ItemMsg:
    """Return a statement as a message.

    Parameters
    ----------
    item : MemoryItem
        The statement; where it has vectors in several spaces, the first by name is sent.
    include : collection of str
        Which of `PARTS` are filled.
    """
    msg: ItemMsg = _make_item(
        item.id or "", item.kind.value, item.key or "", item.label, item.content, item.confidence,
        item.source, stamp_msg(item.valid_from_ns),
    )  # fmt: skip
    if item.entities:
        msg.entities = list(item.entities)
    if item.object_ids:
        msg.object_ids = list(item.object_ids)
    if item.pose is not None:
        _put_pose(msg, item)
    if item.extent is not None:
        x, y, z = item.extent
        msg.extent = Vector3(x=x, y=y, z=z)
    if item.scope:
        msg.map_id = item.scope.get('map_id', '')
        if len(item.scope) > bool(msg.map_id):
            msg.scope = joined(((name, value) for name, value in item.scope.items() if name != 'map_id'), '=')
    if item.links:
        msg.links = joined(item.links, ':')
    if item.event_time is not None:
        msg.event_start = stamp_msg(item.event_time.start_ns)
        msg.event_end = stamp_msg(item.event_time.end_ns)
    if 'payload' in include and item.payload:
        msg.payload_json = json.dumps(item.payload, ensure_ascii=False, allow_nan=False)
    if 'evidence' in include and item.evidence:
        msg.evidence = list(item.evidence)
    if 'embedding' in include and item.embeddings:
        msg.embedding_space, vector = min(item.embeddings.items())
        msg.embedding = vector
    return msg


def _put_pose(msg: ItemMsg, item: MemoryItem) -> None:
    pose = item.pose
    assert pose is not None
    msg.header, msg.pose = _make_header(pose.frame_id), _make_pose(_make_point(*pose.position))
    if pose.stamp_ns is not None:
        msg.header.stamp = stamp_msg(pose.stamp_ns)
    if pose.orientation is not None:
        qx, qy, qz, qw = pose.orientation
        msg.pose.orientation = Quaternion(x=qx, y=qy, z=qz, w=qw)
        msg.has_orientation = True
    if pose.covariance is not None:
        msg.covariance = pose.covariance
