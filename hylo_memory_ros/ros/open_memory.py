"""Opening the memory of a configuration: its path, its folder, and the wait for its check."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hylo_memory_ros.errors import NotActiveError, ReadOnlyError
from hylo_memory_ros.parameters import NodeConfig
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.engine.files import url_of

__all__ = ['behind', 'database_url', 'opened']

# Launch files end a process by force after 5 s.
_GRACE_S = 2.0


def opened(config: NodeConfig, clock: Callable[[], int], abandoned: Callable[[], bool]) -> MemoryService:
    """Open the memory in a thread of its own, and wait for it, but not for long once the process is to end.

    Checking a large file takes its time, and nothing can interrupt it. What is nearly open is closed
    in order.
    """
    results: list[Any] = []
    memory_config = config.memory
    if not clock():
        # Before the first /clock nobody can say whether the file is of a later time.
        memory_config = memory_config.model_copy(update={'accept_older_clock': True})

    def open_it() -> None:
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

    thread = threading.Thread(target=open_it, name='open', daemon=True)
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


def behind(config: NodeConfig, recorded_ns: int, now_ns: int) -> str:
    """Return what is to be said of a clock that turned out to lie far behind the file; empty: nothing is.

    Parameters
    ----------
    config : NodeConfig
        What is far, and whether it is meant so.
    recorded_ns : int
        The last record when the file was opened, nanoseconds.
    now_ns : int
        The node's time, nanoseconds; 0 while its clock has not started.
    """
    ahead_s = (recorded_ns - now_ns) / 1e9
    if not now_ns or config.memory.accept_older_clock or ahead_s <= config.memory.max_clock_step_back_s:
        return ''
    return (
        f'clock: the last record of {config.database_path} lies {ahead_s:.0f} s ahead of it, more than '
        f'max_clock_step_back_s {config.memory.max_clock_step_back_s:g}, and until the clock has passed that '
        'everything is recorded at that time: is it the right file? Set accept_older_clock if it is meant so'
    )


def database_url(path: str) -> str | None:
    """Return the URL of a memory file; its folder is made where it is missing.

    Raises
    ------
    ReadOnlyError
        If the folder cannot be made.
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
            f'database_path: {file}: its folder cannot be made: {exc}', path=str(file)
        ) from exc
    return url_of(file)
