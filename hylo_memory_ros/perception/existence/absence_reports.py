"""Reports that a remembered thing was looked for and not found: strong evidence, not a deletion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.model import Hit, MemoryKind, MemoryQuery, Pose
from hylo_memory_ros.perception.existence.absence import Absence, probability
from hylo_memory_ros.perception.existence.existence_filter import end
from hylo_memory_ros.perception.existence.receipts import Judged, report_receipt
from hylo_memory_ros.perception.ingestion.observation import digest32
from hylo_memory_ros.perception.manual_items import BY_HAND, believed
from hylo_memory_ros.perception.map.columns import NEVER
from hylo_memory_ros.perception.map.keyframes import TURN_DEG
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.port import MemoryPort
from hylo_memory_ros.perception.receipts import Receipt
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.data_association import Ending
from hylo_memory_ros.transforms import Transform

__all__ = ['AbsenceAnswer', 'AbsenceReport', 'adopted', 'checked', 'found', 'named', 'taken']

Vector = tuple[float, float, float]

_MOST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsenceReport:
    """Somebody looked for a thing and did not find it."""

    id: str = ''
    """Id of the item."""
    key: str = ''
    """Key of the item, in the current map."""
    label: str = ''
    """Label of the things meant, with `where`."""
    where: Vector | None = None
    """Place that was found empty, metres, in the global frame; None: that of the item."""
    radius_m: float = 0.0
    """How far around the place was seen to be empty, metres."""
    observed_from: Transform | None = None
    """``global_from_observer``; None: the newest keyframe of the robot."""
    at_ns: int
    """When, nanoseconds."""
    confidence: float = 1.0
    """How likely it would have been found if it were there, 0 to 1."""
    actor: str = ''
    """Who reports."""


class AbsenceAnswer(NamedTuple):
    """What became of the things that a report is about."""

    ids: tuple[str, ...]
    """Their items."""
    existence: tuple[float, ...]
    """Probability of each that it is still there."""
    statuses: tuple[str, ...]
    """``current``, ``stale``, or ``forgotten``: it has ended."""
    receipt_id: str = ''
    """Receipt of what was decided."""


def checked(report: AbsenceReport) -> None:
    """Refuse a report that makes no sense.

    Raises
    ------
    InvalidRequestError
        With the name of the field.
    """
    if not 0.0 <= report.confidence <= 1.0:
        raise _refusal('confidence', f'{report.confidence} is not in [0, 1]')
    if not 0.0 <= report.radius_m < math.inf:
        raise _refusal('radius_m', f'{report.radius_m} is no distance')
    if report.where is not None and not all(map(math.isfinite, report.where)):
        raise _refusal('where', f'{report.where} is not finite')
    if report.id and report.key:
        raise _refusal('key', f'{report.key!r} is given beside the id {report.id!r}: give one of them')
    if not (report.id or report.key):
        if not report.label:
            raise _refusal('id', 'nothing says what is absent: give id, key, or label and where')
        if report.where is None:
            raise _refusal('where', f'where is the {report.label!r} that is absent?')


def found(memory: MemoryPort, report: AbsenceReport, frame_id: str, map_id: str) -> Sequence[Hit]:
    """Return the items that a report is about.

    Raises
    ------
    NotFoundError
        If there is none.
    InvalidRequestError
        If it has no key, or no place in the global frame.
    """
    scope = {'map_id': map_id} if map_id else None
    query = MemoryQuery(kinds=[MemoryKind.SPATIAL], include_stale=True, k=_MOST)
    if report.id:
        query = query.model_copy(update={'ids': (report.id,)})
    elif report.key:
        query = query.model_copy(update={'key': report.key, 'scope': scope})
    elif report.where is not None:
        near = Pose(frame_id=frame_id, position=report.where), report.radius_m
        query = query.model_copy(update={'labels': (report.label,), 'near': near, 'scope': scope})
    hits = list(memory.query(MemoryQuery(**query.model_dump(exclude_defaults=True))))
    if not hits:
        field = 'id' if report.id else 'key' if report.key else 'label'
        raise NotFoundError(f'{field}: no {getattr(report, field)!r} is remembered there now', field=field)
    for hit in hits:
        if hit.item.key is None:
            raise _refusal('id', f'{hit.item.id!r} has no key: forget or retract it by its id')
        if (there := hit.item.scope.get('map_id', '')) != map_id:
            raise _refusal(
                'id', f'{hit.item.id!r} is in the map {there!r}, not in the current one, {map_id!r}'
            )
        if hit.item.pose is None or hit.item.pose.frame_id != frame_id:
            raise _refusal('id', f'{hit.item.id!r} has no place in the frame {frame_id!r}')
        if report.where is not None and math.dist(report.where, hit.item.pose.position) > report.radius_m:
            away = math.dist(report.where, hit.item.pose.position)
            raise _refusal(
                'radius_m', f'{hit.item.key!r} is {away:.3f} m from where, beyond {report.radius_m} m'
            )
    return hits


def named(
    memory: MemoryPort, names: Sequence[str], book: LandmarkMap, absence: Absence, frame_id: str
) -> list[str]:
    """Return the keys of landmarks that are named by key or by id; what was written by hand becomes one.

    Raises
    ------
    NotFoundError
        If nothing of that name is remembered in the map now.
    InvalidRequestError
        If it has no key, or no place in the global frame.
    """
    keys = []
    for name in names:
        row = book.row_of(name)
        if row is None or book.state['forgotten_ns'][row] != NEVER:
            by_key = believed(memory, name, book.map_id) is not None
            report = AbsenceReport(key=name, at_ns=0) if by_key else AbsenceReport(id=name, at_ns=0)
            hit = found(memory, report, frame_id, book.map_id)[0]
            adopted(hit, book, absence)
            name = str(hit.item.key)
        keys.append(name)
    return keys


def taken(
    report: AbsenceReport,
    hits: Sequence[Hit],
    book: LandmarkMap,
    absence: Absence,
    settings: LandmarkSettings,
) -> tuple[AbsenceAnswer, list[Ending], Receipt]:
    """Take a report into the landmarks that it is about; return the answer, what ends with it, and why."""
    event_count = _stood(report, book)
    viewpoint = _viewpoint(event_count, settings)
    judged: list[Judged] = []
    endings: list[Ending] = []
    existence, statuses = [], []
    for hit in hits:
        row = adopted(hit, book, absence)
        state = book.state
        exempt = bool(state['pinned'][row] or state['held'][row])
        # What was seen later is there, whoever did not see it before.
        outdated = report.at_ns < int(state['last_ns'][row])
        over, key = False, book.keys[row]
        before, doubted = float(state['existence'][row]), bool(state['stale'][row])
        if not (exempt or outdated):
            over = absence.report(row, report.confidence, viewpoint, book)
        after, stale = float(state['existence'][row]), bool(state['stale'][row])
        existence.append(probability(after))
        changed = (before, doubted) != (after, stale)
        outcome = 'gone' if over else 'stale' if changed else 'unchanged'
        outcome = 'exempt' if exempt else 'seen later' if outdated else outcome
        judged.append(Judged(key, before, after, outcome))
        if over and (ending := end(row, report.at_ns, f'reported absent by {report.actor}'.strip(), book)):
            endings.append(ending)
        statuses.append('forgotten' if over else 'stale' if stale else 'current')
    ids = tuple(str(hit.item.id) for hit in hits)
    receipt = report_receipt(
        report.at_ns, judged, book.map_id, settings, actor=report.actor, confidence=report.confidence,
        observed_from=event_count.translation, viewpoint=viewpoint,
    )  # fmt: skip
    return AbsenceAnswer(ids, tuple(existence), tuple(statuses), receipt.id), endings, receipt


def adopted(hit: Hit, book: LandmarkMap, absence: Absence) -> int:
    """Return the row of an item; one that was written by hand gets one, and statistics with it."""
    item = hit.item
    assert item.key is not None
    assert item.pose is not None
    assert item.valid_from_ns is not None
    row = book.row_of(item.key)
    if row is not None:
        state = book.state[row]
        by_hand = not state['observations']
        newer = state['forgotten_ns'] != NEVER or (by_hand and item.valid_from_ns > state['written_ns'])
        if not newer:
            return row
        book.revive(row)
        book.labels[row] = item.label
        book.state['source'][row] = BY_HAND
    else:
        row = book.add(item.key, item.label, has_instance=True)
    state = book.state[row]
    state['mean'] = state['written'] = item.pose.position
    for name in ('first_ns', 'since_ns', 'last_ns', 'written_ns'):
        state[name] = item.valid_from_ns
    if item.extent is not None:
        state['extent'] = item.extent
    state['score'], state['existence'] = item.confidence, absence.first(item.confidence)
    book.place(np.array([row]))
    return row


def _stood(report: AbsenceReport, book: LandmarkMap) -> Transform:
    if report.observed_from is not None:
        return report.observed_from
    if not len(book.keyframes):
        raise _refusal('observed_from', 'nobody knows where the robot stood: give it')
    return book.keyframes.pose(len(book.keyframes) - 1)


def _viewpoint(pose: Transform, settings: LandmarkSettings) -> int:
    """Return one number for all reports from one place and heading, as coarse as keyframes are."""
    x, y, z, w = pose.rotation
    heading = math.degrees(math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))) % 360.0
    step, turn = settings.keyframe_distance_m, TURN_DEG
    cell = (*(round(value / step) for value in pose.translation), round(heading / turn) % round(360.0 / turn))
    return digest32(repr(cell).encode()) + 1


def _refusal(field: str, why: str) -> InvalidRequestError:
    return InvalidRequestError(f'{field}: {why}', field=field)
