"""One consolidation run, from the excess over the budget to the report.

What is done is decided before anything is changed, in an order that depends on the memory alone; so a dry
run reports exactly what a run would do, and a run that was interrupted is finished by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from hylo_memory_ros.config import ConsolidationSettings
from hylo_memory_ros.domain.consolidation import Chunk, Composer, Need, Planner, Rule, without_lineage
from hylo_memory_ros.domain.consolidation.planner import ConsolidationCandidate
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import Budget, Condensed, ConsolidationReport, MemoryItem, MemoryKind
from hylo_memory_ros.service.core import BackgroundThrottle
from hylo_memory_ros.storage import CommitResult, SqliteStore
from hylo_memory_ros.storage.archive.mover import ArchivedSlice
from hylo_memory_ros.storage.consolidation.candidates import as_consolidable, size_of
from hylo_memory_ros.storage.consolidation.repository import name_of
from hylo_memory_ros.storage.consolidation.summaries import TAKEN, Group
from hylo_memory_ros.storage.statements.mapper import ItemRow, item_of, vector_of


class DryRunOverlay:
    """Summaries that are not stored, under numbers below 0 in the order in which they would be."""

    def __init__(self) -> None:
        self._ended: set[int] = set()
        self._items: dict[int, MemoryItem] = {}
        self._rows: dict[int, ConsolidationCandidate] = {}

    def add(self, groups: Sequence[Group], level: int) -> None:
        """Record summaries that would replace groups."""
        for group in groups:
            number = -1 - len(self._items)
            self._items[number] = group.summary
            self._rows[number] = as_consolidable(group.summary, number, group.episode, level)
            self._ended.update(group.version_rows)

    def without_replaced(self, rows: Sequence[ConsolidationCandidate]) -> Iterator[ConsolidationCandidate]:
        """Yield the rows that no summary of the overlay replaces."""
        return (row for row in rows if row.version_row not in self._ended)

    @property
    def summaries(self) -> Iterator[ConsolidationCandidate]:
        """Summaries that no other one replaces, in order."""
        return self.without_replaced(list(self._rows.values()))

    def item(self, number: int) -> MemoryItem:
        """Return a summary."""
        return self._items[number]


_Vectors = Mapping[str, tuple[float, ...]]


class ChunkReader:
    """Reads the members of chunks.

    Parameters
    ----------
    store : SqliteStore
    overlay : DryRunOverlay
        Summaries of a dry run, which are not stored.
    slice_items : int
        Approximate number of statements that are read at once.
    """

    def __init__(self, store: SqliteStore, overlay: DryRunOverlay, slice_items: int) -> None:
        self._store = store
        self._overlay = overlay
        self._slice_items = slice_items
        self._rows: Mapping[int, ItemRow] = {}
        self._vectors: Mapping[int, _Vectors] = {}
        self._summaries: set[int] = set()

    def read(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, list[MemoryItem]]]:
        """Yield chunks with the items of their members; a chunk with a missing member is left out."""
        for ahead in self._ahead(chunks):
            self._load(ahead)
            for chunk in ahead:
                if all(number < 0 or number in self._rows for number in chunk.version_rows):
                    yield chunk, self._items(chunk)

    def _ahead(self, chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
        ahead, size = list[Chunk](), 0
        for chunk in chunks:
            if ahead and size + len(chunk.members) > self._slice_items:
                yield ahead
                ahead, size = [], 0
            ahead.append(chunk)
            size += len(chunk.members)
        if ahead:
            yield ahead

    def _load(self, chunks: Sequence[Chunk]) -> None:
        members = [member for chunk in chunks for member in chunk.members if member.version_row > 0]
        self._rows = self._store.reader.fetch([member.version_row for member in members])
        self._vectors = self._store.reader.vectors(list(self._rows.values()))
        # A payload is the word of its writer: only the records of consolidation name the summaries.
        identities = [member.identity_id for member in members]
        with self._store.read() as view:
            self._summaries = view.consolidations.summaries_among(identities)

    def _items(self, chunk: Chunk) -> list[MemoryItem]:
        items = []
        for member in chunk.members:
            number = member.version_row
            if number < 0:
                items.append(self._overlay.item(number))
                continue
            item = item_of(self._rows[number], self._vectors.get(number))
            items.append(item if member.identity_id in self._summaries else without_lineage(item))
        return items


_MOST_TRIES = 3


def slices(move: Callable[[], ArchivedSlice], limit: int) -> Iterator[ArchivedSlice]:
    """Yield what each slice moves, until all has gone that goes.

    Parameters
    ----------
    move : callable
        Moves one slice.
    limit : int
        Most statements of one; a slice of fewer is the last.
    """
    tries = _MOST_TRIES
    while tries:
        moved = move()
        yield moved
        if 0 < moved.assertions < limit:
            return
        # Nothing: there is nothing left, or somebody wrote to it while it was being copied.
        tries -= not moved.assertions


# What is read or moved between two breaths: about a millisecond of work.
_ROWS = 64
_IDENTITIES = 256
_STATEMENTS = 128
_VECTORS = 256
_AGING = 'moving what has ended into the archive'
# What belongs together, when nothing of fewer days is left to become one.
_DAYS = 1, 32, 1024, None


@dataclass(frozen=True)
class ConsolidationRequest:
    """Request of a consolidation."""

    scope: Mapping[str, str]
    """Only statements of this scope; empty: all."""
    budget: Budget
    """Limits to bring it within."""
    kinds: tuple[str, ...]
    """Only of these kinds."""
    dry_run: bool
    """Whether to change nothing."""
    actor: str
    """Author of the request."""
    on_progress: Callable[[float, str], None]
    """Takes the part that is done, 0 to 1, and the stage."""
    cancelled: Callable[[], bool]
    """Whether to end after the slice at hand."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of the request for the record."""
        budget = {name: value for name, value in dict(self.budget).items() if value is not None}
        return {'scope': dict(self.scope), 'budget': budget, 'kinds': list(self.kinds)}


