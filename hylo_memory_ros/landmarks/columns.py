"""What is held of each landmark, by column; and the stored row of it, both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ['COLUMNS', 'NEVER', 'State', 'fresh', 'stored_row', 'unpacked']

NEVER = -1
"""In a column of stamps: it has not happened."""

_INTEGERS = ('number', 'observations', 'n', 'first_ns', 'since_ns', 'last_ns')

COLUMNS = np.dtype(
    [
        *((name, 'i8') for name in _INTEGERS),
        ('mean', 'f8', 3),
        ('covariance', 'f8', 6),
        ('extent', 'f8', 3),
        ('score', 'f8'),
        ('written_ns', 'i8'),
        ('written', 'f8', 3),
        ('forgotten_ns', 'i8'),
        ('cell', 'i8'),
        ('has_instance', '?'),
        ('live', '?'),
        ('placed', '?'),
        ('dirty', '?'),
        ('saved', '?'),
    ]
)
"""Counts, stamps (ns), mean (m), covariance (m^2, xx xy xz yy yz zz), extent (m), score; the place and
the time that were last written; and what the book needs to know of the row."""

State = NDArray[np.void]
"""One row of `COLUMNS` per landmark."""


def fresh() -> State:
    """Return the state of a landmark that was never seen."""
    state = np.zeros((), COLUMNS)
    state['live'] = True
    state['written_ns'] = state['forgotten_ns'] = NEVER
    state['extent'] = state['written'] = np.nan
    return state


def stored_row(state: np.void, map_id: str, key: str, label: str) -> dict[str, Any]:
    """Return the row that is stored of a landmark."""
    written_ns, forgotten_ns = int(state['written_ns']), int(state['forgotten_ns'])
    x, y, z = state['mean'].tolist()
    estimate = np.array((*state['covariance'], *state['extent'], state['score']), dtype='<f8')
    return {
        **{name: int(state[name]) for name in _INTEGERS},
        'map_id': map_id,
        'key': key,
        'label': label,
        'has_instance': bool(state['has_instance']),
        'x': x,
        'y': y,
        'z': z,
        'estimate': estimate.tobytes(),
        'written_ns': None if written_ns == NEVER else written_ns,
        'written': None if written_ns == NEVER else state['written'].astype('<f8').tobytes(),
        'forgotten_ns': None if forgotten_ns == NEVER else forgotten_ns,
    }


def unpacked(stored: Mapping[str, Sequence[Any]]) -> State:
    """Return the states of stored rows, which are given column by column."""
    states = np.full(len(stored['number']), fresh())
    for name in (*_INTEGERS, 'has_instance'):
        states[name] = stored[name]
    for axis, name in enumerate('xyz'):
        states['mean'][:, axis] = stored[name]
    estimate = np.frombuffer(b''.join(stored['estimate']), dtype='<f8').reshape(-1, 10)
    states['covariance'], states['extent'], states['score'] = (
        estimate[:, :6],
        estimate[:, 6:9],
        estimate[:, 9],
    )
    nowhere = np.full(3, np.nan, dtype='<f8').tobytes()
    places = b''.join(place or nowhere for place in stored['written'])
    states['written'] = np.frombuffer(places, dtype='<f8').reshape(-1, 3)
    for name in ('written_ns', 'forgotten_ns'):
        states[name] = [NEVER if stamp is None else stamp for stamp in stored[name]]
    states['saved'] = True
    return states
