"""Episode handler: begin, end and list episodes, and compose their summary items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from itertools import chain, count
from typing import Any

from hylo_memory_ros.domain.identity import statement_of
from hylo_memory_ros.errors import ClockError, InvalidRequestError, NotFoundError
from hylo_memory_ros.model import Episode, MemoryItem, MemoryKind, TimeSpan, normalize_key
from hylo_memory_ros.model.time import ClockName
from hylo_memory_ros.retrieval import MAX_SEQUENCE
from hylo_memory_ros.service.core import MemoryCore
from hylo_memory_ros.service.handlers.feedback import HelpfulnessScorer
from hylo_memory_ros.service.validation import (
    validate_episode_id,
    validate_field,
    validate_note_and_actor,
    validate_scope,
)
from hylo_memory_ros.storage.episodes import (
    SUMMARY_SOURCE,
    EpisodeFacts,
    KeyEvent,
    ended_as,
    summary_key,
    summary_text,
)
from hylo_memory_ros.storage.statements.writer import resolved
from hylo_memory_ros.storage.unit_of_work import UnitOfWork

EndListener = Callable[[UnitOfWork, Episode], None]
"""Called inside the transaction that ends an episode."""


# Of what an item says, so much is repeated.
_MOST_CHARACTERS = 280

_VERBS = {
    'ADD': 'learned',
    'INVALIDATE': 'changed',
    'MERGE': 'found to be another',
    'END': 'ended',
    'FORGET': 'forgot',
    'RETRACT': 'withdrew',
    'useful': 'judged useful',
    'misleading': 'judged misleading',
    'wrong': 'judged wrong',
}


def event_items(begun: Episode, events: Sequence[KeyEvent], clock: ClockName) -> list[MemoryItem]:
    """Return an EPISODIC item for each key event, at its own time.

    Each links to the item that it is about, with which it is purged, and to the episode.
    """
    return [_event_item(begun, event, clock) for event in events]


def _event_item(begun: Episode, event: KeyEvent, clock: ClockName) -> MemoryItem:
    about = event.content or event.label
    if len(about) > _MOST_CHARACTERS:
        about = about[:_MOST_CHARACTERS] + '…'
    named = ' '.join(part for part in (event.kind, event.key) if part)
    return MemoryItem(
        kind=MemoryKind.EPISODIC,
        label='episode_event',
        content=f'{_VERBS[event.event]} {named}: {about}' if about else f'{_VERBS[event.event]} {named}',
        payload={'episode': begun.id, 'event': event.event, 'kind': event.kind},
        entities=event.entities,
        links=(('about', event.id), ('part_of', summary_key(begun.id))),
        scope=_scope(begun),
        event_time=TimeSpan(start_ns=event.at_ns, end_ns=event.at_ns, clock=clock),
        source=SUMMARY_SOURCE,
    )


def summary_item(
    ended: Episode, facts: EpisodeFacts, clock: ClockName, evidence: Sequence[str]
) -> MemoryItem:
    """Return the EPISODIC item with the outcome of an episode; it holds from its end on.

    Parameters
    ----------
    ended : Episode
        With its outcome.
    facts : EpisodeFacts
        What happened in it.
    clock : {'sim', 'wall'}
        The service clock.
    evidence : sequence of str
        Ids of the EPISODIC items that were written in it.
    """
    assert ended.ended_ns is not None
    payload: dict[str, Any] = {
        'episode': ended.id,
        'outcome': ended.outcome,
        'begun_ns': ended.begun_ns,
        'ended_ns': ended.ended_ns,
        'counts': dict(facts.outcomes),
        'kinds': dict(facts.kinds),
        'transactions': facts.transactions,
        'retrievals': facts.retrievals,
        'verdicts': dict(facts.verdicts),
    }
    if not facts.complete:
        payload['complete'] = False
    return MemoryItem(
        kind=MemoryKind.EPISODIC,
        key=summary_key(ended.id),
        label='episode',
        content=summary_text(payload, (ended.note, ended.end_note)),
        payload=payload,
        scope=_scope(ended),
        event_time=TimeSpan(start_ns=ended.begun_ns, end_ns=ended.ended_ns, clock=clock),
        valid_from_ns=ended.ended_ns,
        evidence=tuple(evidence),
        source=SUMMARY_SOURCE,
    )


def _scope(one: Episode) -> dict[str, str]:
    return {**one.scope, 'episode_id': one.id}


INTERRUPTED = 'interrupted'
"""Outcome of an episode that was open when the memory was opened, where that ends it."""

_MOST_EVENTS = 1000


class EpisodeHandler:
    """Begins and ends episodes, of which at most one is open.

    Parameters
    ----------
    core : MemoryCore
        State of the memory.
    """

    def __init__(self, core: MemoryCore) -> None:
        self._core = core
        self._listeners: tuple[EndListener, ...] = (HelpfulnessScorer(core.config),)

    def begin_episode(
        self, id: str = '', scope: Mapping[str, str] | None = None, note: str = '', actor: str = ''
    ) -> Episode:
        """Begin an episode: what is stored and asked from here on carries it, until it ends.

        It is still open after a restart, unless the configuration says otherwise.

        Parameters
        ----------
        id : str
            A name that no episode had before; empty: ``scope['episode_id']``, or one by the service clock.
        scope : mapping, optional
            Where it belongs: ``task_id``, ``robot_id`` … What its end writes has this scope.
        note : str
            Free-text note.
        actor : str
            Requesting user or component.

        Raises
        ------
        InvalidRequestError
            One is open, the id was used before, or a text is not sound.
        ClockError
            The service clock lies before the first valid stamp.

        Examples
        --------
        >>> from hylo_memory_ros.model import MemoryItem, MemoryQuery
        >>> from hylo_memory_ros.service import MemoryService
        >>> with MemoryService.open() as memory:
        ...     _ = memory.begin_episode('fetch-7', scope={'task_id': 'fetch'})
        ...     _ = memory.write([MemoryItem(kind='semantic', key='door', content='the door is locked')])
        ...     _ = memory.end_episode(outcome='failure')
        ...     [hit.item.label or hit.item.key for hit in memory.query(MemoryQuery(outcome='failure'))]
        ['episode', 'episode_event', 'door']
        """
        validate_note_and_actor(note, actor)
        where = validate_scope(scope or {})
        name = validate_episode_id(id) if id else where.get('episode_id', '')
        if where.pop('episode_id', name) != name:
            raise InvalidRequestError(f'scope: its episode_id is not the id {name!r}', field='scope')
        with self._core.changing():
            if self._core.episode:
                raise InvalidRequestError(
                    f'begin_episode: {self._core.episode!r} is open; at most one is: end it first', field='op'
                )
            self._refuse_early()
            if name and self._known(name) is not None:
                raise InvalidRequestError(f'id: {name!r} was the name of an episode before', field='id')
            name = name or self._free_name()
            with self._core.store.begin('begin_episode', actor=actor) as uow:
                begun = uow.episodes.begin(name, scope=where, note=note)
            self._core.episode = begun.id
            self._core.follow(uow.result)
            return begun

    def end_episode(
        self,
        id: str = '',
        outcome: str = '',
        note: str = '',
        actor: str = '',
        *,
        events: int | None = None,
    ) -> Episode:
        """End the open episode, and remember its outcome and key events as EPISODIC items.

        The items are stored in the same transaction, its last one: one under the key ``episode/`` and
        the id, with outcome, counts and notes, and one for each of the most informative events: what was
        judged wrong or misleading, then what was retracted, forgotten, ended, changed, learned.

        Parameters
        ----------
        id : str
            Its name; empty: the open one.
        outcome : str
            How it ended, such as ``success``.
        note : str
            Free-text note.
        actor : str
            Requesting user or component.
        events : int, optional
            Most key events that are written one by one; none: as configured.

        Raises
        ------
        NotFoundError
            There is no episode of this id.
        InvalidRequestError
            None is open, or another; the outcome is blank, or a text is not sound.
        ClockError
            The service clock lies before its begin.
        """
        validate_note_and_actor(note, actor)
        said = validate_field(normalize_key, outcome, 'outcome')
        name = validate_episode_id(id) if id else ''
        most = self._core.config.episode_events if events is None else events
        if not 0 <= most <= _MOST_EVENTS:
            raise InvalidRequestError(f'events: {most} is not 0 to {_MOST_EVENTS}', field='events')
        with self._core.changing():
            begun = self._to_end(name)
            self._refuse_before(begun)
            return self._end(begun, self._core.store.now_ns(), said, note, actor, most)

    def on_episode_end(self, listener: EndListener) -> Callable[[], None]:
        """Call a listener inside the transaction that ends an episode; return its unsubscription.

        Parameters
        ----------
        listener : callable
            Called with the unit of work and the ended episode; it may change statistics. If it raises,
            the episode does not end.
        """
        self._listeners = (*self._listeners, listener)

        def remove() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

        return remove

    def episodes(
        self,
        outcome: str | None = None,
        *,
        scope: Mapping[str, str] | None = None,
        time_range_ns: tuple[int | None, int | None] = (None, None),
        known_at_ns: int | None = None,
        known_seq: int | None = None,
        limit: int = 1000,
    ) -> list[Episode]:
        """Return episodes, the newest first; the open one too, unless an outcome is asked for.

        Parameters
        ----------
        outcome : str, optional
            How they ended.
        scope : mapping, optional
            Scope values that they must all have.
        time_range_ns : (int or None, int or None)
            Those that meet this closed stretch of time on the service clock, nanoseconds.
        known_at_ns : int, optional
            As they were known at this service time, nanoseconds.
        known_seq : int, optional
            As they were known after this sequence: one that had not ended yet is open.
        limit : int
            Most episodes.

        Raises
        ------
        InvalidRequestError
            A value is not sound, or `known_at_ns` and `known_seq` are both given.
        """
        self._core.refuse_closed()
        if limit < 1:
            raise InvalidRequestError(f'limit: {limit} is below 1', field='limit')
        if known_at_ns is not None and known_seq is not None:
            raise InvalidRequestError('known_at_ns and known_seq: give one of them', field='known_seq')
        if known_seq is not None and known_seq < 0:
            raise InvalidRequestError(f'known_seq: {known_seq} is negative', field='known_seq')
        start_ns, end_ns = time_range_ns
        if start_ns is not None and end_ns is not None and end_ns < start_ns:
            raise InvalidRequestError(
                f'time_range_ns: its end {end_ns} ns lies before its start {start_ns} ns',
                field='time_range_ns',
            )
        seq = None if known_seq is None else min(known_seq, MAX_SEQUENCE)
        if known_at_ns is not None:
            seq = self._core.store.reader.sequence_at(known_at_ns)
        ended_so = None if outcome is None else validate_field(normalize_key, outcome, 'outcome')
        where = validate_scope(scope or {})
        with self._core.store.read() as view:
            return view.episodes.find(
                outcome=ended_so,
                scope=where,
                start_ns=start_ns,
                end_ns=end_ns,
                seq=seq,
                limit=min(limit, MAX_SEQUENCE),
            )

    def resume(self) -> None:
        """Find the open episode of a file that was put in place, and end it if that is configured."""
        begun = self._open()
        self._core.episode = '' if begun is None else begun.id
        if begun is None or self._core.read_only or self._core.config.episode_at_restart == 'keep':
            return
        with self._core.lock:
            with self._core.store.read() as view:
                _, last_ns = view.statements.last_transaction()
            self._end(begun, last_ns, INTERRUPTED, '', '', self._core.config.episode_events)

    def _end(self, begun: Episode, ended_ns: int, outcome: str, note: str, actor: str, most: int) -> Episode:
        self._core.receipts.flush()
        items = self._account(ended_as(begun, ended_ns, outcome, note), most)
        self._core.indexes.vectors.check_items(items)
        self._core.maps.remember(item.scope.get('map_id', '') for item in items)
        with self._core.store.begin('end_episode', actor=actor) as uow:
            # Bounded and stamped by the service itself: limits of callers could only keep an episode open.
            uow.statements.write(items, trusted=True)
            ended = uow.episodes.end(begun, ended_ns=ended_ns, outcome=outcome, note=note)
            for listener in self._listeners:
                listener(uow, ended)
        self._core.episode = ''
        self._core.follow(uow.result)
        return ended

    def _account(self, ended: Episode, most: int) -> list[MemoryItem]:
        """Return what is remembered of an episode: its key events, and last its summary."""
        self._core.store.recall_episode(ended.id)
        with self._core.store.read() as view:
            facts = view.episodes.facts(ended.id, most)
        clock = self._core.config.clock
        events = event_items(ended, facts.events, clock)
        ids = [statement_of(resolved(item, 0), self._core.config.identity_scope).id for item in events]
        summary = summary_item(ended, facts, clock, [*facts.told, *ids])
        return self._core.spaces.embedded([*events, summary])

    def _to_end(self, name: str) -> Episode:
        begun = self._open()
        if begun is not None and name in ('', begun.id):
            return begun
        if not name:
            raise InvalidRequestError('end_episode: none is open', field='op')
        known = self._known(name)
        if known is None:
            raise NotFoundError(f'id: there is no episode {name!r}', field='id')
        raise InvalidRequestError(f'id: {name!r} has ended before, as {known.outcome!r}', field='id')

    def _refuse_early(self) -> None:
        now_ns, least_ns = self._core.store.now_ns(), round(self._core.config.min_valid_stamp_s * 1e9)
        if now_ns < least_ns:
            raise ClockError(
                f'clock: {now_ns} ns lies before the first valid stamp {least_ns} ns', now_ns=now_ns
            )

    def _refuse_before(self, begun: Episode) -> None:
        clock_ns = self._core.store.clock_ns()
        if clock_ns < begun.begun_ns and not self._core.config.accept_older_clock:
            raise ClockError(
                f'clock: {clock_ns} ns lies before the begin of {begun.id!r} at {begun.begun_ns} ns; end it '
                'when the clock has passed that, or set accept_older_clock',
                begun_ns=begun.begun_ns,
            )

    def _known(self, name: str) -> Episode | None:
        with self._core.store.read() as view:
            return view.episodes.load(name)

    def _open(self) -> Episode | None:
        with self._core.store.read() as view:
            return view.episodes.open()

    def _free_name(self) -> str:
        """Return a name by the service clock that no episode had before."""
        at = datetime.fromtimestamp(self._core.store.now_ns() // 10**9, tz=timezone.utc)
        name = f'episode-{at:%Y%m%dT%H%M%SZ}'
        names = chain([name], (f'{name}-{number}' for number in count(2)))
        return next(free for free in names if self._known(free) is None)
