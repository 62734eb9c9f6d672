"""Why an observation was given to a landmark: candidates, distances, gates, outcome."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.perception.ingestion.scan import Scan
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.tracking.gating import Candidates
from hylo_memory_ros.perception.tracking.merging import Proof

__all__ = [
    'RECEIPTS_KEPT',
    'Receipt',
    'ReceiptRing',
    'edit_receipt',
    'fact_receipt',
    'merge_receipt',
    'scan_receipt',
]

RECEIPTS_KEPT = 1024
"""How many of the newest stay in memory, stored or not."""

_ID_DIGITS = 24
_DIGITS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Receipt:
    """One decision of association, or all those about one message."""

    id: str
    """``association/`` and hexadecimal digits; the same decision has the same id in every run."""
    kind: str
    """``message``, ``merge``, ``absence``, ``displacement``, ``deletion``, ``report_absent``, or an op."""
    stamp_ns: int
    """Stamp of the message, or of the request, nanoseconds."""
    map_id: str
    """The map."""
    keys: tuple[str, ...]
    """Landmarks that it is about."""
    stored: bool
    """Whether it changed what is stored, and so is stored itself."""
    facts: Sequence[Any]
    """What was decided on; see `as_dict`."""

    @property
    def named(self) -> Sequence[str]:
        """Return the keys of all landmarks that it names, candidates included."""
        options = self.facts[4] if self.kind == 'message' else ()
        return sorted({key for key in (*self.keys, *options) if key})

    def as_dict(self) -> dict[str, Any]:
        """Return the whole receipt as a JSON object."""
        about = {'id': self.id, 'kind': self.kind, 'stamp_ns': self.stamp_ns, 'map_id': self.map_id}
        told = _told_message(*self.facts) if self.kind == 'message' else dict(self.facts)
        return {**about, 'keys': list(self.keys), **told}

    def as_json(self) -> str:
        """Return it as text, the same for the same decision."""
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
        """Keep receipts; the oldest leave."""
        for receipt in receipts:
            self._kept[receipt.id] = receipt
            self._kept.move_to_end(receipt.id)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def get(self, receipt_id: str) -> Receipt | None:
        """Return a receipt that is still kept."""
        return self._kept.get(receipt_id)

    def clear(self) -> None:
        """Forget them all."""
        self._kept.clear()


def scan_receipt(
    scan: Scan,
    rows: NDArray[np.int64],
    new: NDArray[np.int64],
    found: Candidates,
    items: Sequence[MemoryItem],
    book: LandmarkMap,
) -> Receipt:
    """Return the receipt of a message.

    Parameters
    ----------
    rows : ndarray of int
        Row of the landmark of each thing in the scan; negative: none.
    new : ndarray of int
        Things that began one.
    found : Candidates
        What each could have been.
    items : sequence of MemoryItem
        What was written in consequence.
    """
    keys = [book.keys[row] if row >= 0 else '' for row in rows.tolist()]
    options = [book.keys[row] for row in found.row.tolist()]
    written = tuple(item.key or '' for item in items)
    identity = f'{scan.input}\0{scan.stamp_ns}\0{scan.digest}'
    about = {'input': scan.input, 'gate_m': scan.gate_m, 'dof': scan.dof}
    facts = (about, scan.indices, keys, new, options, found, written)
    return Receipt(
        _id('message', identity), 'message', scan.stamp_ns, book.map_id, tuple(keys), bool(items), facts
    )


def merge_receipt(scan: Scan, proof: Proof, book: LandmarkMap) -> Receipt:
    """Return the receipt of two landmarks that became one."""
    kept, gone = book.keys[proof.kept], book.keys[proof.gone]
    facts = {
        'input': scan.input,
        'merged': gone,
        'into': kept,
        'distance_m': round(proof.distance_m, _DIGITS),
        'squared_mahalanobis': round(proof.squared, _DIGITS),
        'outcome': 'merged',
    }
    return fact_receipt('merge', scan.stamp_ns, book.map_id, (kept, gone), facts, (gone, kept))


def edit_receipt(
    op: str, keys: Sequence[str], at_ns: int, book: LandmarkMap, actor: str, **facts: Any
) -> Receipt:
    """Return the receipt of an edit by hand."""
    told = {'actor': actor, 'outcome': op, **facts}
    return fact_receipt(op, at_ns, book.map_id, keys, told, keys)


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
    """Return the receipt of a decision that is told by its facts.

    Parameters
    ----------
    facts : mapping
        What was decided and on what grounds; JSON.
    about : sequence
        What tells the decision from all others of its kind and stamp.
    stored : bool
        Whether it changed what is stored.
    """
    identity = '\0'.join(map(str, (stamp_ns, *about)))
    return Receipt(_id(kind, identity), kind, stamp_ns, map_id, tuple(keys), stored, tuple(facts.items()))


def _id(kind: str, identity: str) -> str:
    return f'association/{hashlib.sha256(f"{kind}{chr(0)}{identity}".encode()).hexdigest()[:_ID_DIGITS]}'


def _told_message(
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
