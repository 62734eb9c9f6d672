"""What the tests of the archive say, move and look at."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from storage.sample import url
from support.clock import ManualClock

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService

NOW_S = 1000.0
PAST = MemoryQuery(key='mug', as_of=2)


def opened(path: Path, **options: Any) -> MemoryService:
    return MemoryService.open(url(path), clock=ManualClock(NOW_S), **options)


def said(content: str, at: float, key: str | None = 'mug', **fields: Any) -> MemoryItem:
    return MemoryItem(**{'kind': 'semantic', 'key': key, 'content': content, 'valid_from': at, **fields})


def fill(memory: MemoryService) -> None:
    """A mug of eight colours, and five events that were forgotten."""
    memory.write([said(f'colour {number}', number) for number in range(1, 9)])
    memory.write([said(f'event {number}', 100 + number, None, kind='episodic') for number in range(5)])
    memory.forget(MemoryQuery(text='event'))


def archive_all(memory: MemoryService, **options: Any) -> Any:
    store = memory._core.store
    return store.archive.move([one.identity_id for one in store.archive.archivable()], **options)


def archive_of(path: Path) -> Path:
    return path.with_name(f'{path.name}.archive')


def rows_in(archive: Path) -> int:
    with closing(sqlite3.connect(f'{archive.as_uri()}?mode=ro', uri=True)) as raw:
        return int(raw.execute('SELECT count(*) FROM assertion').fetchone()[0])
