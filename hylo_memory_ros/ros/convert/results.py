"""Hits, versions and events as messages, and how many of them fit into one reply."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from geometry_msgs.msg import Point, PointStamped
from std_msgs.msg import Header

from hylo_memory_ros.model import Change, Hit, Pose, Version
from hylo_memory_ros.msg import MemoryEvent, MemoryHit, MemoryVersion
from hylo_memory_ros.ros.convert.blank import maker
from hylo_memory_ros.ros.convert.fields import stamp_msg
from hylo_memory_ros.ros.convert.items import item_to_msg

__all__ = [
    'bytes_of_event',
    'bytes_of_hit',
    'bytes_of_texts',
    'bytes_of_version',
    'event_to_msg',
    'fitting',
    'hit_to_msg',
    'point_to_msg',
    'version_to_msg',
]

_make_hit = maker(
    MemoryHit, 'item', 'status', 'sequence', 'score', distance_m=math.nan, existence=math.nan,
    p_within=math.nan, text_score=math.nan, vector_score=math.nan,
)  # fmt: skip

A = TypeVar('A')
B = TypeVar('B')

# What the fields of fixed size take in CDR, rounded up.
FIXED_BYTES = 512


def hit_to_msg(hit: Hit, include: Collection[str], *, explain: bool = False) -> MemoryHit:
    """Return a hit as a message; what was not computed is NaN.

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
    msg: MemoryHit = _make_hit(item_to_msg(hit.item, include), hit.status, hit.sequence, hit.score)
    if hit.valid_to_ns is not None:
        msg.valid_to = stamp_msg(hit.valid_to_ns)
    if hit.distance_m is not None:
        msg.distance_m = hit.distance_m
    if 'p_within' in details:
        msg.p_within = details['p_within']
    if 'text' in details:
        msg.text_score = details['text']
    if 'vector' in details:
        msg.vector_score = details['vector']
    if stats is not None:
        msg.last_observed, msg.observations = stamp_msg(stats.last_observed_ns), stats.observations
        if stats.existence is not None:
            msg.existence = stats.existence
    if explain:
        msg.details_json = _details_json(hit)
    return msg


def _details_json(hit: Hit) -> str:
    """Return the parts of a score, and the statistics that have no field of their own."""
    details: dict[str, Any] = dict(hit.details)
    if hit.stats is not None and hit.stats.helpfulness is not None:
        details['stats'] = {'helpfulness': hit.stats.helpfulness.as_dict()}
    if hit.episode:
        details['episode'] = hit.episode
    return json.dumps(details)


def version_to_msg(version: Version, include: Collection[str], now_ns: int) -> MemoryVersion:
    """Return a version of a timeline as a message; its status is that at `now_ns`."""
    if version.forgotten:
        status = 'forgotten'
    elif version.valid_to_ns is not None and version.valid_to_ns <= now_ns:
        status = 'invalidated'
    else:
        status = 'scheduled' if version.valid_from_ns > now_ns else 'current'
    hit: MemoryHit = _make_hit(item_to_msg(version.item, include), status, version.from_seq, math.nan)
    hit.valid_to = stamp_msg(version.valid_to_ns)
    if version.episode:
        hit.details_json = json.dumps({'episode': version.episode})
    hit.item.valid_from = stamp_msg(version.valid_from_ns)
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
        What fits.
    bool
        Whether something was left out.
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


def bytes_of_hit(msg: Any) -> int:
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


def bytes_of_version(msg: Any) -> int:
    """Return about how many bytes a version takes in a reply, never less."""
    return bytes_of_hit(msg.hit) + 128


def bytes_of_event(msg: Any) -> int:
    """Return about how many bytes an event takes in a reply, never less."""
    return FIXED_BYTES + bytes_of_texts(msg.ids, msg.keys, msg.outcomes, (msg.extra_json,))


def bytes_of_texts(*lists: Iterable[str]) -> int:
    """Return about how many bytes texts take: length, closing zero, padding."""
    return sum(
        8 + (len(text) if text.isascii() else len(text.encode('utf-8'))) for texts in lists for text in texts
    )
