"""Near duplicates become one; what differs in more than time, or says another number, does not."""

from __future__ import annotations

from typing import Any

import pytest
from service.consolidation.pieces import contents, event

from hylo_memory_ros.model import Budget, MemoryQuery, Pose, TimeSpan
from hylo_memory_ros.service import MemoryService

HOUR_S = 3600.0


def test_near_duplicates_become_one_that_tells_how_often_and_when(memory: MemoryService) -> None:
    about: dict[str, Any] = {'label': 'mug', 'object_ids': ('O1',), 'entities': ('ann',)}
    seen = [
        event('Saw the mug' + '!' * n, 1000.0 + HOUR_S * n, confidence=0.5 + n / 10, **about)
        for n in range(4)
    ]
    ids = memory.write(seen).ids

    report = memory.consolidate(budget=Budget(items=1))

    (merged,) = report.merged
    assert merged.ids == ids
    assert (report.items_before, report.items_after, report.met, report.hash_changed) == (4, 1, True, True)
    (hit,) = memory.query(MemoryQuery())
    item = hit.item
    assert (item.id, item.content, item.label, item.object_ids) == (
        merged.id,
        seen[0].content,
        'mug',
        ('O1',),
    )
    assert item.links == tuple(('summarizes', one) for one in ids)
    assert item.event_time == TimeSpan(start=1000.0, end=1001.0 + 3 * HOUR_S)
    assert item.confidence == 0.8
    told = item.payload['consolidated']
    assert (told['by'], told['count'], told['stands_for']) == ('near-duplicate@1', 4, 4)
    assert (told['first_ns'], told['last_ns']) == (1000 * 10**9, round((1001.0 + 3 * HOUR_S) * 1e9))
    assert told['labels'] == {'mug': 4}
    assert hit.status == 'current'
    assert memory.query(MemoryQuery(relation=('summarizes', ids[2])))[0].item.id == merged.id


@pytest.mark.parametrize(
    'differing',
    [
        {'entities': ('bob',)},
        {'object_ids': ('O7',)},
        {'label': 'mug'},
        {'scope': {'robot_id': 'r2'}},
        {'payload': {'how': 'fast'}},
        {'pose': Pose(frame_id='map', position=(9.0, 0.0, 0.0))},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_differs_in_more_than_time_is_no_near_duplicate(
    memory: MemoryService, differing: dict[str, Any]
) -> None:
    memory.write([event('saw it', 1000.0), event('saw it', 1001.0, **differing)])
    report = memory.consolidate(budget=Budget(items=1), dry_run=True)
    assert report.merged == ()


@pytest.mark.parametrize(
    'said',
    [
        ('battery at 80 %', 'battery at 5 %'),
        ('went to room 12', 'went to room 13'),
        ('-5 degrees', '5 degrees'),
        ('1.5 m', '15 m'),
        ('load > 3', 'load < 3'),
        ('left at 10:15', 'left at 10:16'),
        ('took O12', 'took O13'),
    ],
)
def test_what_says_another_number_stays_a_statement_of_its_own(
    memory: MemoryService, said: tuple[str, str]
) -> None:
    memory.write([event(said[n % 2], 1000.0 + n) for n in range(4)])
    report = memory.consolidate(budget=Budget(items=2))
    assert (report.met, len(report.merged)) == (True, 2)
    assert contents(memory) == sorted(said)


def test_near_duplicates_of_one_place_keep_a_place_that_was_measured(memory: MemoryService) -> None:
    poses = [Pose(frame_id='map', position=(2.0 + part, 3.1, 0.0)) for part in (0.1, 0.4, 0.2)]
    memory.write([event('passed', 1000.0 + n, pose=pose) for n, pose in enumerate(poses)])
    memory.consolidate(budget=Budget(items=1))
    centre = Pose(frame_id='map', position=(2.0, 3.0, 0.0))
    (hit,) = memory.query(MemoryQuery(near=(centre, 0.5)))
    assert hit.item.pose is not None
    assert hit.item.pose.position == poses[0].position
