"""Receipts of perception: candidates, distances, gates and outcome of each decision."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.perception.existence.existence_filter import MissedLandmarks, probability
from hylo_memory_ros.perception.existence.visibility import Visibility
from hylo_memory_ros.perception.ingestion.observation import Message, Scan
from hylo_memory_ros.perception.map.landmark import NEVER
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.gating import Candidates
from hylo_memory_ros.perception.tracking.merging import MergeProof

RECEIPTS_KEPT = 1024
"""Number of the newest receipts that stay in memory, stored or not."""

_ID_DIGITS = 24
_DIGITS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Receipt:
    """A decision of data association, or all decisions about one message."""

    id: str
    """``association/`` and hexadecimal digits; the same decision has the same id in every run."""
    kind: str
    """``message``, ``merge``, ``absence``, ``displacement``, ``deletion``, ``report_absent``, or an op."""
    stamp_ns: int
    """Stamp of the message, or of the request, nanoseconds."""
    map_id: str
    """The map."""
    keys: tuple[str, ...]
    """Keys of the landmarks that were decided on."""
    stored: bool
    """Whether the decision changed stored state, so that the receipt is stored too."""
    facts: Sequence[Any]
    """Facts of the decision; see `as_dict`."""

    @property
    def named(self) -> Sequence[str]:
        """Return the keys of all landmarks in the receipt, candidates included."""
        options = self.facts[4] if self.kind == 'message' else ()
        return sorted({key for key in (*self.keys, *options) if key})

    def as_dict(self) -> dict[str, Any]:
        """Return the whole receipt as a JSON object."""
        about = {'id': self.id, 'kind': self.kind, 'stamp_ns': self.stamp_ns, 'map_id': self.map_id}
        facts = _message_facts(*self.facts) if self.kind == 'message' else dict(self.facts)
        return {**about, 'keys': list(self.keys), **facts}

    def as_json(self) -> str:
        """Return the receipt as JSON text, equal for equal decisions."""
        return json.dumps(self.as_dict(), ensure_ascii=False, sort_keys=True, separators=(',', ':'))


class ReceiptRing:
    """The newest receipts, by id.

    Parameters
    ----------
    most : int
        How many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, Receipt] = OrderedDict()

    def add(self, receipts: Sequence[Receipt]) -> None:
        """Keep receipts and drop the oldest beyond the capacity."""
        for receipt in receipts:
            self._kept[receipt.id] = receipt
            self._kept.move_to_end(receipt.id)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def get(self, receipt_id: str) -> Receipt | None:
        """Return a receipt that is still kept."""
        return self._kept.get(receipt_id)

    def clear(self) -> None:
        """Forget all receipts."""
        self._kept.clear()


def scan_receipt(
    scan: Scan,
    rows: NDArray[np.int64],
    new: NDArray[np.int64],
    found: Candidates,
    items: Sequence[MemoryItem],
    landmarks: LandmarkMap,
) -> Receipt:
    """Return the receipt of the data association of a message.

    Parameters
    ----------
    rows : ndarray of int
        Row of the landmark of each thing in the scan; negative: none.
    new : ndarray of int
        Things that began one.
    found : Candidates
        Candidates of each thing.
    items : sequence of MemoryItem
        Statements that follow.
    """
    keys = [landmarks.keys[row] if row >= 0 else '' for row in rows.tolist()]
    options = [landmarks.keys[row] for row in found.row.tolist()]
    written = tuple(item.key or '' for item in items)
    identity = f'{scan.input}\0{scan.stamp_ns}\0{scan.digest}'
    about = {'input': scan.input, 'gate_m': scan.gate_m, 'dof': scan.dof}
    facts = (about, scan.indices, keys, new, options, found, written)
    return Receipt(
        _id('message', identity), 'message', scan.stamp_ns, landmarks.map_id, tuple(keys), bool(items), facts
    )


