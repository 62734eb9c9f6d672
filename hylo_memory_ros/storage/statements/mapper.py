"""Mapper between items and table rows, bit-exact."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, case, null, select

from hylo_memory_ros.domain.identity import Statement
from hylo_memory_ros.domain.timeline import CONSOLIDATE, END, FORGET
from hylo_memory_ros.errors import DamagedFileError
from hylo_memory_ros.model import MemoryItem, MemoryKind, Pose, Stats, Status, TimeSpan
from hylo_memory_ros.model.result import status_at
from hylo_memory_ros.storage.schema import assertion, corrected, identity, landmark, spatial, version

_COVARIANCE = struct.Struct('<36d')
to_json = json.JSONEncoder(ensure_ascii=False, separators=(',', ':'), allow_nan=False).encode
"""Returns a value as JSON, as rows hold it."""

# Seldom set, never a plain filter (those are in `tag`): one JSON text instead of eight columns.
_DETAILS = ('payload', 'entities', 'object_ids', 'links', 'extent', 'evidence', 'provenance')

ITEM_COLUMNS: tuple[ColumnElement[Any], ...] = (
    version.c.version_row,
    version.c.valid_from_ns,
    version.c.valid_to_ns,
    version.c.ended_by,
    version.c.from_seq,
    version.c.to_seq,
    version.c.kind,
    identity.c.key,
    assertion.c.id,
    assertion.c.map_id,
    assertion.c.label,
    assertion.c.content,
    assertion.c.confidence,
    assertion.c.source,
    assertion.c.valid_from_assumed,
    assertion.c.event_start_ns,
    assertion.c.event_end_ns,
    assertion.c.event_clock,
    assertion.c.detail,
    assertion.c.has_embedding,
    assertion.c.assertion_id,
    spatial.c.frame_id,
    spatial.c.x,
    spatial.c.y,
    spatial.c.z,
    spatial.c.qx,
    spatial.c.qy,
    spatial.c.qz,
    spatial.c.qw,
    spatial.c.covariance,
    spatial.c.stamp_ns,
    landmark.c.observations,
    landmark.c.first_ns,
    landmark.c.last_ns,
    landmark.c.existence,
    landmark.c.stale,
)
"""What `item_of` and `stats_of` read, in its order."""

POSE_NAMES = ('frame_id', 'x', 'y', 'z', 'qx', 'qy', 'qz', 'qw', 'covariance', 'stamp_ns')
"""What `pose_of` reads of `spatial`, in its order."""

STATUS = 'status'
"""The field of `tag` that holds the status of a skill."""

_OF_ASSERTION: Mapping[str, Any] = {
    'version_row': assertion.c.assertion_id,
    'valid_from_ns': assertion.c.valid_from_ns,
    'from_seq': assertion.c.sequence,
    'kind': identity.c.kind,
}
ASSERTION_COLUMNS: Sequence[ColumnElement[Any]] = [
    _OF_ASSERTION.get(column.name, null()) if column.table is version
    else null() if column.table is landmark
    else column
    for column in ITEM_COLUMNS
]  # fmt: skip
"""The same of an assertion, instead of a version."""

INSERT_TEXT = 'INSERT INTO {} (rowid, content, key, label, entities) VALUES (?, ?, ?, ?, ?)'
"""Takes the number of an assertion and its `full_text_row` into a full-text index."""

ItemRow = Sequence[Any]
"""Values of `ITEM_COLUMNS`."""

item_source = (
    version.join(assertion, assertion.c.assertion_id == version.c.assertion_id)
    .join(identity, identity.c.identity_id == version.c.identity_id)
    .outerjoin(spatial, spatial.c.spatial_id == version.c.spatial_id)
    .outerjoin(landmark, (landmark.c.map_id == assertion.c.map_id) & (landmark.c.key == identity.c.key))
)
"""Versions with their items."""

select_items = select(*ITEM_COLUMNS).select_from(item_source)
"""The item rows of versions; to be narrowed down."""


says_now = (corrected.c.assertion_id == assertion.c.assertion_id) & corrected.c.to_seq.is_(None)
"""Joins assertions with what they say since a correction."""

said_then = (
    (corrected.c.assertion_id == version.c.assertion_id)
    & (corrected.c.from_seq <= version.c.from_seq)
    & (corrected.c.to_seq.is_(None) | (corrected.c.to_seq > version.c.from_seq))
)
"""Joins versions with what their assertion said when they began to be believed."""


def effective(column: str) -> ColumnElement[Any]:
    """Return a column of assertions, outer-joined by `says_now`, as it is corrected now."""
    is_corrected = corrected.c.assertion_id.is_not(None)
    return case((is_corrected, corrected.c[column]), else_=assertion.c[column]).label(column)


def assertion_row(item: MemoryItem, statement: Statement) -> dict[str, Any]:
    """Return the columns of `assertion` that follow from an item alone."""
    span = item.event_time
    map_id = item.scope.get('map_id', '')
    return {
        'valid_from_ns': item.valid_from_ns,
        'valid_from_assumed': item.valid_from_assumed,
        'content_digest': statement.content,
        'element': statement.element,
        'id': statement.id,
        'map_id': map_id,
        'label': item.label,
        'content': item.content,
        'confidence': item.confidence,
        'source': item.source,
        'event_start_ns': span and span.start_ns,
        'event_end_ns': span and span.end_ns,
        'event_clock': span and span.clock,
        'detail': detail_of(item, map_id),
        'has_embedding': bool(item.embeddings),
    }


def detail_of(item: MemoryItem, map_id: str) -> str | None:
    """Return the column ``detail`` of an item of a map."""
    detail = {name: value for name in _DETAILS if (value := getattr(item, name))}
    if len(item.scope) != bool(map_id):
        detail['scope'] = item.scope
    return to_json(detail) if detail else None


def covariance_of(data: bytes | None) -> tuple[float, ...] | None:
    """Return the covariance of its column; None: it is not known."""
    return None if data is None else _COVARIANCE.unpack(data)


def spatial_row(pose: Pose, map_id: str) -> dict[str, Any]:
    """Return the columns of `spatial`, its id aside."""
    x, y, z = pose.position
    qx, qy, qz, qw = pose.orientation or (None, None, None, None)
    covariance = None if pose.covariance is None else _COVARIANCE.pack(*pose.covariance)
    return {
        "map_id": map_id, "frame_id": pose.frame_id, "x": x, "y": y, "z": z,
        "qx": qx, "qy": qy, "qz": qz, "qw": qw, "covariance": covariance, "stamp_ns": pose.stamp_ns,
    }  # fmt: skip


def tags_of(item: MemoryItem) -> Iterator[tuple[str, str]]:
    """Yield (field, value) of what an item can be found by in `tag`."""
    yield from (('entity', name) for name in set(item.entities))
    yield from (('object', name) for name in set(item.object_ids))
    yield from (('link', paired(*link)) for link in set(item.links))
    yield from (('scope', paired(*pair)) for pair in item.scope.items() if pair[0] != 'map_id')
    if item.kind is MemoryKind.SKILL:
        yield STATUS, item.payload['status']


def paired(name: str, value: str) -> str:
    """Return one text for a pair of names; no name holds the control character between them."""
    return f'{name}\x1f{value}'


def full_text_row(item: MemoryItem) -> tuple[str, str, str, str]:
    """Return what the full-text index reads of an item: content, key, label, entities."""
    return item.content, item.key or '', item.label, ' '.join(item.entities)


def embedding_rows(item: MemoryItem) -> Iterator[tuple[str, bytes]]:
    """Yield (space, float32 bytes) of an item's vectors."""
    for space, vector in item.embeddings.items():
        yield space, struct.pack(f'<{len(vector)}f', *vector)


