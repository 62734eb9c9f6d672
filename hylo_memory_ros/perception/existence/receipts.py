"""Why a landmark is in doubt, gone or elsewhere: what was missed, who saw it, what moved, who said so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hylo_memory_ros.perception.existence.absence import Missed, probability
from hylo_memory_ros.perception.existence.visibility import Sight
from hylo_memory_ros.perception.ingestion.observation import Message
from hylo_memory_ros.perception.ingestion.scan import Scan
from hylo_memory_ros.perception.map.columns import NEVER
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.receipts import Receipt, fact_receipt
from hylo_memory_ros.perception.settings import MOVED_WITHIN_S, LandmarkSettings

__all__ = ['Judged', 'absence_receipt', 'deletion_receipt', 'displacement_receipt', 'report_receipt']

_DIGITS = 6


class Judged(NamedTuple):
    """What became of one landmark by a report of absence."""

    key: str
    """Its key."""
    before: float
    """Log-odds of its existence before."""
    after: float
    """And after."""
    outcome: str
    """``gone``, ``stale``, ``unchanged``, ``exempt`` (pinned or held) or ``seen later``."""


def absence_receipt(
    scan: Scan, missed: Missed, visibility: str, book: LandmarkMap, settings: LandmarkSettings
) -> Receipt:
    """Return the receipt of what a message should have shown and did not.

    To be made before what is gone ends. It is to be stored when something that was written is gone,
    or is in doubt that was not.

    Parameters
    ----------
    visibility : str
        Input that told what could be seen; empty: none did.
    """
    state = book.state
    gone, decisions, stored = set(missed.gone.tolist()), [], False
    for row, before, doubted, sight in zip(
        missed.rows.tolist(), missed.before.tolist(), missed.doubted.tolist(), missed.sights, strict=True
    ):
        stale = bool(state['stale'][row])
        told = (row in gone or stale != doubted) and state['written_ns'][row] != NEVER
        stored |= bool(told)
        decisions.append(
            {
                'landmark': book.keys[row],
                'sight': None if sight is None else Sight(sight).name.lower(),
                'misses': int(state['misses'][row]),
                **_existence(before, float(state['existence'][row])),
                'outcome': 'gone' if row in gone else 'stale' if stale else 'missed',
            }
        )
    facts = {
        'input': scan.input,
        'viewpoint': {'keyframe': len(book.keyframes), 'sensor': _place(scan.global_from_sensor.translation)},
        'witness': {'input': visibility, 'stamp_ns': missed.witness_ns} if visibility else None,
        'gone_below': settings.gone_below,
        'stale_after': settings.stale_after,
        'decisions': decisions,
    }
    keys = [book.keys[row] for row in missed.rows.tolist()]
    about = scan.input, scan.stamp_ns, scan.digest
    return fact_receipt('absence', scan.stamp_ns, book.map_id, keys, facts, about, stored=stored)


def displacement_receipt(
    scan: Scan, before: int, after: int, book: LandmarkMap, settings: LandmarkSettings
) -> Receipt:
    """Return the receipt of a thing that was found gone and is elsewhere; to be made before it moves."""
    state = book.state
    key, other = book.keys[before], book.keys[after]
    step = state['mean'][after] - state['mean'][before]
    facts = {
        'input': scan.input,
        'moved': key,
        'was': other,
        'label': book.labels[before],
        'from': _place(state['mean'][before].tolist()),
        'to': _place(state['mean'][after].tolist()),
        'distance_m': round(float(np.linalg.norm(step)), _DIGITS),
        'last_ns': int(state['last_ns'][before]),
        'gone_ns': int(state['forgotten_ns'][before]),
        'first_ns': int(state['first_ns'][after]),
        'within_s': MOVED_WITHIN_S,
        'existence': round(probability(float(state['existence'][before])), _DIGITS),
        'gone_below': settings.gone_below,
        'outcome': 'moved',
    }
    return fact_receipt('displacement', scan.stamp_ns, book.map_id, [key, other], facts, (key, other))


def deletion_receipt(message: Message, rows: Sequence[int], book: LandmarkMap) -> Receipt:
    """Return the receipt of what an input says is gone; it is to be stored if any of that was written."""
    keys = [book.keys[row] for row in rows]
    existence = book.state['existence'][list(rows)].tolist()
    decisions = [
        {'landmark': key, 'existence_before': round(probability(one), _DIGITS), 'outcome': 'gone'}
        for key, one in zip(keys, existence, strict=True)
    ]
    stored = bool((book.state['written_ns'][list(rows)] != NEVER).any())
    facts = {'input': message.input, 'decisions': decisions}
    about = message.input, message.stamp_ns, message.digest
    return fact_receipt('deletion', message.stamp_ns, book.map_id, keys, facts, about, stored=stored)


def report_receipt(
    at_ns: int,
    judged: Sequence[Judged],
    map_id: str,
    settings: LandmarkSettings,
    *,
    actor: str,
    confidence: float,
    observed_from: Sequence[float],
    viewpoint: int,
) -> Receipt:
    """Return the receipt of a report of absence; it is to be stored if anything changed.

    Parameters
    ----------
    observed_from : sequence of float, length 3
        Where it was looked from, metres, in the global frame.
    viewpoint : int
        What it counts as; see `Absence.report`.
    """
    decisions = [
        {'landmark': one.key, **_existence(one.before, one.after), 'outcome': one.outcome} for one in judged
    ]
    facts = {
        'actor': actor,
        'confidence': confidence,
        'viewpoint': {'digest': viewpoint, 'observer': _place(observed_from)},
        'gone_below': settings.gone_below,
        'decisions': decisions,
    }
    keys = [one.key for one in judged]
    stored = bool({'gone', 'stale'} & {one.outcome for one in judged})
    # The same report may be made twice at one time, and come to something else.
    about = at_ns, actor, confidence, viewpoint, *judged
    return fact_receipt('report_absent', at_ns, map_id, keys, facts, about, stored=stored)


def _existence(before: float, after: float) -> dict[str, float]:
    return {
        'existence_before': round(probability(before), _DIGITS),
        'existence_after': round(probability(after), _DIGITS),
    }


def _place(position: Sequence[float]) -> list[float]:
    return [round(float(part), _DIGITS) for part in position]
