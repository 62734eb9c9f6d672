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


def test_what_was_merged_and_what_ended_moves_with_its_version(tmp_path: Path) -> None:
    with opened(tmp_path / 'plain.db') as plain, opened(tmp_path / 'memory.db') as memory:

        def both(*items: Any) -> None:
            for one in (plain, memory):
                for item in items:
                    one.write([item])

        vectors = {'c@1': [1, 0]}
        both(said('open', 1, 'door', confidence=0.5, evidence=['a'], embeddings=vectors))
        both(said('open', 2, 'door', confidence=0.9, evidence=['b'], embeddings={'c@1': [0, 1]}))
        both(said('shut', 10, 'door'), said('shut', 11, 'door', confidence=0.5))
        for one in (plain, memory):
            one.end(['door'], 15 * 10**9, kind='semantic', reason='torn down')
        both(said('open', 20, 'door'), said('ajar', 30, 'door'))
        archive_all(memory)
        questions = [
            MemoryQuery(key='door', as_of=at, known_seq=seq)
            for at in (2, 12, 16, 40)
            for seq in (1, 2, 4, None)
        ]
        for _ in range(2):
            assert memory.verify().ok
            assert memory.snapshot() == plain.snapshot()
            assert memory.manifest()['timeline_digest'] == plain.manifest()['timeline_digest']
            assert memory.history(key='door') == plain.history(key='door')
            for question in questions:
                assert memory.query(question).hits == plain.query(question).hits
            assert 'end: torn down' in {one.ended_by for one in memory.history(key='door').versions}
            # A late repetition brings it back, and is merged with what was archived.
            both(said('open', 3, 'door', source='late@1'))
