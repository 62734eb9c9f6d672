"""Requests: refused by name, kept to their scope and to reading, and recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from service.consolidation.pieces import NOW_S, SMALL, diary
from support.clock import ManualClock

from hylo_memory_ros.errors import HyloMemoryError, ReadOnlyError
from hylo_memory_ros.model import Budget, Condensed, MemoryKind, MemoryQuery
from hylo_memory_ros.service import MemoryService


@pytest.mark.parametrize(
    'limits', [{}, {'items': 0}, {'bytes': 0}, {'items': -1}, {'bytes': -5}, {'items': True}, {'items': 1.5}]
)
def test_a_budget_of_nothing_or_less_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r'budget|items|bytes'):
        Budget(**limits)


@pytest.mark.parametrize(
    ('asked', 'said'),
    [
        ({}, 'budget'),
        ({'budget': 5}, 'budget'),
        ({'budget': Budget(items=1), 'kinds': ['working']}, 'working'),
        ({'budget': Budget(items=1), 'kinds': []}, 'kinds'),
        ({'budget': Budget(items=1), 'kinds': ['nonsense']}, 'nonsense'),
        ({'budget': Budget(items=1), 'scope': {'': 'x'}}, 'scope'),
        ({'budget': Budget(items=1), 'scope': {'robot_id': '\x00'}}, 'scope'),
        ({'budget': Budget(items=1), 'scope': {'t': 1}}, r"scope\['t'\]"),
        ({'budget': Budget(items=1), 'scope': {1: 't'}}, 'scope'),
        ({'budget': Budget(items=1), 'scope': 'x'}, 'scope'),
        ({'budget': Budget(items=1), 'kinds': 5}, 'kinds'),
        ({'budget': Budget(items=1), 'kinds': 'episodic'}, 'kinds'),
        ({'budget': Budget(items=1), 'actor': '\ud800'}, 'actor'),
        ({'budget': Budget(items=1), 'actor': 5}, 'actor'),
    ],
)
def test_a_request_that_is_not_sound_is_refused_by_name(
    memory: MemoryService, asked: dict[str, Any], said: str
) -> None:
    memory.write(diary(5))
    before = memory.snapshot(), memory.sequence
    with pytest.raises(HyloMemoryError, match=said):
        memory.consolidate(**asked)
    assert (memory.snapshot(), memory.sequence) == before


def test_a_scope_that_matches_nothing_gives_an_empty_report(memory: MemoryService) -> None:
    memory.write(diary(5))
    report = memory.consolidate({'robot_id': 'nobody'}, Budget(items=1))
    assert (report.items_before, report.items_after, report.met) == (0, 0, True)
    assert (report.merged, report.summarized, report.aged, report.consolidation_id) == ((), (), (), '')


def test_a_scope_leaves_what_is_not_in_it(memory: MemoryService) -> None:
    both = [one.model_copy(update={'scope': {'robot_id': name}}) for name in ('r1', 'r2') for one in diary(8)]
    memory.write(both)
    report = memory.consolidate({'robot_id': 'r1'}, Budget(items=1))
    assert report.items_before == 8
    assert memory.query(MemoryQuery(scope={'robot_id': 'r1'})).total == 1
    assert memory.query(MemoryQuery(scope={'robot_id': 'r2'})).total == 8


def test_a_file_that_was_opened_for_reading_is_only_looked_at(memory: MemoryService, path: Path) -> None:
    memory.write(diary(10))
    with MemoryService.open(
        f'sqlite:///{path}', clock=ManualClock(NOW_S), config=SMALL, read_only=True
    ) as reading:
        dry = reading.consolidate(budget=Budget(items=2), dry_run=True)
        with pytest.raises(ReadOnlyError):
            reading.consolidate(budget=Budget(items=2))
    assert memory.consolidate(budget=Budget(items=2)).summarized == dry.summarized


def test_its_record_is_kept(memory: MemoryService) -> None:
    memory.write(diary(10))
    report = memory.consolidate({}, Budget(items=2), kinds=[MemoryKind.EPISODIC], actor='ann')
    (record,) = memory.consolidations()
    assert (record.name, record.actor) == (report.consolidation_id, 'ann')
    assert record.asked == {'scope': {}, 'budget': {'items': 2}, 'kinds': ['episodic']}
    assert record.report is not None
    assert record.report['summarized_count'] == len(report.summarized)
    assert json.dumps(report.as_dict())
    assert report.as_dict(1)['summarized'] == [
        {'id': report.summarized[0].id, 'ids': report.summarized[0].ids}
    ]
    assert isinstance(report.summarized[0], Condensed)
