"""State of a landmark, its stored row, and its statement in the memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.model import MemoryItem, MemoryKind, Pose, normalize_key

KEY_DIGITS = 12
"""Hexadecimal digits in the key of a landmark."""

_POSITION_DIGITS = 6
# Micrometres would round the variance of a millimetre away.
_VARIANCE_DIGITS = 9

Vector = tuple[float, float, float]


class LandmarkEstimate(NamedTuple):
    """Estimate of a landmark from all its observations."""

    key: str
    """Key of the landmark."""
    label: str
    """Label of the landmark."""
    mean: Vector
    """Position in the global frame, metres, x y z."""
    covariance: tuple[float, float, float, float, float, float]
    """Of the mean, m^2: xx xy xz yy yz zz."""
    extent: Vector | None
    """Mean size of its boxes, metres; None: unknown."""
    score: float
    """Mean score, 0 to 1."""
    orientation: tuple[float, float, float, float] | None = None
    """Quaternion x y z w in the global frame; None: unknown."""


def landmark_key(
    label: str, source: str, stamp_ns: int, digest: int, index: int, digits: int = KEY_DIGITS
) -> str:
    """Return the key of a landmark that begins with an observation.

    Parameters
    ----------
    label : str
        Class of the landmark.
    source, stamp_ns, digest, index
        Input, stamp, digest of the message and index in it.
    digits : int
        Hexadecimal digits; more than `KEY_DIGITS` only when the key is taken.

    Examples
    --------
    >>> landmark_key('tree', 'trees', 10**18, 7, 0)
    'tree/6e71a7b059ab'
    """
    first = f'{source}\0{stamp_ns}\0{digest}\0{index}'
    return f'{label}/{hashlib.sha256(first.encode()).hexdigest()[:digits]}'


def normalize_label(label: str) -> str | None:
    """Return a label in its stored form, or None when no key can be made of it."""
    try:
        return normalize_key(f'{label}/{"0" * KEY_DIGITS}')[: -KEY_DIGITS - 1] if label.strip() else None
    except ValueError:
        return None


def create_item(
    fused: LandmarkEstimate, *, frame_id: str, map_id: str, source: str, valid_from_ns: int, stamp_ns: int
) -> MemoryItem:
    """Return the statement of a landmark at its estimated pose.

    LandmarkEstimate values are rounded to 1e-6 m and 1e-9 m^2: the last bits are not what was measured.

    Parameters
    ----------
    frame_id, map_id : str
        Global frame and map; an empty map: none.
    source : str
        Input whose observation made it so.
    valid_from_ns, stamp_ns : int
        Since when it is so, and the stamp of that observation, nanoseconds.
    """
    xx, xy, xz, yy, yz, zz = (round(part, _VARIANCE_DIGITS) + 0.0 for part in fused.covariance)
    unknown = (0.0, 0.0, 0.0)
    rows = ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))
    covariance = tuple(part for row in rows for part in (*row, *unknown)) + 6 * unknown
    return MemoryItem(
        kind=MemoryKind.SPATIAL,
        key=fused.key,
        label=fused.label,
        content=fused.label,
        pose=Pose(
            frame_id=frame_id,
            position=_rounded(fused.mean),
            orientation=fused.orientation,
            covariance=covariance,
            stamp_ns=stamp_ns,
        ),
        extent=None if fused.extent is None else _rounded(fused.extent),
        scope={'map_id': map_id} if map_id else {},
        confidence=round(fused.score, _POSITION_DIGITS),
        source=f'hylo_memory_ros/{source}',
        valid_from_ns=valid_from_ns,
    )


def _rounded(vector: Vector) -> Vector:
    x, y, z = (round(part, _POSITION_DIGITS) + 0.0 for part in vector)
    return x, y, z


NEVER = -1
"""Stamp of an event that has not happened."""

REPORTS = 8
"""Number of viewpoints of absence reports that are kept apart."""

Columns = tuple[tuple[str, int], ...]

NEIGHBOURS = 4
"""Number of neighbours that are tracked as candidates for a merge."""

_INTEGERS = (
    *('number', 'observations', 'n', 'first_ns', 'since_ns', 'last_ns'),
    *('merged_into', 'chances', 'viewpoint', 'misses'),
    'source',
)
_FLAGS = ('has_instance', 'stale', 'pinned', 'held')
_ESTIMATE = (
    ('covariance', 6),
    ('extent', 3),
    ('score', 1),
    ('prior_information', 6),
    ('prior_vector', 3),
    ('evidence', 1),
)
_ORIENTATION = (('rotation', 4), ('rotation_n', 1), ('flipped', 4), ('flipped_n', 1), ('written_rotation', 4))
_TURNS = sum(width for _, width in _ORIENTATION)

COLUMNS = np.dtype(
    [
        *((name, 'i8') for name in _INTEGERS),
        ('mean', 'f8', 3),
        ('covariance', 'f8', 6),
        ('extent', 'f8', 3),
        ('score', 'f8'),
        ('prior_information', 'f8', 6),
        ('prior_vector', 'f8', 3),
        *((name, 'f8', width) if width > 1 else (name, 'f8') for name, width in _ORIENTATION),
        ('existence', 'f8'),
        ('evidence', 'f8'),
        ('reported', 'i8', REPORTS),
        ('rivals', 'i8', NEIGHBOURS),
        ('rivalry', 'i8', NEIGHBOURS),
        ('written_ns', 'i8'),
        ('written', 'f8', 3),
        ('forgotten_ns', 'i8'),
        ('cell', 'i8'),
        ('slot', 'i8'),
        *((name, '?') for name in _FLAGS),
        ('live', '?'),
        ('placed', '?'),
        ('dirty', '?'),
        ('saved', '?'),
    ]
)
"""Numbers, counts, stamps (ns), mean (m), covariance (m^2, xx xy xz yy yz zz), extent (m), score.

