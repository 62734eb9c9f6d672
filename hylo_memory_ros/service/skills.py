"""Skills of one memory: compiled predicates, and the directory of skill files.

Threads: what changes is called under the service's lock of writes; questions run beside it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.domain.identity import content_bytes, identity_digest
from hylo_memory_ros.domain.skills import SkillIndex, parse_predicate, problems_of_skill_item
from hylo_memory_ros.errors import HyloMemoryError, StoreError
from hylo_memory_ros.model import MemoryItem, MemoryKind
from hylo_memory_ros.model.skill import SKILL_STATUSES
from hylo_memory_ros.storage import CommitResult, SqliteStore
from hylo_memory_ros.storage.skill_directory import SkillDirectory, file_name, item_of_file, printable
from hylo_memory_ros.storage.unit_of_work import ReadView

logger = logging.getLogger(__name__)

NO_DIRECTORY = ':memory:'
"""The parameter of who wants no files: skills stand in the database alone."""
FOUND = 'skill directory'
"""Who writes what was found in the directory."""
_DIRECTORIES = 'skill_directories'


@dataclass(frozen=True, slots=True)
class SkillReport:
    """Findings in the directory when the memory was opened, or after a restore."""

    files: int = 0
    """Sound files that the database knows."""
    set_aside: tuple[tuple[str, str], ...] = ()
    """Name and reason of what was renamed aside."""
    written: tuple[str, ...] = ()
    """Files that were missing or not sound, and were written again from the database."""
    admitted: tuple[str, ...] = ()
    """Files that the database did not know, and that passed the gate."""
    problems: tuple[str, ...] = ()
    """What could not be mended, each in one sentence."""

    @property
    def warnings(self) -> list[str]:
        """Messages for an operator, each one sentence."""
        told = list(self.problems)
        if self.set_aside:
            name, reason = self.set_aside[0]
            count = len(self.set_aside)
            told.append(f'{count} skill files were set aside, such as {printable(name)}: {reason}')
        return told


def skill_directory_of(path: Path | None, config: MemoryConfig) -> Path | None:
    """Return the directory of the skills of a database; None: there is none.

    Examples
    --------
    >>> skill_directory_of(Path('/var/lib/robot/memory.db'), MemoryConfig())
    PosixPath('/var/lib/robot/memory.db.skills')
    """
    if config.skill_directory == NO_DIRECTORY:
        return None
    if config.skill_directory:
        return Path(config.skill_directory).expanduser().absolute()
    return None if path is None else path.with_name(f'{path.name}.skills')


class SkillLibrary:
    """The skills of one memory.

    Parameters
    ----------
    store : SqliteStore
        The authority.
    config : MemoryConfig
        Where the directory is.
    read_only : bool
        Change nothing.

    Raises
    ------
    FileInUseError, ReadOnlyError
        The directory belongs to another memory, or cannot be made or written.
    """

    def __init__(self, store: SqliteStore, config: MemoryConfig, *, read_only: bool) -> None:
        self._store = store
        self._read_only = read_only
        self._identity_scope = config.identity_scope
        self.index = SkillIndex()
        self.report = SkillReport()
        self._strange: tuple[tuple[str, str], ...] = ()
        path = skill_directory_of(store.path, config)
        # One that somebody names may be anywhere; the other one is made beside the database when needed.
        named = bool(config.skill_directory)
        self._directory = None if path is None else SkillDirectory(path, read_only=read_only, make=named)
        self.reload()

    @property
    def path(self) -> Path | None:
        """The directory; None: there is none."""
        return None if self._directory is None else self._directory.path

    def reload(self) -> None:
        """Compile what the store holds now."""
        with self._store.read() as view:
            self.index.load(list(view.skills.payloads()))

    def follow(self, committed: CommitResult) -> None:
        """Take over what one transaction changed."""
        self.index.add(committed.skills)
        if any(number in self.index for number in committed.unsaid):
            # What was read of predicates stays in memory otherwise.
            parse_predicate.cache_clear()
            self.reload()

    def with_verdicts(self, items: Sequence[MemoryItem], actor: str) -> list[MemoryItem]:
        """Give skills that change their status without telling verdicts those that they have.

        They are the verdicts that held, and what feedback has counted since. What was found in the
        directory stays what its file says.
        """
        if actor == FOUND:
            return list(items)
        return [self._with_verdicts(item) if item.kind is MemoryKind.SKILL else item for item in items]

    def _with_verdicts(self, item: MemoryItem) -> MemoryItem:
        if 'verdicts' in item.payload or item.key is None:
            return item
        identity = identity_digest(item, self._identity_scope)
        with self._store.read() as view:
            found = view.skills.judged(identity)
        if found is None or found[0].status == item.payload.get('status'):
            return item
        known, counted = found
        told = known.verdicts.model_dump()
        verdicts = {name: value + getattr(counted, name) for name, value in told.items()}
        return item.model_copy(update={'payload': {**item.payload, 'verdicts': verdicts}})

    @contextmanager
    def stage_files(self, items: Sequence[MemoryItem], *, dry_run: bool) -> Iterator[Callable[[], None]]:
        """Write the files of skills beside their places, before the commit; the result puts them there.

        Raises
        ------
        StoreFullError, ReadOnlyError, FileInUseError
            A file cannot be written; nothing is left behind.
        """
        skills = [item for item in items if item.kind is MemoryKind.SKILL]
        if self._directory is None or dry_run or not skills or any(map(problems_of_skill_item, skills)):
            yield lambda: None
            return
        with self._directory.staged(dict(map(_file_of, skills))) as publish:
            yield publish

    def remove_files(self, version_rows: Sequence[int]) -> list[str]:
        """Delete the files of every version of the identities of some, for good.

        Returns
        -------
        list of str
            Paths of what was set aside under their keys, and is of no version that was known, and of files
            in a directory that was used before.

        Raises
        ------
        ReadOnlyError
            A file cannot be deleted.
        """
        with self._store.read() as view:
            stated = view.skills.stated_of(version_rows)
        left = [] if self._directory is None else self._directory.remove(stated)
        names = [file_name(key, digest) for key, digest in stated]
        elsewhere = (Path(folder) / name for folder in self._earlier() for name in names)
        return left + [str(path) for path in elsewhere if path.exists()]

    def _earlier(self) -> list[str]:
        """Return the directories that the files of this memory may have been in before."""
        with self._store.read() as view:
            used: list[str] = json.loads(view.state.get(_DIRECTORIES, b'[]'))
        usual = skill_directory_of(self._store.path, MemoryConfig())
        return [folder for folder in (*used, *([str(usual)] if usual else ())) if folder != str(self.path)]

    def _note_directory(self) -> None:
        """Keep on record a directory that is not the usual one, for a purge to name what is left there."""
        with self._store.begin_unnumbered(durable=True) as uow:
            used: list[str] = json.loads(uow.state.get(_DIRECTORIES, b'[]'))
            if str(self.path) not in used:
                uow.state.put(_DIRECTORIES, json.dumps([*used, str(self.path)]).encode())

    def mend(self) -> None:
        """Write again what the database knows and the directory lacks; what does not fit is not touched."""
        self._mended(SkillReport(), self._known())

    def match_copy(self, view: ReadView) -> None:
        """Set aside what a copy does not know, before it is put in the place of the memory.

        Done before, so that a process that is killed between finds either the files of the memory before,
        which are written again, or no file that the copy would take for a new skill.
        """
        if self._directory is None or not self._directory.path.exists():
            return
        known = {file_name(key, digest) for key, digest in view.skills.stated()}
        reason = 'the restored memory does not know it'
        strange = [name for name in self._directory.entries() if name not in known]
        for name in strange:
            self._directory.move_aside(name, reason)
        self._strange = tuple((name, reason) for name in strange)

    def follow_restore(self) -> None:
        """Follow a copy that was put in the place of the memory: its skills, and each with its file."""
        self.reload()
        self.report = self._mended(SkillReport(set_aside=self._strange), self._known())

    def reconcile(self, write: Callable[[MemoryItem], object]) -> None:
        """Re-read every file, hold it against its name and the database, and mend what differs.

        Parameters
        ----------
        write : callable
            Writes a skill that only the directory knows; the gate may refuse it.

        Raises
        ------
        ReadOnlyError, FileInUseError
            The directory cannot be read or written.
        """
        if self._directory is None or self._read_only:
            return
        if self.path != skill_directory_of(self._store.path, MemoryConfig()):
            self._note_directory()
        self._directory.sweep()
        known = self._known()
        report, found = self._sorted_out(known)
        report = self._mended(report, known)
        self.report = self._admitted(report, found, write)

    def _known(self) -> dict[str, bytes]:
        with self._store.read() as view:
            return {file_name(key, digest): digest for key, digest in view.skills.stated()}

    def _sorted_out(self, known: Mapping[str, bytes]) -> tuple[SkillReport, dict[str, MemoryItem]]:
        """Set aside what is malformed; return what is sound and not known."""
        assert self._directory is not None
        aside, found, sound = [], {}, 0
        for name in self._directory.entries():
            reason = ''
            try:
                data = self._directory.read(name)
                if name not in known:
                    found[name] = item_of_file(name, data)
                elif sha256(data).digest() != known[name]:
                    reason = 'its bytes are not those that its name says'
                else:
                    sound += 1
            except ValueError as exc:
                reason = str(exc)
            if reason:
                self._directory.move_aside(name, reason)
                aside.append((name, reason))
        return SkillReport(sound, tuple(aside)), found

    def _mended(self, report: SkillReport, known: Mapping[str, bytes]) -> SkillReport:
        if self._directory is None:
            return report
        there = set(self._directory.entries())
        missing = {name: digest for name, digest in known.items() if name not in there}
        if not missing:
            return report
        written, problems = [], []
        wanted = {digest: name for name, digest in missing.items()}
        with self._store.read() as view:
            items = list(view.skills.items(wanted))
        for digest, item in items:
            name, data = wanted[digest], content_bytes(item)
            if sha256(data).digest() != digest:
                problems.append(f'{name} is missing, and the database does not hold what its digest is of')
                continue
            if problem := self._refused(name, data):
                problems.append(f'{name} is missing: {problem}')
            else:
                written.append(name)
        for problem in problems:
            logger.error('skill directory: %s', problem)
        return replace(report, written=tuple(written), problems=tuple(problems))

    def _refused(self, name: str, data: bytes) -> str:
        assert self._directory is not None
        try:
            self._directory.put(name, data)
        except StoreError as exc:
            return str(exc)
        return ''

    def _admitted(
        self, report: SkillReport, found: Mapping[str, MemoryItem], write: Callable[[MemoryItem], object]
    ) -> SkillReport:
        """Write what only the directory knows, as its status would have come about; the gate decides."""
        assert self._directory is not None
        admitted, aside = [], list(report.set_aside)
        ranks = {status: rank for rank, status in enumerate(SKILL_STATUSES)}
        for name, item in sorted(found.items(), key=lambda one: (ranks[one[1].payload['status']], one[0])):
            if reason := _refusal(write, item):
                self._directory.move_aside(name, reason)
                aside.append((name, reason))
            else:
                admitted.append(name)
        return replace(report, admitted=tuple(admitted), set_aside=tuple(aside))

    def problems(self) -> tuple[str, ...]:
        """Return how the directory differs from the database; a copy, read without one, has none."""
        directory = self._directory
        if directory is None or (self._read_only and not directory.path.exists()):
            return ()
        return tuple(directory.problems(self._known()))

    def close(self) -> None:
        """Give the directory up; safe to repeat."""
        if self._directory is not None:
            self._directory.close()


def _refusal(write: Callable[[MemoryItem], object], item: MemoryItem) -> str:
    """Write an item, and return why it was refused; empty: it was not."""
    try:
        write(item)
    except HyloMemoryError as exc:
        return str(exc)
    return ''


def _file_of(item: MemoryItem) -> tuple[str, bytes]:
    data = content_bytes(item)
    return file_name(item.key or '', sha256(data).digest()), data
