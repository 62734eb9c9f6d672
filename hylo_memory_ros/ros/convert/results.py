"""Conversion of hits, versions and events to messages, the size limit of replies, and cursors."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from geometry_msgs.msg import Point, PointStamped
from pydantic import ValidationError
from std_msgs.msg import Header

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import Change, Hit, MemoryItem, Pose, Version
from hylo_memory_ros.model.result import status_at
from hylo_memory_ros.msg import MemoryEvent, MemoryHit, MemoryVersion
from hylo_memory_ros.ros.convert.fields import fill_stamp, stamp_msg
from hylo_memory_ros.ros.convert.items import fill_item

A = TypeVar('A')
B = TypeVar('B')

# Size of the fixed fields in CDR, rounded up, bytes.
FIXED_BYTES = 512
# A client pages by sending the same filter again. "Around base_link" is elsewhere by then, so the cursor
# carries the centre of the first page, after this mark.
MARK = 'at:'


def hit_to_msg(hit: Hit, include: Collection[str], *, explain: bool = False) -> MemoryHit:
    """Return a hit as a message; values that were not computed are NaN.

    Parameters
    ----------
    hit : Hit
        The hit.
    include : collection of str
        Parts of the item that are sent (`items.PARTS`).
    explain : bool
        Whether ``details_json`` is filled.
    """
    details, stats = hit.details, hit.stats
    msg = _new_hit(hit.item, include, hit.status, hit.valid_to_ns, hit.sequence)
    msg.score = hit.score
    if hit.distance_m is not None:
        msg.distance_m = hit.distance_m
    msg.p_within = details.get('p_within', math.nan)
    msg.text_score, msg.vector_score = details.get('text', math.nan), details.get('vector', math.nan)
    if stats is not None:
        fill_stamp(msg.last_observed, stats.last_observed_ns)
        msg.observations = stats.observations
        if stats.existence is not None:
            msg.existence = stats.existence
    if explain:
        msg.details_json = _details_json(hit)
    return msg


def _new_hit(
    item: MemoryItem, include: Collection[str], status: str, valid_to_ns: int | None, sequence: int
) -> MemoryHit:
    """Return a hit whose numbers are NaN."""
    msg = MemoryHit()
    fill_item(msg.item, item, include)
    fill_stamp(msg.valid_to, valid_to_ns)
    msg.status, msg.sequence = status, sequence
    msg.score = msg.distance_m = msg.existence = msg.p_within = msg.text_score = msg.vector_score = math.nan
    return msg


def _details_json(hit: Hit) -> str:
    """Return the parts of a score, and the statistics that have no field of their own."""
    details: dict[str, Any] = dict(hit.details)
    if hit.stats is not None and hit.stats.helpfulness is not None:
        details['stats'] = {'helpfulness': hit.stats.helpfulness.as_dict()}
    if hit.episode:
        details['episode'] = hit.episode
    if hit.ended_by:
        details['ended_by'] = hit.ended_by
    return json.dumps(details)


def version_to_msg(version: Version, include: Collection[str], now_ns: int) -> MemoryVersion:
    """Return a version of a timeline as a message; its status is that at `now_ns`."""
    status = status_at(now_ns, version.valid_from_ns, version.valid_to_ns, version.ended_by)
    hit = _new_hit(version.item, include, status, version.valid_to_ns, version.from_seq)
    details = {'episode': version.episode, 'ended_by': version.ended_by, 'is_asked': version.is_asked}
    if details := {name: value for name, value in details.items() if value}:
        hit.details_json = json.dumps(details)
    fill_stamp(hit.item.valid_from, version.valid_from_ns)
    return MemoryVersion(
        hit=hit,
        recorded_at=stamp_msg(version.recorded_at_ns),
        superseded_at=stamp_msg(version.superseded_at_ns),
        superseded_sequence=version.to_seq or 0,
        cause=version.superseded_cause or version.cause,
    )


def event_to_msg(change: Change, epoch: str) -> MemoryEvent:
    """Return a committed transaction as a message."""
    extra = dict(change.extra)
    msg = MemoryEvent(
        header=Header(stamp=stamp_msg(change.recorded_at_ns)),
        epoch=epoch,
        sequence=change.sequence,
        op=change.op,
        ids=list(change.ids),
        keys=list(change.keys),
        outcomes=list(change.outcomes),
        actor=change.actor,
        receipt_id=str(extra.pop('receipt_id', '')),
        episode=change.episode,
    )
    if extra:
        msg.extra_json = json.dumps(extra)
    return msg


def point_to_msg(pose: Pose | None) -> PointStamped:
    """Return the position of a pose; without one, a point in no frame."""
    if pose is None:
        return PointStamped()
    x, y, z = pose.position
    header = Header(stamp=stamp_msg(pose.stamp_ns), frame_id=pose.frame_id)
    return PointStamped(header=header, point=Point(x=x, y=y, z=z))


def fitting(
    things: Iterable[A], convert: Callable[[A], B], size_of: Callable[[B], int], limit: int
) -> tuple[list[B], bool]:
    """Convert things until the reply is full; the first always fits.

    Returns
    -------
    list
        The converted things that fit.
    bool
        True if something was left out.
    """
    fits: list[B] = []
    room = limit
    for thing in things:
        converted = convert(thing)
        room -= size_of(converted)
        if room < 0 and fits:
            return fits, True
        fits.append(converted)
    return fits, False


def bytes_of_hit(msg: MemoryHit) -> int:
    """Return about how many bytes a hit takes in a reply, never less."""
    item = msg.item
    size = FIXED_BYTES + 8 * len(item.covariance) + 4 * len(item.embedding)
    for text in (
        item.id, item.key, item.label, item.content, item.source, item.map_id, item.payload_json,
        item.extra_json, item.embedding_space, item.header.frame_id, msg.details_json,
    ):  # fmt: skip
        size += len(text) if text.isascii() else len(text.encode('utf-8'))
    for texts in (item.scope, item.entities, item.object_ids, item.links, item.evidence):
        if texts:
            size += bytes_of_texts(texts)
    return size


def bytes_of_version(msg: MemoryVersion) -> int:
    """Return about how many bytes a version takes in a reply, never less."""
    return bytes_of_hit(msg.hit) + 128


def bytes_of_event(msg: MemoryEvent) -> int:
    """Return about how many bytes an event takes in a reply, never less."""
    return FIXED_BYTES + bytes_of_texts(msg.ids, msg.keys, msg.outcomes, (msg.extra_json,))


def bytes_of_texts(*lists: Iterable[str]) -> int:
    """Return about how many bytes texts take: length, closing zero, padding."""
    return sum(
        8 + (len(text) if text.isascii() else len(text.encode('utf-8'))) for texts in lists for text in texts
    )


def cursor_of(core: str | None, centre: Pose | None) -> str:
    """Return a cursor for a reply.

    Parameters
    ----------
    core : str or None
        The memory's cursor; None: the end.
    centre : Pose or None
        The centre that was used, if it differs from the requested one.
    """
    if core is None:
        return ''
    if centre is None:
        return core
    place = [centre.frame_id, centre.position, centre.stamp_ns, core]
    return MARK + base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def cursor_read(text: str) -> tuple[str | None, Pose | None]:
    """Return the memory's cursor and the centre in a cursor of a request.

    Raises
    ------
    InvalidRequestError
        If it was not issued by this memory.
    """
    if not text.startswith(MARK):
        return text or None, None
    try:
        frame_id, position, stamp_ns, core = json.loads(base64.urlsafe_b64decode(text[len(MARK) :]))
        return str(core), Pose(frame_id=frame_id, position=position, stamp_ns=stamp_ns)
    except (ValueError, TypeError, binascii.Error, ValidationError) as exc:
        raise InvalidRequestError(
            f'cursor: {text[:40]!r} is not a cursor of this memory', field='cursor'
        ) from exc
