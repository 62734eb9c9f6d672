"""Maintenance handler: snapshot, copy, restore, verification, and limits of each kind of memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hylo_memory_ros.config import KindLimits
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import Budget, MemoryKind, VerifyReport
from hylo_memory_ros.model.consolidation import Fill, KindRetention, RetentionReport
from hylo_memory_ros.service.consolidation.run import slices
from hylo_memory_ros.service.core import KnownMaps, MemoryCore
from hylo_memory_ros.service.handlers.consolidate import ConsolidationHandler
from hylo_memory_ros.service.handlers.episodes import EpisodeHandler
from hylo_memory_ros.storage.archive.archive import ArchiveInfo
from hylo_memory_ros.storage.archive.mover import ArchivedSlice
from hylo_memory_ros.storage.consolidation.candidates import KindSize


class MaintenanceHandler:
    """Hashes, copies, restores and verifies a memory.

    Parameters
    ----------
    core : MemoryCore
        State of the memory.
    episodes : EpisodeHandler
        Resumes the open episode of a restored copy.
    """

    def __init__(self, core: MemoryCore, episodes: EpisodeHandler) -> None:
        self._core = core
        self._episodes = episodes

    def snapshot(self, copy_path: str | None = None) -> str:
        """Return the hash of what is open; with a path, also copy the memory there.

        Raises
        ------
        StoreError
            The copy exists, or cannot be written.
        """
        with self._core.changing():
            if copy_path:
                self._core.store.copy(Path(copy_path))
            return self._core.store.reader.digest()

    def manifest(self) -> dict[str, Any]:
        """Return the snapshot hash with sequence, epoch, counts, versions and completeness."""
        self._core.refuse_closed()
        return self._core.store.reader.manifest()

    def restore(self, path: str) -> None:
        """Verify a copy, put it in the place of this memory, and begin a new epoch.

        The file before is kept beside it, with ``.before-restore-`` and the time in its name.

        Raises
        ------
        InvalidRequestError
            An episode is open.
        StoreError
            The copy fails its verification; nothing is changed.
        """
        core = self._core
        with core.changing():
            if core.episode:
                raise InvalidRequestError(
                    f'restore: the episode {core.episode!r} is open: end it first', field='path'
                )
            core.receipts.flush()
            try:
                committed = core.store.restore(Path(path), core.skills.match_copy)
            except BaseException:
                core.skills.mend()
                raise
            core.receipts.recount()
            core.working.clear()
            core.requests.clear()
            core.maps = KnownMaps(core.store, core.maps.current)
            core.indexes.reload()
            core.skills.follow_restore()
            core.events.publish(committed.change)
            self._episodes.resume()

    def verify(self) -> VerifyReport:
        """Recompute every timeline and hash, and compare mirror and skill files with the store.

        Writes and queries go on meanwhile.
        """
        core = self._core
        core.refuse_closed()
        report = core.store.reader.verify()
        return replace(report, problems=report.problems + self.verify_mirror() + core.skills.problems())

    def verify_mirror(self) -> tuple[str, ...]:
        """Compare the mirror with the store, row by row; a difference is logged and mended.

        Raises
        ------
        LoadingError
            The mirror is being loaded.
        """
        core = self._core
        with core.changing():
            sequence = core.store.sequence
        return core.indexes.check(sequence)

    def archive_info(self) -> ArchiveInfo | None:
        """Return the archive file, its size and its contents; None: nothing was ever archived."""
        self._core.refuse_closed()
        return self._core.store.archive.info()


Progress = Callable[[float, str], None]
Cancelled = Callable[[], bool]

# What one slice moves: a few milliseconds under the write lock.
SLICE = 50
NOTHING_HELD = KindSize(0, 0)


class RetentionHandler:
    """Keeps every kind of memory within the limits of its configuration.

    Parameters
    ----------
    core : MemoryCore
        State of the memory.
    consolidation : ConsolidationHandler
        Makes summaries of what is over a limit.
    """

    def __init__(self, core: MemoryCore, consolidation: ConsolidationHandler) -> None:
        self._core = core
        self._consolidation = consolidation

    def fill(self) -> dict[str, Fill]:
        """Return how full each kind is, working memory too: counted as things come and go, not by a scan."""
        self._core.refuse_closed()
        with self._core.store.read() as view:
            held = view.sizes.held_by_kind()
        filled = {
            kind: Fill(kind, *held.get(kind, NOTHING_HELD), limits.max_items, limits.max_bytes)
            for kind, limits in self._core.config.retention.by_kind.items()
        }
        room = self._core.config.working_capacity, self._core.config.working_limit_bytes
        working = MemoryKind.WORKING.value
        return {**filled, working: Fill(working, *self._core.working.held, *room)}

    def over_limit(self) -> tuple[Fill, ...]:
        """Return how full each kind is that is over a limit of items or bytes."""
        full = self.fill()
        return tuple(full[kind] for kind in self._core.config.retention.by_kind if full[kind].part > 1.0)

    def retain(
        self,
        kinds: Collection[str] | None = None,
        *,
        on_progress: Progress | None = None,
        cancelled: Cancelled | None = None,
        actor: str = '',
    ) -> RetentionReport:
        """Bring each kind that has limits to ``retention.target`` of them; others write between its slices.

        First it is consolidated, then what has ended goes into the archive. What holds now stays whatever
        the limits say, and is reported as a problem.

        Parameters
        ----------
        kinds : collection of str, optional
            Only these; none: every kind that has limits.
        on_progress : callable, optional
            Takes the part that is done, and what is being done.
        cancelled : callable, optional
            Whether to end after the slice at hand.
        actor : str
            Requesting user or component.

        Raises
        ------
        InvalidRequestError
            One of the kinds has no limits.
        """
        limited = {kind: one for kind, one in self._core.config.retention.by_kind.items() if one.any}
        chosen = limited if kinds is None else dict.fromkeys(kinds)
        for kind in chosen:
            if kind not in limited:
                raise InvalidRequestError(f'retain: {kind!r} has no limits', field='kinds')
        done: list[KindRetention] = []
        stop = cancelled or (lambda: False)
        for kind in chosen:
            if stop():
                break
            done.append(self._retain(kind, limited[kind], on_progress, stop, actor))
        return RetentionReport(tuple(done), cancelled=stop())

    def _retain(
        self, kind: str, limits: KindLimits, on_progress: Progress | None, stop: Cancelled, actor: str
    ) -> KindRetention:
        before = self.fill()[kind]
        cut_ns = self._core.store.now_ns() - round(limits.max_age_s * 1e9) if limits.max_age_s else None
        aged = 0 if cut_ns is None else self._age_out(kind, cut_ns, stop)
        consolidation = None
        if not stop() and (budget := self._budget(kind, limits, cut_ns)) is not None:
            consolidation = self._consolidation.consolidate(
                None, budget, kinds={MemoryKind(kind)}, on_progress=on_progress, cancelled=stop, actor=actor
            )
        after = self.fill()[kind]
        problem = '' if stop() else _problem(after, has_file=self._core.store.path is not None)
        return KindRetention(before, after, consolidation, aged, problem)

    def _budget(self, kind: str, limits: KindLimits, cut_ns: int | None) -> Budget | None:
        """Return what may stay at hand; None: no more is there."""
        full, target = self.fill()[kind], self._core.config.retention.target
        items = max(1, int(target * limits.max_items)) if limits.max_items else None
        size = max(1, int(target * limits.max_bytes)) if limits.max_bytes else None
        if cut_ns is not None and kind == MemoryKind.EPISODIC.value:
            # An event is as old as it is long ago although it still holds; what is oldest is condensed first.
            with self._core.store.read() as view:
                late = view.sizes.overdue(kind, cut_ns)
            if late:
                timely = max(1, self._core.store.reader.counts().get(kind, 0) - late)
                items = timely if items is None else min(items, timely)
        wanted = (items is not None and full.items > items) or (size is not None and full.bytes > size)
        return Budget(items=items, bytes=size) if wanted else None

    def _age_out(self, kind: str, before_ns: int, stop: Cancelled) -> int:
        """Move what had ended before a world time into the archive; return how many statements went."""
        gone, after, limit = 0, 0, SLICE + 1
        # Without a file there is nowhere to go.
        while self._core.store.path is not None and not stop():
            found = self._core.store.archive.archivable((kind,), None, before_ns, SLICE, after=after)
            if not found:
                break
            numbers = [one.identity_id for one in found]
            for moved in slices(partial(self._archived, numbers, before_ns, limit), limit):
                gone += moved.assertions
                self._core.throttle.give_way()
                if stop():
                    break
            after = numbers[-1]
        return gone

    def _archived(self, identity_ids: Sequence[int], before_ns: int, limit: int) -> ArchivedSlice:
        with self._core.changing():
            return self._core.store.archive.move(identity_ids, ended_before_ns=before_ns, limit=limit)


def _problem(after: Fill, *, has_file: bool) -> str:
    over = after.reached(1.0) if after.part > 1.0 else ()
    why = 'what is left holds, and nothing that holds is dropped'
    if not has_file:
        why = 'a memory without a file has no archive'
    return f'{"; ".join(over)}: {why}' if over else ''