`merged_into` is the number of the landmark that it was merged into, 0: none. `prior_information`
(1/m^2) and `prior_vector` (1/m) sum all sightings except the newest, in the global frame; `slot` is
that of the newest. `existence` is the log-odds that it is still there, 0 for no evidence; `viewpoint`
is the keyframe that counted last, `evidence` its change of the log-odds, and `misses` the number of
viewpoints in a row that missed it; `reported` has the viewpoints that reported it absent since it was
last seen (digests, 0: none). `rivals` are numbers of older landmarks that it may be merged into, and
`rivalry` the evidence for that: messages with only one of the two, less a multiple of those with both.
`chances` counts the messages that might show a tentative landmark: those of its input since it was
first seen from each keyframe. `rotation` (quaternion x y z w) is the mean orientation of most
observations, `flipped` that of the others, each with its number of observations (0: unknown), and
`written_rotation` the last written one. `source` is the digest of the name of the input that began it.
Then follow the position and the time that were last written, and flags of the map."""

State = NDArray[np.void]
"""One row of `COLUMNS` per landmark."""


def new_state() -> State:
    """Return the state of a new landmark."""
    state = np.zeros((), COLUMNS)
    state['live'] = True
    state['written_ns'] = state['forgotten_ns'] = NEVER
    state['extent'] = state['written'] = np.nan
    state['slot'] = -1
    return state


def pack_state(state: np.void, scores: Mapping[str, float], **columns: Any) -> dict[str, Any]:
    """Return the stored row of a landmark.

    Parameters
    ----------
    scores : mapping
        Sum of scores by label.
    columns
        Further columns: ``map_id``, ``key``, ``label``, ``held_in``.
    """
    written_ns, forgotten_ns = int(state['written_ns']), int(state['forgotten_ns'])
    x, y, z = state['mean'].tolist()
    return {
        **{name: int(state[name]) for name in _INTEGERS},
        **{name: bool(state[name]) for name in _FLAGS},
        **columns,
        'labels': json.dumps(scores, ensure_ascii=False, sort_keys=True, separators=(',', ':')),
        'existence': float(state['existence']),
        'reported': state['reported'].astype('<i8').tobytes() if state['reported'].any() else None,
        'x': x,
        'y': y,
        'z': z,
        'estimate': _joined(state, _ESTIMATE),
        'orientation': _joined(state, _ORIENTATION) if state['rotation_n'] else None,
        'rivals': _rivals(state) if state['rivals'].any() else None,
        'written_ns': None if written_ns == NEVER else written_ns,
        'written': None if written_ns == NEVER else state['written'].astype('<f8').tobytes(),
        'forgotten_ns': None if forgotten_ns == NEVER else forgotten_ns,
    }


def unpack_states(stored: Mapping[str, Sequence[Any]]) -> State:
    """Return the states of stored rows, given column by column."""
    states = np.full(len(stored['number']), new_state())
    for name in (*_INTEGERS, *_FLAGS, 'existence'):
        states[name] = stored[name]
    for axis, name in enumerate('xyz'):
        states['mean'][:, axis] = stored[name]
    _part(states, _ESTIMATE, b''.join(stored['estimate']))
    unknown = bytes(8 * _TURNS)
    _part(states, _ORIENTATION, b''.join(turns or unknown for turns in stored['orientation']))
    nowhere = np.full(3, np.nan, dtype='<f8').tobytes()
    places = b''.join(place or nowhere for place in stored['written'])
    states['written'] = np.frombuffer(places, dtype='<f8').reshape(-1, 3)
    none = bytes(16 * NEIGHBOURS)
    rivals = np.frombuffer(b''.join(part or none for part in stored['rivals']), dtype='<i8')
    states['rivals'], states['rivalry'] = rivals.reshape(-1, 2, NEIGHBOURS).transpose(1, 0, 2)
    for name in ('written_ns', 'forgotten_ns'):
        states[name] = [NEVER if stamp is None else stamp for stamp in stored[name]]
    none = bytes(8 * REPORTS)
    reported = np.frombuffer(b''.join(part or none for part in stored['reported']), dtype='<i8')
    states['reported'] = reported.reshape(-1, REPORTS)
    states['saved'] = True
    return states


def _rivals(state: np.void) -> bytes:
    return np.concatenate([state['rivals'], state['rivalry']]).astype('<i8').tobytes()


def _joined(state: np.void, columns: Columns) -> bytes:
    return np.concatenate([np.reshape(state[name], -1) for name, _ in columns]).astype('<f8').tobytes()


def _part(states: State, columns: Columns, joined: bytes) -> None:
    values = np.frombuffer(joined, dtype='<f8').reshape(-1, sum(width for _, width in columns))
    start = 0
    for name, width in columns:
        states[name] = values[:, start : start + width].reshape(states[name].shape)
        start += width


def orientation_of(state: np.void) -> tuple[float, float, float, float] | None:
    """Return the orientation of a landmark, quaternion x y z w; None: unknown."""
    if not state['rotation_n']:
        return None
    x, y, z, w = (round(part, _POSITION_DIGITS) + 0.0 for part in state['rotation'].tolist())
    return x, y, z, w


class LandmarkEnding(NamedTuple):
    """End of the item of a landmark."""

    key: str
    """Key of the landmark."""
    at_ns: int
    """Time of the end, nanoseconds."""
    map_id: str = ''
    """Map of the landmark; empty: none."""
    reason: str = ''
    """Reason, such as ``merged into cup/6e71a7b059ab``."""
    merged_into: str = ''
    """Key of the landmark that it was merged into; empty: none."""
