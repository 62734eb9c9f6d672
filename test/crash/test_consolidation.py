"""Killed before any step of a consolidation or its reversal, nothing is half done, and it can be finished."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nursery import Nursery

from bench.consolidation import happenings
from hylo_memory_ros.config import ConsolidationSettings, MemoryConfig
from hylo_memory_ros.model import Budget, MemoryQuery
from hylo_memory_ros.service import MemoryService

CONFIG = MemoryConfig(consolidation=ConsolidationSettings(group_items=4, slice_items=8))
CODE = """
from hylo_memory_ros.config import ConsolidationSettings, MemoryConfig
from hylo_memory_ros.model import Budget
config = MemoryConfig(consolidation=ConsolidationSettings(group_items=4, slice_items=8))
with MemoryService.open(url, config=config) as memory:
    {}
    acknowledge('consolidated')
"""
BUDGET = Budget(items=4)


@pytest.fixture(scope='module')
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / 'folder'
    folder.mkdir()
    with opened(folder) as memory:
        memory.write(happenings(60, seed=4))
    return folder


def opened(folder: Path) -> MemoryService:
    return MemoryService.open(f'sqlite:///{folder}/memory.db', config=CONFIG)


def refuse_half_done(memory: MemoryService) -> int:
    """Refuse a summary beside what it stands for; return how many there are."""
    assert memory.verify().problems == ()
    holding = memory.query(MemoryQuery(k=1000))
    ids = {hit.item.id for hit in holding}
    summaries = [hit.item for hit in holding if 'consolidated' in hit.item.payload]
    for item in summaries:
        assert ids.isdisjoint(target for relation, target in item.links if relation == 'summarizes')
    told = sum(item.payload['consolidated']['stands_for'] for item in summaries)
    assert told + len(holding) - len(summaries) == 60
    return len(summaries)


def test_a_consolidation(nursery: Nursery, folder: Path) -> None:
    with opened(folder) as memory:
        before = memory.snapshot()
    seen: set[int] = set()
    whole = None
    for place, _ in nursery.kill_along(folder, CODE.format('memory.consolidate(budget=Budget(items=4))')):
        with opened(place) as memory:
            seen.add(refuse_half_done(memory))
            memory.consolidate(budget=BUDGET)
            refuse_half_done(memory)
            ids = sorted(str(hit.item.id) for hit in memory.query(MemoryQuery(k=1000)))
            whole = whole or (memory.snapshot(), ids)
            assert (memory.snapshot(), ids) == whole
            for record in reversed(memory.consolidations()):
                memory.revert_consolidation(record.name)
            assert memory.snapshot() == before
            assert memory.verify().problems == ()
    assert len(seen) > 1


def test_a_reversal(nursery: Nursery, folder: Path) -> None:
    with opened(folder) as memory:
        before = memory.snapshot()
        memory.consolidate(budget=BUDGET)
    for place, words in nursery.kill_along(
        folder, CODE.format("memory.revert_consolidation('consolidation/1')")
    ):
        with opened(place) as memory:
            refuse_half_done(memory)
            if memory.snapshot() != before:
                assert 'consolidated' not in words
                memory.revert_consolidation('consolidation/1')
            assert memory.snapshot() == before
            assert memory.verify().problems == ()
            assert memory.query(MemoryQuery(k=0)).total == 60
