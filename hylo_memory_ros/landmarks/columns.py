"""What is held of each landmark, by column; and the stored row of it, both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ['APART', 'COLUMNS', 'NEVER', 'State', 'fresh', 'stored_row', 'unpacked']

NEVER = -1
"""In a column of stamps: it has not happened."""

Columns = tuple[tuple[str, int], ...]

APART = 4
"""How many neighbours a landmark is known to be told apart from."""

_INTEGERS = (
    *('number', 'observations', 'n', 'first_ns', 'since_ns', 'last_ns'),
    *('merged_into', 'rival', 'rival_n'),
    'source',
)
_FLAGS = ('has_instance', 'stale', 'pinned', 'held')
_ESTIMATE = (
    ('covariance', 6),
    ('extent', 3),
    ('score', 1),
    ('prior_information', 6),
    ('prior_vector', 3),
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
        ('apart', 'i8', APART),
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

`merged_into` is the number of the landmark that it proved to be, 0: none. `prior_information` (1/m^2)
and `prior_vector` (1/m) are what all sightings but the newest amount to, in the global frame; `slot` is
where the newest is. `existence` is the log-odds that it is still there, 0 for no opinion. `apart` are
numbers of landmarks that were seen beside it in one message, `rival` the one that it may prove to be,
and `rival_n` in how many messages only one of the two was seen. `rotation` (quaternion x y z w) is how
most observations see it turned, `flipped` what others agree on, with the number of observations that
each stands for (0: unknown), `written_rotation` what was last written. `source` is the digest of the
name of the input that began it. Then the place and the time that were
last written; and what the book needs to know of the row."""

State = NDArray[np.void]
"""One row of `COLUMNS` per landmark."""


def fresh() -> State:
    """Return the state of a landmark that was never seen."""
    state = np.zeros((), COLUMNS)
    state['live'] = True
    state['written_ns'] = state['forgotten_ns'] = NEVER
    state['extent'] = state['written'] = np.nan
    state['slot'] = -1
    return state


def stored_row(state: np.void, map_id: str, key: str, label: str, labels: str) -> dict[str, Any]:
    """Return the row that is stored of a landmark; `labels` are its label scores as JSON."""
    written_ns, forgotten_ns = int(state['written_ns']), int(state['forgotten_ns'])
    x, y, z = state['mean'].tolist()
    return {
        **{name: int(state[name]) for name in _INTEGERS},
        **{name: bool(state[name]) for name in _FLAGS},
        'map_id': map_id,
        'key': key,
        'label': label,
        'labels': labels,
        'existence': float(state['existence']),
        'x': x,
        'y': y,
        'z': z,
        'estimate': _joined(state, _ESTIMATE),
        'orientation': _joined(state, _ORIENTATION) if state['rotation_n'] else None,
        'apart': state['apart'].astype('<i8').tobytes() if state['apart'].any() else None,
        'written_ns': None if written_ns == NEVER else written_ns,
        'written': None if written_ns == NEVER else state['written'].astype('<f8').tobytes(),
        'forgotten_ns': None if forgotten_ns == NEVER else forgotten_ns,
    }


def unpacked(stored: Mapping[str, Sequence[Any]]) -> State:
    """Return the states of stored rows, which are given column by column."""
    states = np.full(len(stored['number']), fresh())
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
    none = bytes(8 * APART)
    apart = b''.join(numbers or none for numbers in stored['apart'])
    states['apart'] = np.frombuffer(apart, dtype='<i8').reshape(-1, APART)
    for name in ('written_ns', 'forgotten_ns'):
        states[name] = [NEVER if stamp is None else stamp for stamp in stored[name]]
    states['saved'] = True
    return states


def _joined(state: np.void, columns: Columns) -> bytes:
    return np.concatenate([np.reshape(state[name], -1) for name, _ in columns]).astype('<f8').tobytes()


def _part(states: State, columns: Columns, joined: bytes) -> None:
    values = np.frombuffer(joined, dtype='<f8').reshape(-1, sum(width for _, width in columns))
    start = 0
    for name, width in columns:
        states[name] = values[:, start : start + width].reshape(states[name].shape)
        start += width
