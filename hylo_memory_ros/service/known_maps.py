"""The maps that are known, and the one that the robot is in.

Threads: changed under the service's write lock; `current` is replaced whole.
"""

from __future__ import annotations

from collections.abc import Iterable

from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.model import MemoryItem, normal_key
from hylo_memory_ros.storage import Store

__all__ = ['KnownMaps']


class KnownMaps:
    """The known maps of a store.

    Parameters
    ----------
    store : Store
        Remembers them.
    current : str
        The map that the robot is in; empty: none.
    """

    def __init__(self, store: Store, current: str) -> None:
        self._store = store
        self.current = _sound(current)
        self._known = set(store.reader.maps())

    def switch(self, map_id: str, *, create: bool) -> str:
        """Make a map the current one, and return the one before; empty: none.

        Raises
        ------
        NotFoundError
            It is not known, and may not be made.
        InvalidRequestError
            Its name is not sound.
        """
        map_id = _sound(map_id)
        if not create:
            self.refuse_unknown(map_id, ', and create is false')
        self.remember([map_id])
        previous, self.current = self.current, map_id
        return previous

    def refuse_unknown(self, map_id: str, more: str = '') -> None:
        """Refuse a map that was never current or written to.

        Raises
        ------
        NotFoundError
            It is not known.
        """
        if map_id and map_id not in self._known:
            raise NotFoundError(f'map_id: {map_id!r} is not known{more}', map_id=map_id)

    def remember(self, map_ids: Iterable[str]) -> None:
        """Keep the names of maps that are met for the first time."""
        for map_id in set(map_ids) - self._known - {''}:
            with self._store.begin_unnumbered() as uow:
                uow.maps.add(map_id)
            self._known.add(map_id)

    def placed(self, item: MemoryItem) -> MemoryItem:
        """Return an item that has a pose and names no map as one of the current map."""
        if item.pose is None or not self.current or 'map_id' in item.scope:
            return item
        return item.model_copy(update={'scope': {**item.scope, 'map_id': self.current}})


def _sound(map_id: str) -> str:
    try:
        return map_id and normal_key(map_id, 'map_id')
    except ValueError as exc:
        raise InvalidRequestError(str(exc), field='map_id') from exc
