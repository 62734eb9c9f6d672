"""Landmarks of one map as columns, with lookup by key and by place, and change tracking."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.ingestion.observation import digest32
from hylo_memory_ros.perception.map.landmark import (
    COLUMNS,
    NEVER,
    LandmarkEstimate,
    new_state,
    orientation_of,
    pack_state,
    unpack_states,
)
from hylo_memory_ros.perception.map.sightings import Keyframes, SightingChanges, Sightings, StoredKeyframe
from hylo_memory_ros.perception.settings import LandmarkSettings

_FIRST_CAPACITY = 64
# Removal in batches spreads the cost of one sort.
_BATCHES = 16

Rows = NDArray[np.int64]


class LandmarkMap:
    """All landmarks of one map, tentative and forgotten ones included.

    A landmark is a row of `state`. The rows of those that left are used again, so a row names a
    landmark only until the next `trim_tentative`, `trim_forgotten` or
    `remove`; its key and its number are for good.

    Parameters
    ----------
    map_id : str
        The map.
    gate_m : float
        Largest radius by which landmarks will be looked for, metres.
    numbering : NumberSequence
        Where new landmarks get their numbers.
    stored : mapping
        What was saved, column by column.
    keyframes : Keyframes
        Those of the map.
    sightings : Sightings
        Those of its landmarks.
    """

    def __init__(
        self,
        map_id: str,
        gate_m: float,
        numbering: NumberSequence | None = None,
        stored: Mapping[str, Sequence[Any]] | None = None,
        *,
        keyframes: Keyframes | None = None,
        sightings: Sightings | None = None,
    ) -> None:
        self.map_id = map_id
        self.keyframes = Keyframes(LandmarkSettings()) if keyframes is None else keyframes
        """Poses of the base of the robot."""
        self.sightings = Sightings() if sightings is None else sightings
        """The sightings of all landmarks."""
        self._numbering = numbering or NumberSequence()
        self.state = np.zeros(_FIRST_CAPACITY, COLUMNS)
        """One row of `COLUMNS` per landmark."""
        self.keys: list[str] = []
        """Key of each row."""
        self.labels: list[str] = []
        """Label of each row."""
        self.scores: list[dict[str, float]] = []
        """Sum of scores of each row by label."""
        self.newest_forgotten_ns = NEVER
        """Upper bound of the stamps at which anything was forgotten or ended; merges do not count."""
        self.held_in: dict[int, str] = {}
        """Frame that a row is held in, where known."""
        self._grid = CellGrid(gate_m)
        self._row_of: dict[str, int] = {}
        self._free: list[int] = []
        self._deleted: set[int] = set()
        self._watched: set[int] = set()
        if stored:
            self._load(stored)

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, key: str) -> bool:
        return key in self._row_of

    def row_of(self, key: str) -> int | None:
        """Return the row of a key."""
        return self._row_of.get(key)

    def counts(self) -> tuple[int, int]:
        """Return the number of landmarks that are not forgotten, and of those that were written."""
        state = self.state[: len(self.keys)]
        held = state['live'] & (state['forgotten_ns'] == NEVER)
        return int(held.sum()), int((held & (state['written_ns'] != NEVER)).sum())

    def near(self, points: NDArray[np.float64]) -> tuple[Rows, Rows]:
        """Return pairs of point and row that may be within the gate; see `CellGrid.near`.

        Things that are known by name, and those that proved to be others, are not among them.
        """
        return self._grid.near(points)

    def fused(self, row: int) -> LandmarkEstimate:
        """Return the estimate of a landmark."""
        state = self.state[row]
        mean, covariance, extent = (tuple(state[name].tolist()) for name in ('mean', 'covariance', 'extent'))
        size = None if np.isnan(extent[0]) else extent
        score, turn = float(state['score']), orientation_of(state)
        return LandmarkEstimate(self.keys[row], self.labels[row], mean, covariance, size, score, turn)

    def add(self, key: str, label: str, *, has_instance: bool = False, source: str = '') -> int:
        """Begin a new landmark and return its row; `place` it once it has a mean."""
        row = self._free.pop() if self._free else self._new_row()
        self.keys[row], self.labels[row], self.scores[row] = key, label, {}
        self._row_of[key] = row
        state = new_state()
        state['number'], state['has_instance'] = self._numbering.take(), has_instance
        state['source'] = digest32(source.encode())
        self.state[row] = state
        return row

    def watch(self, rows: Rows) -> None:
        """Count messages that might show these tentative landmarks from now on."""
        self._watched.update(rows.tolist())

    def end_viewpoint(self) -> None:
        """Stop counting such messages: the robot has moved on."""
        self._watched.clear()

    def count_chance(self, source: str) -> None:
        """Count a message of an input as a chance of the watched landmarks."""
        rows = np.fromiter(self._watched, np.int64, len(self._watched))
        rows = rows[self.state['source'][rows] == digest32(source.encode())]
        self.state['chances'][rows] += 1
        self.state['dirty'][rows] = True

    def place(self, rows: Rows) -> None:
        """Mark landmarks as changed and update their cells."""
        state = self.state
        state['dirty'][rows] = True
        rows = rows[~state['has_instance'][rows] & (state['merged_into'][rows] == 0)]
        cells = np.array(self._grid.cells(state['mean'][rows]), dtype=np.int64)
        changed = (cells != state['cell'][rows]) | ~state['placed'][rows]
        for row, cell in zip(rows[changed].tolist(), cells[changed].tolist(), strict=True):
            self._unplace(row)
            self._grid.add(cell, row)
            state['cell'][row], state['placed'][row] = cell, True

    def remove(self, row: int) -> None:
        """Remove a landmark and its stored row."""
        state = self.state[row]
        self._unplace(row)
        self._deleted.add(int(state['number']))
        self._drop(row)

    def forget(self, row: int, at_ns: int) -> None:
        """Forget a landmark: it remains only to absorb evidence up to a stamp."""
        self.state['forgotten_ns'][row] = at_ns
        self.newest_forgotten_ns = max(self.newest_forgotten_ns, at_ns)
        self.state['dirty'][row] = True

    def merge(self, row: int, into: int, at_ns: int) -> None:
        """Merge a landmark into another one, which takes over its sightings."""
        state = self.state
        self._unplace(row)
        self.sightings.give(self.sightings.of(int(state['number'][row])), int(state['number'][into]))
        state['merged_into'][row], state['forgotten_ns'][row] = state['number'][into], at_ns
        state['dirty'][row] = state['dirty'][into] = True
        state['slot'][row] = -1

    def revived_key(self, number: int) -> str | None:
        """Return the key of a merged landmark that is still held here."""
        state = self.state[: len(self.keys)]
        rows = np.flatnonzero(state['live'] & (state['number'] == number))
        return self.keys[int(rows[0])] if len(rows) else None

    def begin_part(self, key: str, whole: int, number: int) -> int:
        """Begin a landmark split off another one, under its former number, and return its row."""
        row = self.row_of(key)
        if row is None:
            row = self.add(key, self.labels[whole])
            if number:
                self.state['number'][row] = number
        state = self.state
        for name in ('extent', 'score', 'chances'):
            state[name][row] = state[name][whole]
        state['merged_into'][row], state['forgotten_ns'][row] = 0, NEVER
        state['written_ns'][row], state['written'][row] = NEVER, np.nan
        if not self.scores[row]:
            self.scores[row] = dict(self.scores[whole])
        state['dirty'][[row, whole]] = True
        return row

    def hold(self, row: int, frame_id: str) -> None:
        """Mark a landmark as held in a frame; empty: unknown."""
        self.state['held'][row] = self.state['dirty'][row] = True
        self.held_in.pop(row, None)
        if frame_id:
            self.held_in[row] = frame_id

    def let_go(self, row: int) -> None:
        """Mark a landmark as no longer held."""
        self.state['held'][row], self.state['dirty'][row] = False, True
        self.held_in.pop(row, None)

    def restart(self, row: int) -> None:
        """Begin a new estimate of a landmark that has moved."""
        state = self.state
        self.sightings.remove(self.sightings.of(int(state['number'][row])))
        state['n'][row], state['slot'][row] = 0, -1
        state['prior_information'][row] = state['prior_vector'][row] = 0.0

    def unique_row(self, label: str) -> int | None:
        """Return the row of the unique landmark of a label."""
        state = self.state[: len(self.keys)]
        rows = np.flatnonzero(state['live'] & state['has_instance'] & (state['merged_into'] == 0)).tolist()
        found = [row for row in rows if self.labels[row] == label]
        return min(found, key=lambda row: int(state['number'][row]), default=None)

    def revive(self, row: int) -> None:
        """Restart a forgotten landmark under the name that its input gives it."""
        state = new_state()
        for name in ('number', 'has_instance', 'source', 'placed', 'cell', 'saved'):
            state[name] = self.state[row][name]
        self.sightings.remove(self.sightings.of(int(state['number'])))
        self.state[row] = state
        self.scores[row] = {}

    def trim_tentative(self, most: int) -> None:
        """Remove tentative landmarks beyond a number, those not seen for longest first."""
        state = self.state[: len(self.keys)]
        tentative = np.flatnonzero(
            state['live'] & (state['written_ns'] == NEVER) & (state['forgotten_ns'] == NEVER)
        )
        if len(tentative) > most:
            order = sorted(tentative.tolist(), key=lambda row: (int(state['last_ns'][row]), self.keys[row]))
            for row in order[: len(tentative) - most + most // _BATCHES]:
                self.remove(row)

    def trim_forgotten(self, watermark_ns: int) -> None:
        """Drop forgotten landmarks whose evidence is complete.

        Their stored rows stay, because the ledger still names them.
        """
        state = self.state[: len(self.keys)]
        over = (state['forgotten_ns'] != NEVER) & (state['forgotten_ns'] < watermark_ns)
        # Merged landmarks may be split off again.
        over &= state['merged_into'] == 0
        for row in np.flatnonzero(state['live'] & over & ~state['has_instance'] & ~state['dirty']).tolist():
            self._unplace(row)
            self._drop(row)

    def take_changes(self) -> MapChanges:
        """Return the changes since the last call, to be stored."""
        dirty = np.flatnonzero(self.state['dirty'] & self.state['live'])
        new = {self.keys[row] for row in dirty.tolist() if not self.state['saved'][row]}
        saved = [
            pack_state(
                self.state[row],
                self.scores[row],
                map_id=self.map_id,
                key=self.keys[row],
                label=self.labels[row],
                held_in=self.held_in.get(row),
            )
            for row in dirty.tolist()
        ]
        self.state['dirty'] = False
        self.state['saved'][dirty] = True
        deleted, self._deleted = self._deleted, set()
        return MapChanges(saved, deleted, new, self.keyframes.take_changes(), self.sightings.take_changes())

    def put_back(self, changes: MapChanges) -> None:
        """Restore changes that could not be stored."""
        for stored in changes.saved:
            row = self._row_of.get(stored['key'])
            if row is not None:
                self.state['dirty'][row] = True
                self.state['saved'][row] &= stored['key'] not in changes.new
        self._deleted.update(changes.deleted)
        self.keyframes.put_back(changes.keyframes)
        self.sightings.put_back(changes.sightings)

    def keep_only(self, numbers: Collection[int]) -> set[str]:
        """Drop saved landmarks whose stored rows are gone; return their keys."""
        state, gone = self.state, set()
        stored = np.isin(state['number'], np.fromiter(numbers, np.int64, len(numbers)))
        for row in np.flatnonzero(state['live'] & state['saved'] & ~stored).tolist():
            gone.add(self.keys[row])
            self._unplace(row)
            self._drop(row)
        return gone

    def _new_row(self) -> int:
        row = len(self.keys)
        self.keys.append('')
        self.labels.append('')
        self.scores.append({})
        if row == len(self.state):
            self.state = np.concatenate([self.state, np.zeros_like(self.state)])
        return row

    def _drop(self, row: int) -> None:
        del self._row_of[self.keys[row]]
        self.sightings.remove(self.sightings.of(int(self.state['number'][row])))
        self.keys[row] = self.labels[row] = ''
        self.scores[row] = {}
        self.held_in.pop(row, None)
        self._watched.discard(row)
        self.state[row] = np.zeros((), COLUMNS)
        self._free.append(row)

    def _unplace(self, row: int) -> None:
        state = self.state[row]
        if state['placed']:
            self._grid.remove(int(state['cell']), row)
            state['placed'] = False

    def _load(self, stored: Mapping[str, Sequence[Any]]) -> None:
        self.keys, self.labels = list(stored['key']), list(stored['label'])
        self.scores = [json.loads(labels) for labels in stored['labels']]
        self._row_of = {key: row for row, key in enumerate(self.keys)}
        self.held_in = {row: frame_id for row, frame_id in enumerate(stored['held_in']) if frame_id}
        states = unpack_states(stored)
        spare = max(_FIRST_CAPACITY - len(states), 0)
        states['slot'] = [self.sightings.newest(number) for number in states['number'].tolist()]
        self.state = np.concatenate([states, np.zeros(spare, COLUMNS)])
        self.place(np.arange(len(states)))
        self.state['dirty'] = False
        self.newest_forgotten_ns = int(states['forgotten_ns'].max(initial=NEVER))
        slots = states['slot']
        now = (slots >= 0) & (self.sightings.state['keyframe'][slots] == len(self.keyframes))
        self.watch(np.flatnonzero(now & (states['written_ns'] == NEVER)))


class NumberSequence:
    """Sequence of numbers for new landmarks over all maps; no number is used twice.

    Parameters
    ----------
    following : int
        The first one to give.
    """

    def __init__(self, following: int = 1) -> None:
        self.following = following
        """The next number."""

    def take(self) -> int:
        """Return a fresh number."""
        self.following += 1
        return self.following - 1


class MapChanges(NamedTuple):
    """Unsaved changes of a map."""

    saved: Sequence[Mapping[str, Any]]
    """Rows to insert or replace."""
    deleted: Collection[int]
    """Numbers of removed landmarks."""
    new: Collection[str]
    """Keys that are saved for the first time."""
    keyframes: Sequence[StoredKeyframe]
    """Keyframes to insert or replace."""
    sightings: SightingChanges
    """Changes of the sightings."""

    def __bool__(self) -> bool:
        return bool(self.saved or self.deleted or self.keyframes or self.sightings)


# Cells are numbered by 21 bits an axis. Beyond 2 million cells numbers repeat: cells far apart
# then share a number, which costs a comparison of distances and never an answer.
_BITS = 21
_MASK = (1 << _BITS) - 1
_CORNERS = np.array([(i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1)], dtype=np.int64)

Indices = NDArray[np.int64]
Points = NDArray[np.float64]


class CellGrid:
    """A hash of cubic cells, each twice as wide as the largest gate.

    A ball of the gate's radius then meets at most two cells on each axis, so eight cells hold
    all candidates.

    Parameters
    ----------
    gate_m : float
        Largest radius of a query, metres.
    """

    def __init__(self, gate_m: float) -> None:
        self.gate_m = gate_m
        # Wider by more than rounding, so that the boundary of the ball belongs to it.
        self._size = 2.0 * gate_m * (1.0 + 1e-9)
        self._cells: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._cells)

    def cells(self, points: Points) -> list[int]:
        """Return the cell of each point, metres, shape (n, 3)."""
        numbers: list[int] = _numbers(np.floor(points / self._size).astype(np.int64)).tolist()
        return numbers

    def add(self, cell: int, row: int) -> None:
        """Put a row into a cell."""
        self._cells.setdefault(cell, []).append(row)

    def remove(self, cell: int, row: int) -> None:
        """Take a row out of a cell."""
        rows = self._cells[cell]
        rows.remove(row)
        if not rows:
            del self._cells[cell]

    def near(self, points: Points) -> tuple[Indices, Indices]:
        """Return all pairs of point and row that may be within the gate.

        Parameters
        ----------
        points : ndarray, shape (n, 3)
            Metres.

        Returns
        -------
        point, row : ndarray, shape (m,)
            Each pair at most once per cell; the distance is left to the caller.
        """
        lowest = np.floor(points / self._size - 0.5).astype(np.int64)
        corners = _numbers((lowest[:, None, :] + _CORNERS).reshape(-1, 3)).tolist()
        of_point: list[int] = []
        of_row: list[int] = []
        cells = self._cells
        for place, cell in enumerate(corners):
            rows = cells.get(cell)
            if rows:
                of_point += [place >> 3] * len(rows)
                of_row += rows
        return np.array(of_point, dtype=np.int64), np.array(of_row, dtype=np.int64)


def _numbers(cells: Indices) -> Indices:
    x, y, z = (cells[:, axis] & _MASK for axis in range(3))
    numbers: Indices = (x << 2 * _BITS) | (y << _BITS) | z
    return numbers