def vector_of(data: bytes) -> tuple[float, ...]:
    """Return the vector of float32 bytes."""
    return struct.unpack(f'<{len(data) // 4}f', data)


def item_of(row: ItemRow, embeddings: Mapping[str, tuple[float, ...]] | None = None) -> MemoryItem:
    """Return the item of a row of `ITEM_COLUMNS`.

    The row was validated when it was written, so nothing is validated again.

    Raises
    ------
    DamagedFileError
        It is not what was written.
    """
    try:
        return _item_of(row, embeddings)
    except (AttributeError, TypeError, ValueError) as exc:
        raise DamagedFileError(f'the statement of version row {row[0]} is damaged: {exc}') from exc


def _item_of(row: ItemRow, embeddings: Mapping[str, tuple[float, ...]] | None) -> MemoryItem:
    (_, valid_from_ns, _, _, _, _, kind, key, item_id, map_id, label, content, confidence, source,
     assumed, event_start_ns, event_end_ns, event_clock, detail_json, _, _,
     frame_id, x, y, z, qx, qy, qz, qw, covariance, stamp_ns, *_) = row  # fmt: skip
    detail = json.loads(detail_json) if detail_json else {}
    pose = pose_of((frame_id, x, y, z, qx, qy, qz, qw, covariance, stamp_ns))
    span = None
    if event_start_ns is not None:
        span = TimeSpan.trusted({'start_ns': event_start_ns, 'end_ns': event_end_ns, 'clock': event_clock})
    extent = detail.get('extent')
    return MemoryItem.trusted(
        {
            'kind': MemoryKind(kind),
            'content': content,
            'key': key,
            'label': label,
            'payload': detail.get('payload') or {},
            'entities': tuple(detail.get('entities') or ()),
            'object_ids': tuple(detail.get('object_ids') or ()),
            'links': tuple(map(tuple, detail.get('links') or ())),
            'scope': detail.get('scope', {'map_id': map_id} if map_id else {}),
            'pose': pose,
            'extent': tuple(extent) if extent else None,
            'event_time': span,
            'valid_from_ns': valid_from_ns,
            'valid_from_assumed': bool(assumed),
            'confidence': confidence,
            'source': source,
            'evidence': tuple(detail.get('evidence') or ()),
            'provenance': detail.get('provenance') or {},
            'embeddings': embeddings or {},
            'id': item_id,
        }
    )


