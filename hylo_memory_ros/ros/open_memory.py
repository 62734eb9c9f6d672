"""Open the memory file of a configuration, and check clocks against it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hylo_memory_ros.errors import NotActiveError, ReadOnlyError
from hylo_memory_ros.parameters import NodeConfig
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.engine.files import url_of

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


logger = logging.getLogger(__name__)

FAR_S = 86_400.0


class StampWatch:
    """Warns once when a received stamp lies more than a day away from the node's clock.

    Parameters
    ----------
    clock : callable
        The node's clock, nanoseconds; 0 while it has not started.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._warned = False

    def check(self, stamp_ns: int | None, place: str) -> None:
        """Compare a stamp with the clock.

        Parameters
        ----------
        stamp_ns : int or None
            Nanoseconds; None or 0: not set.
        place : str
            Where it was found, for the warning.
        """
        if self._warned or not stamp_ns or not (now_ns := self._clock()):
            return
        apart_s = (stamp_ns - now_ns) / 1e9
        if abs(apart_s) > FAR_S:
            self._warned = True
            # Mostly a recording that is replayed against the wall clock.
            logger.warning(
                '%s: stamp %.3f s lies %.0f s %s the clock of the node; in a replay, set use_sim_time',
                place,
                stamp_ns / 1e9,
                abs(apart_s),
                'before' if apart_s < 0 else 'after',
            )


def check_clock(config: NodeConfig, recorded_ns: int, now_ns: int) -> str:
    """Return a warning when the clock lies far behind the memory file; empty: it does not.

    A file opened before the clock has started can only be compared afterwards.

    Parameters
    ----------
    config : NodeConfig
        How far behind is accepted.
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
        'everything is recorded at that time: is it the right file? If so, set accept_older_clock'
    )
