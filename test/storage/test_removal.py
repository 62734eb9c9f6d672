"""What a removal takes away of a timeline."""

from __future__ import annotations

import pytest

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService

MUG = MemoryQuery(key='mug')


def mug(content: str, valid_from: float) -> MemoryItem:
    return MemoryItem(kind='semantic', key='mug', content=content, valid_from=valid_from)


@pytest.mark.parametrize('before', [[], [mug('old', 1)], [mug('new', 1)]])
def test_a_forget_leaves_nothing_that_a_void_statement_had_outdone(before: list[MemoryItem]) -> None:
    with MemoryService.open(clock=lambda: 100_000_000_000) as memory:
        memory.write([*before, mug('first', 200), mug('new', 200)])
        assert memory.forget(MUG) == len({item.content for item in [*before, mug('new', 200)]})
        for as_of in (None, 100, 200, 1e6):
            assert not memory.query(MemoryQuery(key='mug', as_of=as_of))
        assert memory.query(MemoryQuery(key='mug', as_of=200, known_seq=1))[0].item.content == 'new'
        assert memory.verify().ok


def test_a_retract_brings_back_what_was_outdone() -> None:
    with MemoryService.open(clock=lambda: 100_000_000_000) as memory:
        memory.write([mug('first', 50), mug('second', 50)])
        assert memory.retract(MUG) == 1
        assert memory.query(MUG)[0].item.content == 'first'
        assert memory.verify().ok
