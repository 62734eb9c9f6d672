"""Reports of absence: a remembered thing was looked for and not found. Strong evidence, not a deletion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.model import Hit, MemoryKind, MemoryQuery, Pose
from hylo_memory_ros.perception.edits import MANUAL_SOURCE, current_item
from hylo_memory_ros.perception.existence.existence_filter import ExistenceFilter, probability
from hylo_memory_ros.perception.existence.existence_monitor import end_landmark
from hylo_memory_ros.perception.ingestion.observation import digest32
from hylo_memory_ros.perception.map.landmark import NEVER, LandmarkEnding
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.map.sightings import TURN_DEG
from hylo_memory_ros.perception.port import MemoryPort
from hylo_memory_ros.perception.receipts import Receipt, ReportDecision, report_receipt
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.transforms import Transform

Vector = tuple[float, float, float]

_MOST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsenceReport:
    """Report that a thing was looked for and not found."""

    id: str = ''
    """Id of the item."""
    key: str = ''
    """Key of the item, in the current map."""
    label: str = ''
    """Label of the things, with `where`."""
    where: Vector | None = None
    """Place that was found empty, metres, in the global frame; None: that of the item."""
    radius_m: float = 0.0
    """Radius of the empty region around the place, metres."""
    observed_from: Transform | None = None
    """``global_from_observer``; None: the newest keyframe of the robot."""
    at_ns: int
    """Time of the observation, nanoseconds."""
    confidence: float = 1.0
    """Probability that the thing would have been found if it were there, 0 to 1."""
    actor: str = ''
    """Person or process that reports."""


class AbsenceAnswer(NamedTuple):
    """Result of a report for each matching item."""

    ids: tuple[str, ...]
    """Ids of the items."""
    existence: tuple[float, ...]
    """Probability that each thing is still there."""
    statuses: tuple[str, ...]
    """``current``, ``stale``, or ``ended``."""
    receipt_id: str = ''
    """Receipt of the decisions."""


def validate_report(report: AbsenceReport) -> None:
    """Validate a report.

    Raises
    ------
    InvalidRequestError
        With the name of the field.
    """
    if not 0.0 <= report.confidence <= 1.0:
        raise _refusal('confidence', f'expected a number in [0, 1], got {report.confidence}')
    if not 0.0 <= report.radius_m < math.inf:
        raise _refusal('radius_m', f'expected a finite distance, got {report.radius_m}')
    if report.where is not None and not all(map(math.isfinite, report.where)):
        raise _refusal('where', f'expected finite coordinates, got {report.where}')
    if report.id and report.key:
        raise _refusal('key', f'expected either a key or an id, got {report.key!r} and {report.id!r}')
    if not (report.id or report.key):
        if not report.label:
            raise _refusal('id', 'expected an id, a key, or a label with where')
        if report.where is None:
            raise _refusal('where', f'expected the place of the absent {report.label!r}')


def find_items(memory: MemoryPort, report: AbsenceReport, frame_id: str, map_id: str) -> Sequence[Hit]:
    """Return the items that a report matches.

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
        raise NotFoundError(f'{field}: no current item {getattr(report, field)!r}', field=field)
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


def resolve_keys(
    memory: MemoryPort,
    names: Sequence[str],
    landmarks: LandmarkMap,
    existence_filter: ExistenceFilter,
    frame_id: str,
) -> list[str]:
    """Return the keys of landmarks named by key or id; an item written by hand becomes a landmark.

    Raises
    ------
    NotFoundError
        If nothing of that name is remembered in the map now.
    InvalidRequestError
        If it has no key, or no place in the global frame.
    """
    keys = []
    for name in names:
        row = landmarks.row_of(name)
        if row is None or landmarks.state['forgotten_ns'][row] != NEVER:
            by_key = current_item(memory, name, landmarks.map_id) is not None
            report = AbsenceReport(key=name, at_ns=0) if by_key else AbsenceReport(id=name, at_ns=0)
            hit = find_items(memory, report, frame_id, landmarks.map_id)[0]
            adopt_item(hit, landmarks, existence_filter)
            name = str(hit.item.key)
        keys.append(name)
    return keys


