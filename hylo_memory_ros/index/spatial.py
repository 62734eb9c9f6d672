"""The spatial mirror: believed rows near a point, answered from memory.

The mirror copies the poses of the store's version table. The store is written first and stays the
authority; the mirror follows each committed transaction, and can be rebuilt from the store at any time.

Threads. One writer at a time calls `apply` and `remove`; any number of readers query; one thread loads;
one more, of the mirror's own, folds new rows into trees and lives only while it does. Changes are made
under a lock that is held for moments. Readers take no lock: rows carry the sequences between which they
are believed, so a reader that notes the mirror's sequence first, and the parts of a place second, finds
exactly what was believed at that sequence, whatever the writer does meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.errors import InvalidRequestError, LoadingError
from hylo_memory_ros.index._answers import Excluded, Hits, Nearest
from hylo_memory_ros.index._atlas import Atlas, Change
from hylo_memory_ros.index._audit import Audit
from hylo_memory_ros.index._ball import Ball
from hylo_memory_ros.index._folding import ClosingError, Folding
from hylo_memory_ros.index._intake import Intake, Key
from hylo_memory_ros.index._part import VERSION, Window
from hylo_memory_ros.index._place import Place, build_runs
from hylo_memory_ros.index._rows import OPEN, BelievedRow, Difference, RowBatch
from hylo_memory_ros.index._search import hits, matches, nearest_beyond, untimely, version_rows

__all__ = ['SpatialMirror']

_FOREVER = OPEN - 1


class SpatialMirror:
    """KD-trees over the believed rows of each (map, frame).

    Parameters
    ----------
    now_ns : callable, optional
        Returns the highest service time seen, in nanoseconds. It decides which rows count as closed
        when a tree is built, so it changes speed, never an answer; without it every row with an end
        counts as closed.

    Examples
    --------
    >>> mirror = SpatialMirror()
    >>> mirror.load((), sequence=0)
    >>> mirror.apply(1, [BelievedRow(1, 1, 'lab', 'map', 0.3, 0.1, 0.2, 0, None, 1)])
    >>> mirror.within('lab', 'map', (0.0, 0.0, 0.0), 0.3741657386773941).version_rows.tolist()
    [1]
    >>> mirror.close()
    """

    def __init__(self, now_ns: Callable[[], int] | None = None) -> None:
        self._cutoff_ns = now_ns or (lambda: _FOREVER)
        self._atlas = Atlas()
        self._sequence = 0
        self._loaded = False
        self._ready = threading.Event()
        self._lock = threading.RLock()
        self._loading = threading.Lock()
        # What happens while a load runs, to be done again on what it loaded.
        self._meanwhile: list[Change] | None = []
        self._removals: list[set[int]] = []
        self._folding = Folding(self._lock, self._all_places, self._cutoff_ns)

    @property
    def sequence(self) -> int:
        """Sequence of the newest transaction that the mirror holds."""
        return self._sequence

    @property
    def ready(self) -> bool:
        """Whether the first load is complete."""
        return self._loaded

    @property
    def skipped(self) -> int:
        """Number of rows left out for a coordinate that is not finite."""
        return self._atlas.skipped

    def __len__(self) -> int:
        return sum(map(len, self._atlas.places.values()))

    def wait_ready(self, timeout_s: float | None = None) -> bool:
        """Wait until the first load is complete; False after the timeout."""
        return self._ready.wait(timeout_s)

    def wait_idle(self, timeout_s: float | None = None) -> bool:
        """Wait until no rebuild is running; False after the timeout."""
        return self._folding.wait(timeout_s)

    def rebuild(self) -> None:
        """Start to rebuild every tree in the background."""
        self._folding.kick(force=True)

    def close(self) -> None:
        """End rebuilding and wait for it; a load ends at its next batch. Answers remain. Safe to repeat."""
        self._folding.close()

    def load(self, batches: Iterable[RowBatch], sequence: int) -> None:
        """Fill the mirror from the store, in the calling thread; again, to replace what it holds.

        `apply` and `remove` may be called meanwhile from the writer's thread. The batches need not come
        from one transaction: what is missed is made good by them, and rows that arrive twice are kept
        once.

        Parameters
        ----------
        batches : iterable of RowBatch
            Every row of the store that has a pose, believed or not; read as they are asked for, not
            before the call.
        sequence : int
            A sequence that the store had reached before the first batch was read.
        """
        with self._loading:
            with self._lock:
                self._meanwhile = self._meanwhile or []
            try:
                intake = Intake()
                for batch in batches:
                    self._folding.check()
                    intake.add(batch)
                self._replace(intake, sequence)
            except ClosingError:
                return
            finally:
                with self._lock:
                    if self.ready:
                        self._meanwhile = None
        self._folding.kick()

    def apply(self, sequence: int, added: Sequence[BelievedRow] = (), ended: Collection[int] = ()) -> None:
        """Follow one committed transaction.

        Parameters
        ----------
        sequence : int
        added : sequence of BelievedRow
            Rows believed from `sequence` on.
        ended : collection of int
            Version rows believed no longer from `sequence` on.
        """
        self._change(Change(sequence, tuple(added), tuple(ended)))

    def remove(self, version_rows: Collection[int], sequence: int = 0) -> None:
        """Delete rows for good (purge); after the rebuild that this starts no trace is left.

        Parameters
        ----------
        version_rows : collection of int
        sequence : int
            The sequence of the purge, if it has one.
        """
        self._change(Change(sequence, removed=tuple(version_rows)))

    def within(
        self,
        map_id: str | None,
        frame_id: str | Collection[str],
        center: Sequence[float],
        radius_m: float,
        *,
        at_ns: int | None = None,
        seq: int | None = None,
        horizontal: bool = False,
        tolerance_ns: int = 0,
    ) -> Hits:
        """Find the believed rows within a radius, its boundary included.

        Parameters
        ----------
        map_id : str or None
            None searches every map.
        frame_id : str or collection of str
            The frame of `center`; several frames are searched with the same numbers.
        center : sequence of 3 floats
            Metres, x y z, in `frame_id`.
        radius_m : float
            Metres, at least 0.
        at_ns : int, optional
            World time: ``valid_from <= at < valid_to``. None gives every believed version.
        seq : int, optional
            Believed as of this sequence; None for now.
        horizontal : bool
            Measure the distance over x and y only.
        tolerance_ns : int
            Rows that begin up to this much after `at_ns` count as begun.

        Returns
        -------
        Hits

        Raises
        ------
        InvalidRequestError
            The radius is negative or not finite, or the centre is not three finite numbers.
        LoadingError
            The first load is not complete.
        """
        window = self._window(at_ns, seq, tolerance_ns)
        within = Ball(center, radius_m, horizontal)
        return hits(window[2], matches(self._find(map_id, frame_id, horizontal), within, window))

    def ids_within(
        self,
        map_id: str | None,
        frame_id: str | Collection[str],
        center: Sequence[float],
        radius_m: float,
        *,
        at_ns: int | None = None,
        seq: int | None = None,
        horizontal: bool = False,
        tolerance_ns: int = 0,
    ) -> NDArray[np.int64]:
        """Find the version rows of `within`, in no particular order."""
        window = self._window(at_ns, seq, tolerance_ns)
        within = Ball(center, radius_m, horizontal)
        return version_rows(self._find(map_id, frame_id, horizontal), within, window)

    def nearest_outside(
        self,
        map_id: str | None,
        frame_id: str | Collection[str],
        center: Sequence[float],
        radius_m: float,
        *,
        at_ns: int | None = None,
        seq: int | None = None,
        horizontal: bool = False,
        tolerance_ns: int = 0,
    ) -> Nearest | None:
        """Find the nearest matching row beyond the radius, at any distance."""
        window = self._window(at_ns, seq, tolerance_ns)
        outside = Ball(center, radius_m, horizontal)
        return nearest_beyond(self._find(map_id, frame_id, horizontal), outside, window)

    def excluded(
        self,
        map_id: str | None,
        frame_id: str,
        center: Sequence[float],
        radius_m: float,
        *,
        at_ns: int | None = None,
        seq: int | None = None,
        horizontal: bool = False,
        tolerance_ns: int = 0,
        most: int = 10_000,
    ) -> Excluded:
        """Count what lies within the radius and was left out, by place or by time.

        Beyond `most` rows of one part of the mirror within the radius no more are looked at: the counts
        are lower bounds then.
        """
        window = self._window(at_ns, seq, tolerance_ns)
        within = Ball(center, radius_m, horizontal)
        keys = self._atlas.places
        maps = {m for m, f in keys if f == frame_id and map_id is not None} - {map_id}
        frames = {f for m, f in keys if map_id in (None, m)} - {frame_id}
        other_maps = [place for other in maps for place in self._find(other, frame_id, horizontal)]
        other_frames = self._find(map_id, frames, horizontal)
        late, over = untimely(self._find(map_id, frame_id, horizontal), within, window, most)
        return Excluded(
            len(version_rows(other_maps, within, window, most)),
            len(version_rows(other_frames, within, window, most)),
            late,
            over,
        )

    def verify(self, batches: Iterable[RowBatch], sequence: int, limit: int = 100) -> tuple[Difference, ...]:
        """Compare the mirror with rows streamed from the store, while both may move on.

        Parameters
        ----------
        batches : iterable of RowBatch
            Every row of the store that has a pose.
        sequence : int
            The store's sequence when reading began; the mirror must have reached it.
        limit : int
            Stop after about this many differences.

        Returns
        -------
        tuple of Difference
            In order of the version row; empty when the mirror is equal to the store.
        """
        self._window(None, None, 0)
        if self._sequence < sequence:
            raise InvalidRequestError(
                f'the mirror is at sequence {self._sequence}, before {sequence}', sequence=sequence
            )
        removed: set[int] = set()
        with self._lock:
            self._removals.append(removed)
            audit = Audit({key: place.parts for key, place in self._atlas.places.items()}, sequence)
        try:
            audit.compare(batches, limit)
        finally:
            with self._lock:
                self._removals = [one for one in self._removals if one is not removed]
        return audit.differences(removed, limit)

    def _all_places(self) -> Collection[Place]:
        return self._atlas.places.values()

    def _change(self, change: Change) -> None:
        with self._lock:
            if self._meanwhile is not None:
                self._meanwhile.append(change)
            if not self.ready:
                return
            for removed in self._removals:
                removed.update(change.removed)
            self._atlas.follow(change, self._cutoff_ns())
            # Last: whoever sees the sequence must find its rows.
            self._sequence = max(self._sequence, change.sequence)
        self._folding.kick()

    def _replace(self, intake: Intake, sequence: int) -> None:
        places: dict[Key, Place] = {}
        highest = 0
        for key, rows, points in intake.places():
            known = self._atlas.places.get(key)
            planar = known is not None and known.planar
            highest = max(highest, int(rows[VERSION].max(initial=0)))
            runs = build_runs(rows, points, self._cutoff_ns(), planar, self._folding.check)
            places[key] = Place(runs, planar)
        atlas = Atlas(places, highest, intake.skipped)
        with self._lock:
            for change in self._meanwhile or ():
                atlas.follow(change, self._cutoff_ns())
                sequence = max(sequence, change.sequence)
            self._meanwhile = None
            self._atlas = atlas
            self._sequence = max(self._sequence, sequence)
            self._loaded = True
            self._ready.set()

    def _window(self, at_ns: int | None, seq: int | None, tolerance_ns: int) -> Window:
        if not self._loaded:
            raise LoadingError('the spatial mirror is still loading')
        sequence = self._sequence
        if seq is not None and seq < sequence:
            sequence = seq
        if at_ns is None:
            return -OPEN, OPEN, sequence
        return at_ns, at_ns + tolerance_ns, sequence

    def _find(self, map_id: str | None, frame_id: str | Collection[str], horizontal: bool) -> Iterable[Place]:
        places = self._atlas.find(map_id, frame_id)
        if horizontal and not all(place.planar for place in places):
            # Trees over x and y are built when first asked for; until then every point is gone through.
            for place in places:
                place.want_planar()
            self._folding.kick()
        return places