def merge_receipt(scan: Scan, proof: MergeProof, landmarks: LandmarkMap) -> Receipt:
    """Return the receipt of a merge of two landmarks."""
    kept, gone = landmarks.keys[proof.kept], landmarks.keys[proof.gone]
    facts = {
        'input': scan.input,
        'merged': gone,
        'into': kept,
        'distance_m': round(proof.distance_m, _DIGITS),
        'squared_mahalanobis': round(proof.squared, _DIGITS),
        'outcome': 'merged',
    }
    return fact_receipt('merge', scan.stamp_ns, landmarks.map_id, (kept, gone), facts, (gone, kept))


def edit_receipt(
    op: str, keys: Sequence[str], at_ns: int, landmarks: LandmarkMap, actor: str, **facts: Any
) -> Receipt:
    """Return the receipt of an edit by hand."""
    facts = {'actor': actor, 'outcome': op, **facts}
    return fact_receipt(op, at_ns, landmarks.map_id, keys, facts, keys)


def fact_receipt(
    kind: str,
    stamp_ns: int,
    map_id: str,
    keys: Sequence[str],
    facts: Mapping[str, Any],
    about: Sequence[Any],
    *,
    stored: bool = True,
) -> Receipt:
    """Return the receipt of a decision that its facts describe.

    Parameters
    ----------
    facts : mapping
        The decision and its grounds, JSON.
    about : sequence
        Values that distinguish the decision from others of its kind and stamp.
    stored : bool
        Whether it changed stored state.
    """
    identity = '\0'.join(map(str, (stamp_ns, *about)))
    return Receipt(_id(kind, identity), kind, stamp_ns, map_id, tuple(keys), stored, tuple(facts.items()))


def _id(kind: str, identity: str) -> str:
    return f'association/{hashlib.sha256(f"{kind}{chr(0)}{identity}".encode()).hexdigest()[:_ID_DIGITS]}'


def _message_facts(
    about: dict[str, Any],
    indices: NDArray[np.int64],
    keys: Sequence[str],
    new: NDArray[np.int64],
    options: Sequence[str],
    found: Candidates,
    written: Sequence[str],
) -> dict[str, Any]:
    begun = set(new.tolist())
    candidates: dict[int, list[dict[str, Any]]] = {}
    for place, point in enumerate(found.point.tolist()):
        candidates.setdefault(point, []).append(
            {
                'landmark': options[place],
                'distance_m': round(float(found.distance[place]), _DIGITS),
                'squared_mahalanobis': round(float(found.squared[place]), _DIGITS),
                'cost': round(float(found.cost[place]), _DIGITS),
            }
        )
    decisions = [
        {
            'detection': index,
            'landmark': key,
            'outcome': 'new' if place in begun else 'given' if key else 'none',
            'cost_of_none': round(float(found.none[place]), _DIGITS),
            'candidates': candidates.get(place, []),
        }
        for place, (index, key) in enumerate(zip(indices.tolist(), keys, strict=True))
    ]
    return {**about, 'decisions': decisions, 'written': list(written)}


class ReportDecision(NamedTuple):
    """Decision about one landmark on a report of absence."""

    key: str
    """Key of the landmark."""
    before: float
    """Log-odds of existence before the report."""
    after: float
    """Log-odds of existence after the report."""
    outcome: str
    """``gone``, ``stale``, ``unchanged``, ``exempt`` (pinned or held) or ``seen later``."""


