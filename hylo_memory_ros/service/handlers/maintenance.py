"""Maintenance handler: snapshot hash, copy, restore, verification and archive information."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import VerifyReport
from hylo_memory_ros.service.core import KnownMaps, MemoryCore
from hylo_memory_ros.service.handlers.episodes import EpisodeHandler
from hylo_memory_ros.storage.archive.archive import ArchiveInfo

__all__ = ['MaintenanceHandler']


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
