"""Whose an observation is now: what it was given to, and where its sighting went since."""

from __future__ import annotations

from bisect import bisect_right

from sqlalchemy import Connection, select

from hylo_memory_ros.store.landmark import landmark, sighting

__all__ = ['Owners']


class Owners:
    """The landmarks of now, by the one that an observation was given to and its stamp.

    Parameters
    ----------
    connection : Connection
        Read once; all sightings are held.
    """

    def __init__(self, connection: Connection) -> None:
        rows = connection.execute(select(landmark.c.number, landmark.c.key, landmark.c.merged_into)).all()
        self._keys = {number: key for number, key, _ in rows}
        self._merged = {number: into for number, _, into in rows if into}
        self._sightings: dict[int, list[tuple[int, int, int]]] = {}
        columns = (sighting.c.origin, sighting.c.first_ns, sighting.c.last_ns, sighting.c.landmark)
        for origin, *rest in connection.execute(select(*columns).order_by(*columns)):
            self._sightings.setdefault(origin, []).append(tuple(rest))

    def key(self, number: int, stamp_ns: int) -> str | None:
        """Return the key of the landmark that an observation belongs to now, or None.

        Parameters
        ----------
        number : int
            The landmark that it was given to; 0: none.
        stamp_ns : int
            Stamp of the observation.
        """
        sightings = self._sightings.get(number)
        if sightings:
            return self._keys.get(_nearest(sightings, stamp_ns))
        for _ in range(len(self._merged)):
            if number not in self._merged:
                break
            number = self._merged[number]
        return self._keys.get(number)


def _nearest(sightings: list[tuple[int, int, int]], stamp_ns: int) -> int:
    after = bisect_right(sightings, stamp_ns, key=lambda one: one[0])
    around = sightings[max(after - 1, 0) : after + 1]
    return min(around, key=lambda one: max(one[0] - stamp_ns, stamp_ns - one[1], 0))[2]