def absence_receipt(
    scan: Scan, missed: MissedLandmarks, visibility: str, landmarks: LandmarkMap, settings: LandmarkSettings
) -> Receipt:
    """Return the receipt of the misses of a message.

    Call it before the landmarks end. It is stored when a written landmark has ended, or became stale.

    Parameters
    ----------
    visibility : str
        Input of the visibility model; empty: none.
    """
    state = landmarks.state
    gone, decisions, stored = set(missed.gone.tolist()), [], False
    for row, before, was_stale, sight in zip(
        missed.rows.tolist(), missed.before.tolist(), missed.was_stale.tolist(), missed.sights, strict=True
    ):
        stale = bool(state['stale'][row])
        changed = (row in gone or stale != was_stale) and state['written_ns'][row] != NEVER
        stored |= bool(changed)
        decisions.append(
            {
                'landmark': landmarks.keys[row],
                'sight': None if sight is None else Visibility(sight).name.lower(),
                'misses': int(state['misses'][row]),
                **_existence(before, float(state['existence'][row])),
                'outcome': 'gone' if row in gone else 'stale' if stale else 'missed',
            }
        )
    facts = {
        'input': scan.input,
        'viewpoint': {
            'keyframe': len(landmarks.keyframes),
            'sensor': _place(scan.global_from_sensor.translation),
        },
        'witness': {'input': visibility, 'stamp_ns': missed.visibility_ns} if visibility else None,
        'gone_below': settings.gone_below,
        'stale_after': settings.stale_after,
        'decisions': decisions,
    }
    keys = [landmarks.keys[row] for row in missed.rows.tolist()]
    about = scan.input, scan.stamp_ns, scan.digest
    return fact_receipt('absence', scan.stamp_ns, landmarks.map_id, keys, facts, about, stored=stored)


def displacement_receipt(
    scan: Scan, before: int, after: int, landmarks: LandmarkMap, settings: LandmarkSettings
) -> Receipt:
    """Return the receipt of a displacement; call it before the displacement is applied."""
    state = landmarks.state
    key, other = landmarks.keys[before], landmarks.keys[after]
    step = state['mean'][after] - state['mean'][before]
    facts = {
        'input': scan.input,
        'moved': key,
        'was': other,
        'label': landmarks.labels[before],
        'from': _place(state['mean'][before].tolist()),
        'to': _place(state['mean'][after].tolist()),
        'distance_m': round(float(np.linalg.norm(step)), _DIGITS),
        'last_ns': int(state['last_ns'][before]),
        'gone_ns': int(state['forgotten_ns'][before]),
        'first_ns': int(state['first_ns'][after]),
        'within_s': settings.moved_within_s,
        'existence': round(probability(float(state['existence'][before])), _DIGITS),
        'gone_below': settings.gone_below,
        'outcome': 'moved',
    }
    return fact_receipt('displacement', scan.stamp_ns, landmarks.map_id, [key, other], facts, (key, other))


def deletion_receipt(message: Message, rows: Sequence[int], landmarks: LandmarkMap) -> Receipt:
    """Return the receipt of a deletion by an input; it is stored if anything deleted was written."""
    keys = [landmarks.keys[row] for row in rows]
    existence = landmarks.state['existence'][list(rows)].tolist()
    decisions = [
        {'landmark': key, 'existence_before': round(probability(one), _DIGITS), 'outcome': 'gone'}
        for key, one in zip(keys, existence, strict=True)
    ]
    stored = bool((landmarks.state['written_ns'][list(rows)] != NEVER).any())
    facts = {'input': message.input, 'decisions': decisions}
    about = message.input, message.stamp_ns, message.digest
    return fact_receipt('deletion', message.stamp_ns, landmarks.map_id, keys, facts, about, stored=stored)


def report_receipt(
    at_ns: int,
    judged: Sequence[ReportDecision],
    map_id: str,
    settings: LandmarkSettings,
    *,
    actor: str,
    confidence: float,
    observed_from: Sequence[float],
    viewpoint: int,
) -> Receipt:
    """Return the receipt of a report of absence; it is stored if anything changed.

    Parameters
    ----------
    observed_from : sequence of float, length 3
        Position of the observer, metres, in the global frame.
    viewpoint : int
        Viewpoint of the report; see `ExistenceFilter.report`.
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
    # A report may be repeated at the same time with another result.
    about = at_ns, actor, confidence, viewpoint, *judged
    return fact_receipt('report_absent', at_ns, map_id, keys, facts, about, stored=stored)


def _existence(before: float, after: float) -> dict[str, float]:
    return {
        'existence_before': round(probability(before), _DIGITS),
        'existence_after': round(probability(after), _DIGITS),
    }


def _place(position: Sequence[float]) -> list[float]:
    return [round(float(part), _DIGITS) for part in position]
