"""A memory file as the command line opens it: at its own time, and without its lock unless it changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import ConfigurationError, StoreError
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.service.skills import NO_DIRECTORY
from hylo_memory_ros.storage.engine.files import url_of
from hylo_memory_ros.storage.engine.state import identity_scope_of

__all__ = ['opened']


@contextmanager
def opened(path: Path, *, writing: bool = False) -> Iterator[MemoryService]:
    """Open a memory file for reading; a node may be writing it meanwhile.

    Whoever writes it needs it alone: beside a node it is refused.

    "Now" is the time of the file's newest record, so that a file tells the same today and
    tomorrow, and whichever clock its robot had.

    Raises
    ------
    StoreError
        The file is missing, damaged, foreign, or of a newer version, or it is to be written and in use; it
        is left untouched.
    """
    try:
        memory = _open(path, MemoryConfig(accept_older_clock=True), writing)
    except ConfigurationError:
        config = MemoryConfig(accept_older_clock=True, identity_scope=identity_scope_of(path))
        memory = _open(path, config, writing)
    with memory:
        yield memory


def _open(path: Path, config: MemoryConfig, writing: bool) -> MemoryService:
    if writing and not path.is_file():
        raise StoreError(f'database {path}: there is no such file', path=str(path))
    if writing:
        # What the robot set is not known here, and nothing that is written here is a skill.
        config = config.model_copy(update={'skill_directory': NO_DIRECTORY})
    return MemoryService.open(url_of(path), config=config, clock=lambda: 0, read_only=not writing)
