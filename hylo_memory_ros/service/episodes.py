"""What begins and ends episodes, and tells of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone

import sqlalchemy as sa

from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.model import Episode, MemoryItem, normal_key, sound_text
from hylo_memory_ros.service.parts import EndListener, Parts
from hylo_memory_ros.service.sound import refuse_unsound, sound
from hylo_memory_ros.store.episode import episodes_of, load_episode, open_episode

__all__ = ['Episodes']


class Episodes(Parts):
    """The operations of a memory on episodes; at most one is open."""

    def begin_episode(
        self, id: str = '', scope: Mapping[str, str] | None = None, note: str = '', actor: str = ''
    ) -> Episode:
        """Begin an episode: what is stored and asked from here on carries it.

        Raises
        ------
        InvalidRequestError
            One is open, the id was used before, or a text is not sound.
        """
        refuse_unsound(sound_text, note=note, actor=actor)
        where = {
            sound(normal_key, name, 'scope'): sound(normal_key, value, f'scope[{name}]')
            for name, value in (scope or {}).items()
        }
        given = sound(normal_key, id, 'id') if id else ''
        with self._lock:
            self._refuse_closed()
            if self._episode:
                raise InvalidRequestError(
                    f'begin_episode: {self._episode!r} is open: end it first', field='id'
                )
            if given and self.side_read(lambda connection: load_episode(connection, given)) is not None:
                raise InvalidRequestError(f'id: {given!r} was the name of an episode before', field='id')
            begun, committed = self._store.begin_episode(
                given or self._free_id(), scope=where, note=note, actor=actor
            )
            self._episode = begun.id
            self._follow(committed)
            return begun

    def end_episode(self, id: str = '', outcome: str = '', note: str = '', actor: str = '') -> Episode:
        """End the open episode.

        Raises
        ------
        NotFoundError
            There is no episode of this id.
        InvalidRequestError
            None is open, or another; the outcome is blank, or a text is not sound.
        """
        refuse_unsound(sound_text, note=note, actor=actor)
        said = sound(normal_key, outcome, 'outcome')
        given = sound(normal_key, id, 'id') if id else ''
        with self._lock:
            self._refuse_closed()
            begun = self._to_end(given)
            # Who listens to the end reads what was asked in the episode.
            self._proving.receipts.flush()

            def items(ended_ns: int) -> Sequence[MemoryItem]:
                return ()

            (ended, _), committed = self._store.end_episode(
                begun, ended_ns=None, outcome=said, note=note, actor=actor, items=items, within=self._tell_end
            )
            self._episode = ''
            self._follow(committed)
            return ended

    def on_episode_end(self, listener: EndListener) -> Callable[[], None]:
        """Call a listener inside the transaction that ends an episode; the result ends that.

        Parameters
        ----------
        listener : callable
            Given the connection and the ended episode, it may change side tables. If it raises, the
            episode does not end.
        """
        self._end_listeners = (*self._end_listeners, listener)

        def remove() -> None:
            self._end_listeners = tuple(other for other in self._end_listeners if other is not listener)

        return remove

    def episodes(self, outcome: str | None = None, *, limit: int = 1000) -> list[Episode]:
        """Return episodes, the newest first."""
        self._refuse_closed()
        return self.side_read(lambda connection: episodes_of(connection, outcome=outcome, limit=limit))

    def _to_end(self, given: str) -> Episode:
        begun = self.side_read(open_episode)
        if begun is not None and given in ('', begun.id):
            return begun
        if not given:
            raise InvalidRequestError('end_episode: none is open', field='id')
        known = self.side_read(lambda connection: load_episode(connection, given))
        if known is None:
            raise NotFoundError(f'id: there is no episode {given!r}', field='id')
        raise InvalidRequestError(f'id: {given!r} has ended before, as {known.outcome!r}', field='id')

    def _free_id(self) -> str:
        """Return a name by the service clock that no episode had before."""
        at = datetime.fromtimestamp(self.now_ns() // 10**9, tz=timezone.utc)
        name = free = f'episode-{at:%Y%m%dT%H%M%SZ}'
        number = 1
        while self.side_read(lambda connection, free=free: load_episode(connection, free)) is not None:  # type: ignore[misc]
            number += 1
            free = f'{name}-{number}'
        return free

    def _tell_end(self, connection: sa.Connection, ended: Episode) -> None:
        for listener in self._end_listeners:
            listener(connection, ended)
