"""The landmarks of one map, as columns: found by key or by place, saved when they changed."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.ingestion.observation import digest32
from hylo_memory_ros.perception.map.cell_grid import CellGrid
from hylo_memory_ros.perception.map.changes import Changes, Numbering
from hylo_memory_ros.perception.map.columns import COLUMNS, NEVER, fresh, stored_row, unpacked
from hylo_memory_ros.perception.map.keyframes import Keyframes
from hylo_memory_ros.perception.map.landmark import Fused
from hylo_memory_ros.perception.map.sightings import Sightings
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.orientation import told_orientation

__all__ = ['LandmarkMap']

_FIRST_CAPACITY = 64
# Leaving in batches pays for one sort in many departures.
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
    numbering : Numbering
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
        numbering: Numbering | None = None,
        stored: Mapping[str, Sequence[Any]] | None = None,
        *,
        keyframes: Keyframes | None = None,
        sightings: Sightings | None = None,
    ) -> None:
        self.map_id = map_id
        self.keyframes = Keyframes(LandmarkSettings()) if keyframes is None else keyframes
        """Where the base of the robot was."""
        self.sightings = Sightings() if sightings is None else sightings
        """The sightings of all landmarks."""
        self._numbering = numbering or Numbering()
        self.state = np.zeros(_FIRST_CAPACITY, COLUMNS)
        """One row of `COLUMNS` per landmark."""
        self.keys: list[str] = []
        """Key of each row."""
        self.labels: list[str] = []
        """Label of each row."""
        self.scores: list[dict[str, float]] = []
        """Sum of scores of each row by label."""
        self.newest_forgotten_ns = NEVER
        """Up to when anything was forgotten or ended, at most; a merge is neither."""
        self.held_in: dict[int, str] = {}
        """Frame that a row is held in, where that was said."""
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
        """Return how many landmarks are not forgotten, and how many of those were written."""
        state = self.state[: len(self.keys)]
        held = state['live'] & (state['forgotten_ns'] == NEVER)
        return int(held.sum()), int((held & (state['written_ns'] != NEVER)).sum())

    def near(self, points: NDArray[np.float64]) -> tuple[Rows, Rows]:
        """Return pairs of point and row that may be within the gate; see `CellGrid.near`.

        Things that are known by name, and those that proved to be others, are not among them.
        """
        return self._grid.near(points)

    def fused(self, row: int) -> Fused:
        """Return what the observations of a landmark amount to."""
        state = self.state[row]
        mean, covariance, extent = (tuple(state[name].tolist()) for name in ('mean', 'covariance', 'extent'))
        size = None if np.isnan(extent[0]) else extent
        score, turn = float(state['score']), told_orientation(state)
        return Fused(self.keys[row], self.labels[row], mean, covariance, size, score, turn)

    def add(self, key: str, label: str, *, has_instance: bool = False, source: str = '') -> int:
        """Begin a landmark that was never seen, and return its row; `place` it once it has a mean."""
        row = self._free.pop() if self._free else self._new_row()
        self.keys[row], self.labels[row], self.scores[row] = key, label, {}
        self._row_of[key] = row
        state = fresh()
        state['number'], state['has_instance'] = self._numbering.take(), has_instance
        state['source'] = digest32(source.encode())
        self.state[row] = state
        return row

    def watch(self, rows: Rows) -> None:
        """Count from now on the messages that might show these tentative landmarks."""
        self._watched.update(rows.tolist())

    def turn_over(self) -> None:
        """Count them no longer: the robot is elsewhere."""
        self._watched.clear()

    def give_chance(self, source: str) -> None:
        """Take notice of a message of an input."""
        rows = np.fromiter(self._watched, np.int64, len(self._watched))
        rows = rows[self.state['source'][rows] == digest32(source.encode())]
        self.state['chances'][rows] += 1
        self.state['dirty'][rows] = True

    def place(self, rows: Rows) -> None:
        """Take notice that landmarks changed, and may be elsewhere."""
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
        """Let a landmark go without a trace."""
        state = self.state[row]
        self._unplace(row)
        self._deleted.add(int(state['number']))
        self._drop(row)

    def forget(self, row: int, at_ns: int) -> None:
        """Keep a landmark only to swallow evidence up to a stamp."""
        self.state['forgotten_ns'][row] = at_ns
        self.newest_forgotten_ns = max(self.newest_forgotten_ns, at_ns)
        self.state['dirty'][row] = True

    def merge(self, row: int, into: int, at_ns: int) -> None:
        """Take a landmark for another one: its sightings are that one's from now on."""
        state = self.state
        self._unplace(row)
        self.sightings.give(self.sightings.of(int(state['number'][row])), int(state['number'][into]))
        state['merged_into'][row], state['forgotten_ns'][row] = state['number'][into], at_ns
        state['dirty'][row] = state['dirty'][into] = True
        state['slot'][row] = -1

    def revived_key(self, number: int) -> str | None:
        """Return the key of a landmark that proved to be another one, while it is still held here."""
        state = self.state[: len(self.keys)]
        rows = np.flatnonzero(state['live'] & (state['number'] == number))
        return self.keys[int(rows[0])] if len(rows) else None

    def begin_part(self, key: str, whole: int, number: int) -> int:
        """Begin a landmark that was part of another one, under the number that it had, and return its row."""
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
        """Say that a landmark is held, and in which frame; empty: unknown."""
        self.state['held'][row] = self.state['dirty'][row] = True
        self.held_in.pop(row, None)
        if frame_id:
            self.held_in[row] = frame_id

    def let_go(self, row: int) -> None:
        """Say that a landmark is held no longer."""
        self.state['held'][row], self.state['dirty'][row] = False, True
        self.held_in.pop(row, None)

    def restart(self, row: int) -> None:
        """Begin a new estimate of a landmark that is elsewhere now."""
        state = self.state
        self.sightings.remove(self.sightings.of(int(state['number'][row])))
        state['n'][row], state['slot'][row] = 0, -1
        state['prior_information'][row] = state['prior_vector'][row] = 0.0

    def unique_row(self, label: str) -> int | None:
        """Return the row of the one thing of a label that is declared unique."""
        state = self.state[: len(self.keys)]
        rows = np.flatnonzero(state['live'] & state['has_instance'] & (state['merged_into'] == 0)).tolist()
        found = [row for row in rows if self.labels[row] == label]
        return min(found, key=lambda row: int(state['number'][row]), default=None)

    def revive(self, row: int) -> None:
        """Begin again with a landmark that was forgotten, under the name that its input gives it."""
        state = fresh()
        for name in ('number', 'has_instance', 'source', 'placed', 'cell', 'saved'):
            state[name] = self.state[row][name]
        self.sightings.remove(self.sightings.of(int(state['number'])))
        self.state[row] = state
        self.scores[row] = {}

    def trim_tentative(self, most: int) -> None:
        """Let go the tentative landmarks beyond a number, those not seen for longest first."""
        state = self.state[: len(self.keys)]
        tentative = np.flatnonzero(
            state['live'] & (state['written_ns'] == NEVER) & (state['forgotten_ns'] == NEVER)
        )
        if len(tentative) > most:
            order = sorted(tentative.tolist(), key=lambda row: (int(state['last_ns'][row]), self.keys[row]))
            for row in order[: len(tentative) - most + most // _BATCHES]:
                self.remove(row)

    def trim_forgotten(self, watermark_ns: int) -> None:
        """Let go the forgotten landmarks whose evidence is all in.

        Their stored rows stay, because the ledger still names them.
        """
        state = self.state[: len(self.keys)]
        over = (state['forgotten_ns'] != NEVER) & (state['forgotten_ns'] < watermark_ns)
        # What proved to be another may be parted from it again.
        over &= state['merged_into'] == 0
        for row in np.flatnonzero(state['live'] & over & ~state['has_instance'] & ~state['dirty']).tolist():
            self._unplace(row)
            self._drop(row)

    def take_changes(self) -> Changes:
        """Return what changed since the last call, to be stored."""
        dirty = np.flatnonzero(self.state['dirty'] & self.state['live'])
        new = {self.keys[row] for row in dirty.tolist() if not self.state['saved'][row]}
        saved = [self._stored_row(row) for row in dirty.tolist()]
        self.state['dirty'] = False
        self.state['saved'][dirty] = True
        deleted, self._deleted = self._deleted, set()
        return Changes(saved, deleted, new, self.keyframes.take_changes(), self.sightings.take_changes())

    def _stored_row(self, row: int) -> dict[str, Any]:
        scores = _as_json(self.scores[row])
        stored = stored_row(self.state[row], self.map_id, self.keys[row], self.labels[row], scores)
        return {**stored, 'held_in': self.held_in.get(row)}

    def put_back(self, changes: Changes) -> None:
        """Take back changes that could not be stored."""
        for stored in changes.saved:
            row = self._row_of.get(stored['key'])
            if row is not None:
                self.state['dirty'][row] = True
                self.state['saved'][row] &= stored['key'] not in changes.new
        self._deleted.update(changes.deleted)
        self.keyframes.put_back(changes.keyframes)
        self.sightings.put_back(changes.sightings)

    def keep_only(self, numbers: Collection[int]) -> set[str]:
        """Let go the landmarks that were saved before and have no stored row any more; return their keys."""
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
        states = unpacked(stored)
        spare = max(_FIRST_CAPACITY - len(states), 0)
        states['slot'] = [self.sightings.newest(number) for number in states['number'].tolist()]
        self.state = np.concatenate([states, np.zeros(spare, COLUMNS)])
        self.place(np.arange(len(states)))
        self.state['dirty'] = False
        self.newest_forgotten_ns = int(states['forgotten_ns'].max(initial=NEVER))
        slots = states['slot']
        now = (slots >= 0) & (self.sightings.state['keyframe'][slots] == len(self.keyframes))
        self.watch(np.flatnonzero(now & (states['written_ns'] == NEVER)))


def _as_json(scores: Mapping[str, float]) -> str:
    return json.dumps(scores, ensure_ascii=False, sort_keys=True, separators=(',', ':'))
