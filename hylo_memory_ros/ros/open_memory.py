"""Open the memory file of a configuration."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hylo_memory_ros.errors import NotActiveError, ReadOnlyError
from hylo_memory_ros.parameters import NodeConfig
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.engine.files import url_of

__all__ = ['database_url', 'open_memory']

# Launch files end a process by force after 5 s.
_GRACE_S = 2.0


def open_memory(config: NodeConfig, clock: Callable[[], int], abandoned: Callable[[], bool]) -> MemoryService:
    """Open the memory in a thread of its own, and wait for it.

    Checking a large file takes long and nothing can interrupt it, so once the process is to end the
    wait is short.

    Parameters
    ----------
    config : NodeConfig
        Path and settings.
    clock : callable
        The node's clock, nanoseconds; 0 while it has not started.
    abandoned : callable
        Whether the process is to end.

    Raises
    ------
    HyloMemoryError
        If the file cannot be opened.
    """
    results: list[Any] = []
    memory_config = config.memory
    if not clock():
        # Before the first /clock the file cannot be compared with it; `check_clock` does it later.
        memory_config = memory_config.model_copy(update={'accept_older_clock': True})

    def run() -> None:
        try:
            results.append(
                MemoryService.open(
                    database_url(config.database_path),
                    clock=clock,
                    config=memory_config,
                    map_id=config.map_id,
                    background=True,
                )
            )
        except BaseException as exc:  # noqa: BLE001 - raised again where it is waited for
            results.append(exc)

    thread = threading.Thread(target=run, name='open', daemon=True)
    thread.start()
    while thread.is_alive() and not abandoned():
        thread.join(0.1)
    thread.join(_GRACE_S)
    if not results:
        raise NotActiveError(f'{config.database_path}: the process ends; the file is opened no further')
    if isinstance(results[0], BaseException):
        raise results[0]
    memory: MemoryService = results[0]
    return memory


def database_url(path: str) -> str | None:
    """Return the URL of a memory file; its folder is created where it is missing.

    Raises
    ------
    ReadOnlyError
        If the folder cannot be created.
    """
    if path == ':memory:':
        return None
    if path.startswith('sqlite:'):
        return path
    file = Path(path).expanduser().absolute()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ReadOnlyError(
            f'database_path: {file}: its folder cannot be created: {exc}', path=str(file)
        ) from exc
    return url_of(file)