def pose_of(row: Sequence[Any]) -> Pose | None:
    """Return the pose of a row of `POSE_NAMES`, which was validated when it was written."""
    frame_id, x, y, z, qx, qy, qz, qw, covariance, stamp_ns = row
    if frame_id is None:
        return None
    return Pose.trusted(
        {
            'frame_id': frame_id,
            'position': (x, y, z),
            'orientation': None if qw is None else (qx, qy, qz, qw),
            'covariance': covariance_of(covariance),
            'stamp_ns': stamp_ns,
        }
    )


def stats_of(row: ItemRow) -> Stats | None:
    """Return what is counted beside the item of a row; None: nothing is."""
    observations, first_ns, last_ns, log_odds, _ = row[-5:]
    if observations is None:
        return None
    # Exactly 0 is no opinion, not an even one.
    existence = 0.5 + 0.5 * math.tanh(0.5 * log_odds) if log_odds else None
    return Stats(observations, first_ns, last_ns, existence)


def status_of(row: ItemRow, at_ns: int) -> Status:
    """Return how a version stands at a world time."""
    _, valid_from_ns, valid_to_ns, ended_by, *_, stale = row
    if valid_to_ns is None and stale and at_ns >= valid_from_ns:
        return 'stale'
    return status_at(at_ns, valid_from_ns, valid_to_ns, ended_by)


def ending_of(consolidation: int | None, *, is_end: bool) -> str:
    """Return the cause of an ending from its columns of `forgetting`."""
    if consolidation is not None:
        return CONSOLIDATE
    return END if is_end else FORGET