def apply_report(
    report: AbsenceReport,
    hits: Sequence[Hit],
    landmarks: LandmarkMap,
    existence_filter: ExistenceFilter,
    settings: LandmarkSettings,
) -> tuple[AbsenceAnswer, list[LandmarkEnding], Receipt]:
    """Apply a report to the matching landmarks; return the answer, the endings and the receipt."""
    observer = _observer_pose(report, landmarks)
    viewpoint = _viewpoint(observer, settings)
    decisions: list[ReportDecision] = []
    endings: list[LandmarkEnding] = []
    existence, statuses = [], []
    for hit in hits:
        row = adopt_item(hit, landmarks, existence_filter)
        state = landmarks.state
        exempt = bool(state['pinned'][row] or state['held'][row])
        # A detection newer than the report outweighs it.
        outdated = report.at_ns < int(state['last_ns'][row])
        over, key = False, landmarks.keys[row]
        before, was_stale = float(state['existence'][row]), bool(state['stale'][row])
        if not (exempt or outdated):
            over = existence_filter.report(row, report.confidence, viewpoint, landmarks)
        after, stale = float(state['existence'][row]), bool(state['stale'][row])
        existence.append(probability(after))
        changed = (before, was_stale) != (after, stale)
        outcome = 'gone' if over else 'stale' if changed else 'unchanged'
        outcome = 'exempt' if exempt else 'seen later' if outdated else outcome
        decisions.append(ReportDecision(key, before, after, outcome))
        if over and (
            ending := end_landmark(row, report.at_ns, f'reported absent by {report.actor}'.strip(), landmarks)
        ):
            endings.append(ending)
        statuses.append('ended' if over else 'stale' if stale else 'current')
    ids = tuple(str(hit.item.id) for hit in hits)
    receipt = report_receipt(
        report.at_ns, decisions, landmarks.map_id, settings, actor=report.actor, confidence=report.confidence,
        observed_from=observer.translation, viewpoint=viewpoint,
    )  # fmt: skip
    return AbsenceAnswer(ids, tuple(existence), tuple(statuses), receipt.id), endings, receipt


def adopt_item(hit: Hit, landmarks: LandmarkMap, existence_filter: ExistenceFilter) -> int:
    """Return the row of an item; an item written by hand becomes a landmark."""
    item = hit.item
    assert item.key is not None
    assert item.pose is not None
    assert item.valid_from_ns is not None
    row = landmarks.row_of(item.key)
    if row is not None:
        state = landmarks.state[row]
        by_hand = not state['observations']
        newer = state['forgotten_ns'] != NEVER or (by_hand and item.valid_from_ns > state['written_ns'])
        if not newer:
            return row
        landmarks.revive(row)
        landmarks.labels[row] = item.label
        landmarks.state['source'][row] = MANUAL_SOURCE
    else:
        row = landmarks.add(item.key, item.label, has_instance=True)
    state = landmarks.state[row]
    state['mean'] = state['written'] = item.pose.position
    for name in ('first_ns', 'since_ns', 'last_ns', 'written_ns'):
        state[name] = item.valid_from_ns
    if item.extent is not None:
        state['extent'] = item.extent
    state['score'], state['existence'] = item.confidence, existence_filter.initial_log_odds(item.confidence)
    landmarks.place(np.array([row]))
    return row


def _observer_pose(report: AbsenceReport, landmarks: LandmarkMap) -> Transform:
    if report.observed_from is not None:
        return report.observed_from
    if not len(landmarks.keyframes):
        raise _refusal('observed_from', 'expected a pose: no keyframe of the robot is known')
    return landmarks.keyframes.pose(len(landmarks.keyframes) - 1)


def _viewpoint(pose: Transform, settings: LandmarkSettings) -> int:
    """Return one number for all reports from one place and heading, quantized like keyframes."""
    x, y, z, w = pose.rotation
    heading = math.degrees(math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))) % 360.0
    step, turn = settings.keyframe_distance_m, TURN_DEG
    cell = (*(round(value / step) for value in pose.translation), round(heading / turn) % round(360.0 / turn))
    return digest32(repr(cell).encode()) + 1


def _refusal(field: str, why: str) -> InvalidRequestError:
    return InvalidRequestError(f'{field}: {why}', field=field)
