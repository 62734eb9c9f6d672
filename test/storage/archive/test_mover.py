"""Somebody writes while a slice is chosen, copied and compared: what holds by then stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from storage.archive.pieces import archive_all, opened, said

from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.archive import archive as storage

Act = Callable[[MemoryService], object]
NOW, PAST = MemoryQuery(key='door'), MemoryQuery(key='door', as_of=15)


def late(memory: MemoryService) -> None:
    memory.write([said('shut', 20.5, 'door')])


def anew(memory: MemoryService) -> None:
    memory.write([said('open', 900, 'door')])


def again(memory: MemoryService) -> None:
    memory.retract(MemoryQuery(key='door', as_of=55))
    memory.retract(MemoryQuery(key='door', as_of=65))


def forgotten(memory: MemoryService) -> None:
    memory.write([said('open', number, 'door') for number in range(1, 51)])
    memory.end(['door'], 800 * 10**9, kind='semantic')


def superseded(memory: MemoryService) -> None:
    memory.write([said('open', 1, 'door'), said('shut', 50, 'door'), said('ajar', 60, 'door')])


@pytest.mark.parametrize('step', ['find_cuts', 'copy_slice'])
@pytest.mark.parametrize(
    ('before', 'meanwhile'),
    [(forgotten, anew), (forgotten, late), (superseded, again)],
)
def test_what_holds_by_then_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, before: Act, meanwhile: Act
) -> None:
    work = getattr(storage, step)

    def interrupted(*args: Any) -> Any:
        done = work(*args)
        monkeypatch.setattr(storage, step, work)
        meanwhile(memory)
        return done

    with opened(tmp_path / 'plain.db') as plain:
        before(plain)
        meanwhile(plain)
        with opened(tmp_path / 'memory.db') as memory:
            before(memory)
            monkeypatch.setattr(storage, step, interrupted)
            for _ in range(3):
                archive_all(memory)
            assert memory.verify().ok
            assert memory.snapshot() == plain.snapshot()
            assert memory.history(key='door') == plain.history(key='door')
            for question in (NOW, PAST):
                assert memory.query(question).hits == plain.query(question).hits
            assert memory._core.store.archive.archivable() == [], 'what may still go has gone'
