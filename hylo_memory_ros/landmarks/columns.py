"""What is held of each landmark, by column; and the stored row of it, both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ['APART', 'COLUMNS', 'NEVER', 'State', 'fresh', 'stored_row', 'unpacked']

NEVER = -1
"""In a column of stamps: it has not happened."""

APART = 4
"""How many neighbours a landmark is known to be told apart from."""

_INTEGERS = (
    *('number', 'observations', 'n', 'first_ns', 'since_ns', 'last_ns'),
    *('merged_into', 'rival', 'rival_n'),
)
_FLAGS = ('has_instance', 'stale', 'pinned', 'held')
_ESTIMATE = (
    ('covariance', 6),
    ('extent', 3),
    ('score', 1),
    ('prior_information', 6),
    ('prior_vector', 3),
)
_PARTS = sum(width for _, width in _ESTIMATE)

COLUMNS = np.dtype(
    [
        *((name, 'i8') for name in _INTEGERS),
        ('mean', 'f8', 3),
        ('covariance', 'f8', 6),
        ('extent', 'f8', 3),
        ('score', 'f8'),
        ('prior_information', 'f8', 6),
        ('prior_vector', 'f8', 3),
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
and `rival_n` in how many messages only one of the two was seen. Then the place and the time that were
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
    estimate = np.concatenate([np.reshape(state[name], -1) for name, _ in _ESTIMATE]).astype('<f8')
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
        'estimate': estimate.tobytes(),
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
    estimate = np.frombuffer(b''.join(stored['estimate']), dtype='<f8').reshape(-1, _PARTS)
    start = 0
    for name, width in _ESTIMATE:
        states[name] = estimate[:, start : start + width].reshape(states[name].shape)
        start += width
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