class _Gain(NamedTuple):
    """Saving of one summary."""

    rule: Rule
    items: int
    bytes: int


@dataclass
class _Progress:
    """Progress of a run, or of its dry run."""

    merged: list[Condensed] = field(default_factory=list)
    summarized: list[Condensed] = field(default_factory=list)
    aged: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    number: int | None = None
    cancelled: bool = False


class ConsolidationRun:
    """One consolidation of one memory.

    Parameters
    ----------
    store : SqliteStore
    settings : ConsolidationSettings
    request : ConsolidationRequest
    composer : Composer
        Composes summaries.
    open_episode : str
        The episode that is open: what belongs to it stays.
    changing : callable
        Returns the lock that a change holds.
    follow : callable
        Brings indexes and listeners up to date with a commit.
    throttle : BackgroundThrottle
        Lets the run wait for queries.
    """

    def __init__(
        self,
        store: SqliteStore,
        settings: ConsolidationSettings,
        request: ConsolidationRequest,
        composer: Composer,
        open_episode: str,
        changing: Callable[[], AbstractContextManager[Any]],
        follow: Callable[[CommitResult | None], None],
        throttle: BackgroundThrottle,
    ) -> None:
        self._store = store
        self._settings = settings
        self._request = request
        self._composer = composer
        self._open_episode = open_episode
        self._changing = changing
        self._follow = follow
        self._throttle = throttle
        self._can_archive = store.path is not None
        # In memory there is one connection: queries wait until a slice has ended.
        self._most = settings.slice_items if store.path is not None else 1
        self._gains: dict[str, _Gain] = {}
        self._to_age: list[int] = []
        self._overlay = DryRunOverlay()
        self._reader = ChunkReader(store, self._overlay, settings.slice_items)
        self._progress = _Progress()
        self._need = self._initial_need = Need(0, 0)
        self._part = 0.0

    def execute(self) -> ConsolidationReport:
        """Execute the request, and return the report."""
        request, done = self._request, self._progress
        before, digest_before = (
            self._store.reader.amount(request.kinds, request.scope),
            self._store.reader.digest(),
        )
        self._need, self._initial_need = (Need(*request.budget.excess(*before)) for _ in range(2))
        if self._need and self._can_archive:
            self._age_ended()
        if self._need and not done.cancelled and MemoryKind.EPISODIC.value in request.kinds:
            self._condense()
        gained = self._initial_need.items - self._need.items, self._initial_need.bytes - self._need.bytes
        if request.dry_run:
            after, digest_after = (before.items - gained[0], before.bytes - gained[1]), digest_before
        else:
            after, digest_after = (
                self._store.reader.amount(request.kinds, request.scope),
                self._store.reader.digest(),
            )
        request.on_progress(1.0, 'done')
        return ConsolidationReport(
            consolidation_id='' if done.number is None else name_of(done.number),
            dry_run=request.dry_run,
            cancelled=done.cancelled,
            met=request.budget.holds(*after),
            merged=tuple(done.merged),
            summarized=tuple(done.summarized),
            aged=tuple(done.aged),
            skipped=dict(done.skipped),
            items_before=before.items,
            items_after=after[0],
            bytes_before=before.bytes,
            bytes_after=after[1],
            digest_before=digest_before,
            digest_after=digest_after,
            hash_changed=bool(done.merged or done.summarized),
            sequence=self._store.sequence,
        )

    def _pause(self, stage: str) -> bool:
        """Return True if the run was cancelled; else report progress and give way to queries."""
        self._throttle.give_way()
        if self._request.cancelled():
            self._progress.cancelled = True
            return True
        # What was skipped is needed again; progress must not go back.
        self._part = max(self._part, self._need.part_met(self._initial_need))
        self._request.on_progress(self._part, stage)
        return False

    def _age_ended(self) -> None:
        after, kinds = 0, self._request.kinds
        while self._need and not self._pause(_AGING):
            found = self._store.archive.archivable(
                kinds, self._request.scope or None, limit=_IDENTITIES, after=after
            )
            chosen: list[int] = []
            for identity in found:
                if not self._need:
                    break
                self._need.less(identity.assertions, identity.bytes)
                chosen.append(identity.identity_id)
            self._age(chosen)
            if len(found) < _IDENTITIES:
                return
            after = found[-1].identity_id

    def _age(self, identity_ids: Sequence[int]) -> None:
        """Move ended statements of identities into the archive, slice by slice."""
        leaving = self._store.archive.archivable_ids(identity_ids)
        names = [name for number in identity_ids for name in leaving.get(number, ())]
        if self._request.dry_run:
            self._progress.aged += names
            return
        moved: set[str] = set()
        # One more than there are identities: most have one statement, and one call tells that it was all.
        limit = max(len(identity_ids), _STATEMENTS) + 1
        for done in slices(partial(self._store.archive.move, identity_ids, limit=limit), limit):
            moved.update(done.ids)
            if self._pause(_AGING):
                break
        self._progress.aged += [name for name in names if name in moved]

    def _condense(self) -> None:
        """Condense what is of one day, then of several, while there is need."""
        before_ns = self._store.now_ns()
        for days in _DAYS:
            self._condense_days(days, before_ns)

    def _condense_days(self, days: int | None, before_ns: int) -> None:
        """Summarize events, then their summaries, level by level while there is need."""
        level = 0
        while self._need and not self._progress.cancelled:
            planner = Planner(self._settings, level, days, self._throttle.give_way)
            self._read(planner, before_ns)
            made = self._condense_planned(planner)
            if not made and planner.next_level is None:
                return
            level = level + 1 if made or planner.next_level is None else planner.next_level

    def _condense_planned(self, planner: Planner) -> bool:
        """Condense what belongs together of one level, and return whether anything did."""
        if self._progress.cancelled:
            return False
        pending: list[Group] = []
        size, made = 0, False
        for chunk, items in self._read_planned(planner):
            stage = 'merging near duplicates' if chunk.rule == 'merge' else 'summarizing'
            if self._pause(stage):
                return made
            group = self._group(chunk, items, planner.level + 1)
            if group is None:
                continue
            if pending and (group.episode != pending[0].episode or size + len(group.ids) > self._most):
                made = self._settle(pending, planner.level + 1) or made
                pending, size = [], 0
            pending.append(group)
            size += len(group.ids)
        if pending and not self._pause('summarizing'):
            made = self._settle(pending, planner.level + 1) or made
        self._age_replaced()
        return made

    def _read(self, planner: Planner, before_ns: int) -> None:
        """Feed the planner with the statements that hold now."""
        now_ns, after = self._store.now_ns(), (-1, 0)
        while not self._pause('reading'):
            rows = self._store.reader.consolidable(
                before_ns,
                _ROWS,
                now_ns=now_ns,
                scope=self._request.scope or None,
                after=after,
                open_episode=self._open_episode,
            )
            for row in self._overlay.without_replaced(rows):
                planner.add(row)
            if len(rows) < _ROWS:
                break
            after = rows[-1].valid_from_ns, rows[-1].version_row
        for row in self._overlay.summaries:
            planner.add(row)
        if (space := self._settings.near_duplicate_space) and not self._progress.cancelled:
            planner.join_alike(self._vectors(space, planner.heads()))

    def _vectors(self, space: str, assertions: Sequence[int]) -> dict[int, Sequence[float]]:
        found: dict[int, Sequence[float]] = {}
        for first in range(0, len(assertions), _VECTORS):
            asked = assertions[first : first + _VECTORS]
            found |= {
                number: vector_of(data)
                for number, data in self._store.reader.vectors_of(space, asked).items()
            }
            self._throttle.give_way()
        pending = {number: self._overlay.item(number).embeddings for number in assertions if number < 0}
        return found | {number: vectors[space] for number, vectors in pending.items() if space in vectors}

    def _read_planned(self, planner: Planner) -> Iterator[tuple[Chunk, list[MemoryItem]]]:
        """Yield what is to become one while there is need, with what it says; the last as small as that."""
        for chunk, items in self._reader.read(chain(planner.merges(), planner.summaries())):
            if not self._need:
                return
            most = self._need.most(len(items))
            yield chunk.first(most), items[:most]

    def _group(self, chunk: Chunk, items: Sequence[MemoryItem], level: int) -> Group | None:
        """Return the summary of a chunk, and subtract its saving from the need; None: there is none."""
        try:
            summary = self._composer.compose(chunk.rule, items, level)
        except InvalidRequestError as exc:
            self._progress.skipped[self._composer.id_of(chunk.rule, items)] = exc.message
            return None
        fewer = sum(member.items for member in chunk.members) - 1
        smaller = sum(member.bytes for member in chunk.members) - size_of(summary)
        # Enough items, and a summary as large as its members gains no bytes.
        if self._need.items <= 0 and smaller <= 0:
            return None
        self._need.less(fewer, smaller)
        self._gains[str(summary.id)] = _Gain(chunk.rule, fewer, smaller)
        return Group(summary, chunk.version_rows, tuple(str(item.id) for item in items), chunk.episode)

    def _settle(self, groups: Sequence[Group], level: int) -> bool:
        """Replace groups by summaries, and archive the replaced statements.

        Returns
        -------
        bool
            Whether one of them does.
        """
        if self._request.dry_run:
            taken = self._store.reader.taken([str(group.summary.id) for group in groups])
            self._skip(dict.fromkeys(taken, TAKEN))
            ready = [group for group in groups if group.summary.id not in taken]
            self._overlay.add(ready, level)
            self._keep([Condensed(str(group.summary.id), group.ids) for group in ready])
            self._progress.aged += (
                [name for group in ready for name in group.ids] if self._can_archive else []
            )
            return bool(ready)
        with self._changing():
            with self._store.begin('consolidate', actor=self._request.actor, durable=False) as uow:
                number = self._progress.number
                if number is None:
                    number = uow.consolidations.begin(self._request.as_dict())
                part = uow.consolidations.summarize(number, groups)
                # Every group was refused: a transaction without a change gets no sequence.
                if not part.done:
                    uow.discard()
            self._follow(uow.result)
        if part.done:
            self._progress.number = number
        self._skip(part.skipped)
        self._keep(part.done)
        self._to_age += part.identity_ids
        if len(self._to_age) >= _IDENTITIES:
            self._age_replaced()
        return bool(part.done)

    def _age_replaced(self) -> None:
        if self._can_archive and self._to_age:
            self._age(self._to_age)
        self._to_age = []

    def _skip(self, skipped: Mapping[str, str]) -> None:
        """Record summaries that were not made, and add their gain to the need again."""
        self._progress.skipped.update(skipped)
        for summary_id in skipped:
            gain = self._gains[summary_id]
            self._need.less(-gain.items, -gain.bytes)

    def _keep(self, done: Sequence[Condensed]) -> None:
        for group in done:
            kept = (
                self._progress.merged if self._gains[group.id].rule == 'merge' else self._progress.summarized
            )
            kept.append(group)
