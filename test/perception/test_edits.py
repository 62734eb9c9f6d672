"""Landmarks changed by hand: pinned, held, corrected, merged, split, deleted; and why they changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from perception.pieces import (
    NS,
    START_NS,
    a_message,
    a_pipeline,
    an_input,
    feed,
    landmarks_of,
    open_memory,
    recorded,
    some_settings,
)
from sqlalchemy import select
from support.tables import read_tables

from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.perception import LandmarkPipeline
from hylo_memory_ros.perception.edits import Edit, EditOp
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.schema import landmark, sighting

LATER_NS = START_NS + 100 * NS
PLACES = ((1.0, 0.0, 0.5), (3.0, 0.0, 0.5))


def seen(pipeline: LandmarkPipeline, places: object = PLACES, first_s: int = 1, count: int = 5) -> None:
    feed(pipeline, [a_message(second, places) for second in range(first_s, first_s + count)])  # type: ignore[arg-type]
    pipeline.flush()
    pipeline.commit(force=True)


def two(memory: MemoryService) -> tuple[LandmarkPipeline, list[str]]:
    """Return a pipeline that has seen two cups, and their keys, the one at 1 m first."""
    pipeline = a_pipeline(memory)
    seen(pipeline)
    hits = sorted(landmarks_of(memory), key=lambda hit: hit.item.pose.position)  # type: ignore[union-attr]
    return pipeline, [str(hit.item.key) for hit in hits]


def edited(pipeline: LandmarkPipeline, op: EditOp, *keys: str, **fields: object) -> list[str]:
    left = pipeline.edit(Edit(op, keys, fields.pop('at_ns', LATER_NS), **fields))  # type: ignore[arg-type]
    pipeline.commit(force=True)
    return left.keys


def position(memory: MemoryService, key: str) -> tuple[float, ...] | None:
    hits = memory.query(MemoryQuery(key=key, scope={'map_id': 'hall'}))
    return hits[0].item.pose.position if hits and hits[0].item.pose else None


def test_a_corrected_one_is_where_it_was_put_and_follows_what_is_seen_there() -> None:
    with open_memory() as memory:
        pipeline, (key, _) = two(memory)
        assert edited(pipeline, 'correct', key, position=(5.0, 1.0, 0.5)) == [key]
        assert position(memory, key) == (5.0, 1.0, 0.5)
        before = memory.query(MemoryQuery(key=key, scope={'map_id': 'hall'}, as_of_ns=LATER_NS - 1))
        assert before[0].item.pose is not None
        assert before[0].item.pose.position == pytest.approx((1.0, 0.0, 0.5))
        seen(pipeline, [(5.02, 1.0, 0.5)], first_s=101)
        assert {record.landmark for record in recorded(memory) if record.stamp_ns > LATER_NS} == {key}


def test_a_corrected_label_is_written() -> None:
    with open_memory() as memory:
        pipeline, (key, _) = two(memory)
        edited(pipeline, 'correct', key, label='mug')
        (hit,) = memory.query(MemoryQuery(key=key, scope={'map_id': 'hall'}))
        assert hit.item.label == 'mug'


WRITTEN = MemoryItem(
    kind='spatial',
    key='vase',
    label='vase',
    content='The blue vase of Ada.',
    payload={'owner': 'Ada', 'fragile': True},
    entities=('Ada',),
    links=(('on', 'table'),),
    scope={'map_id': 'hall'},
    pose=Pose(frame_id='map', position=(7.0, 0.0, 0.5), orientation=(0.0, 0.0, 1.0, 0.0)),
    extent=(0.1, 0.1, 0.3),
    confidence=0.8,
    source='operator',
    provenance={'sheet': 3},
    valid_from_ns=START_NS,
)


def written_now(memory: MemoryService) -> MemoryItem:
    (hit,) = memory.query(MemoryQuery(key='vase', scope={'map_id': 'hall'}, include_stale=True))
    return hit.item


def with_a_vase(memory: MemoryService) -> tuple[LandmarkPipeline, str]:
    """Return a pipeline of a memory in which somebody wrote a vase down, and has seen a cup; and its key."""
    pipeline = a_pipeline(memory)
    seen(pipeline, [(1.0, 0.0, 0.5)])
    (hit,) = landmarks_of(memory)
    memory.write([WRITTEN])
    assert pipeline.resolve_keys(['vase']) == ['vase']
    return pipeline, str(hit.item.key)


OF_WHAT_WAS_WRITTEN = {'id', 'pose', 'valid_from_ns'}


def test_of_an_item_written_by_hand_a_correction_changes_the_place_alone() -> None:
    with open_memory() as memory:
        pipeline, _ = with_a_vase(memory)
        before = written_now(memory)
        edited(pipeline, 'correct', 'vase', position=(8.0, 0.0, 0.5))
        after = written_now(memory)
        kept = {name: value for name, value in after.model_dump().items() if name not in OF_WHAT_WAS_WRITTEN}
        assert kept == before.model_dump(include=set(kept))
        assert after.pose is not None
        assert (after.pose.position, after.pose.orientation) == ((8.0, 0.0, 0.5), (0.0, 0.0, 1.0, 0.0))
        assert after.valid_from_ns == LATER_NS


def test_of_an_item_written_by_hand_a_new_label_changes_the_label_alone() -> None:
    with open_memory() as memory:
        pipeline, _ = with_a_vase(memory)
        before = written_now(memory)
        edited(pipeline, 'correct', 'vase', label='jug')
        after = written_now(memory)
        assert (after.label, after.pose) == ('jug', before.pose)
        assert (after.content, after.payload, after.links) == (before.content, before.payload, before.links)


def test_of_an_item_written_by_hand_holding_merging_and_seeing_change_the_place_alone() -> None:
    with open_memory() as memory:
        pipeline, cup = with_a_vase(memory)

        def said() -> dict[str, object]:
            return written_now(memory).model_dump(exclude=OF_WHAT_WAS_WRITTEN)

        before = said()
        edited(pipeline, 'attach', 'vase', frame_id='hand')
        edited(pipeline, 'detach', 'vase', position=(1.0, 1.0, 0.5))
        assert said() == before
        edited(pipeline, 'pin', 'vase')
        edited(pipeline, 'unpin', 'vase')
        feed(pipeline, [a_message(200 + step, [(9.0, 1.0, 0.5)], instances=['vase']) for step in range(6)])
        pipeline.flush()
        pipeline.commit(force=True)
        assert position(memory, 'vase') == pytest.approx((9.0, 1.0, 0.5))
        assert said() == before
        edited(pipeline, 'merge', cup, 'vase', at_ns=LATER_NS + 300 * NS)
        edited(pipeline, 'split', cup, at_ns=LATER_NS + 301 * NS)
        assert said() == before


def test_what_is_held_is_known_to_be_held_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / 'memory.db'
    with open_memory(path) as memory:
        pipeline, (key, other) = two(memory)
        edited(pipeline, 'attach', key, frame_id='gripper')
        edited(pipeline, 'attach', other)
        pipeline.close()
    with open_memory(path) as memory:
        pipeline = a_pipeline(memory)
        assert (pipeline.held_in(key), pipeline.held_in(other)) == ('gripper', '')
        edited(pipeline, 'detach', key)
        assert pipeline.held_in(key) == ''


def test_a_pinned_one_stays() -> None:
    with open_memory() as memory:
        pipeline, (key, _) = two(memory)
        edited(pipeline, 'pin', key)
        seen(pipeline, [(1.15, 0.0, 0.5)], first_s=10, count=200)
        assert position(memory, key) == pytest.approx((1.0, 0.0, 0.5))
        edited(pipeline, 'unpin', key, at_ns=START_NS + 300 * NS)
        seen(pipeline, [(1.15, 0.0, 0.5)], first_s=301, count=300)
        assert position(memory, key) == pytest.approx((1.15, 0.0, 0.5), abs=0.06)


def test_a_held_one_takes_no_notice_of_what_is_seen_until_it_is_put_down() -> None:
    with open_memory() as memory:
        pipeline, (key, _) = two(memory)
        edited(pipeline, 'attach', key)
        seen(pipeline, [(1.1, 0.0, 0.5)], first_s=101, count=50)
        assert position(memory, key) == pytest.approx((1.0, 0.0, 0.5))
        assert len(landmarks_of(memory)) == 2
        edited(pipeline, 'detach', key, at_ns=START_NS + 300 * NS, position=(7.0, 0.0, 0.5))
        assert position(memory, key) == (7.0, 0.0, 0.5)


@pytest.mark.parametrize('restart', [False, True])
def test_a_merge_is_undone_by_a_split(restart: bool, tmp_path: Path) -> None:
    path = tmp_path / 'memory.db'
    with open_memory(path) as memory:
        pipeline, keys = two(memory)
        before = {key: position(memory, key) for key in keys}
        (kept,) = edited(pipeline, 'merge', *keys)
        gone = next(key for key in keys if key != kept)
        assert [hit.item.key for hit in landmarks_of(memory)] == [kept]
        outcomes = [
            outcome
            for change in memory.changes(limit=1000).changes
            for key, outcome in zip(change.keys, change.outcomes, strict=True)
            if key == gone
        ]
        assert outcomes == ['ADD', 'MERGE']
        assert position(memory, kept) == pytest.approx((2.0, 0.0, 0.5), abs=0.01)
        assert {record.landmark for record in recorded(memory)} == {kept}
        pipeline.close()
        if not restart:
            assert sorted(edited(pipeline, 'split', kept, at_ns=LATER_NS + NS)) == sorted([kept, gone])
            assert position(memory, kept) == pytest.approx(before[kept])
            assert position(memory, gone) == pytest.approx(before[gone])
    if restart:
        with open_memory(path) as memory:
            pipeline = a_pipeline(memory)
            edited(pipeline, 'split', kept, at_ns=LATER_NS + NS)
            for key in keys:
                assert position(memory, key) == pytest.approx(before[key])
            seen(pipeline, first_s=102)
            assert len(landmarks_of(memory)) == 2


def test_what_was_seen_in_two_places_is_parted() -> None:
    with open_memory() as memory:
        pipeline = a_pipeline(memory, some_settings(an_input(sigma_m=0.3, gate_m=1.0)))
        for step in range(4):
            seen(pipeline, [(1.0 + 0.8 * (step % 2), 0.0, 0.5)], first_s=1 + 100 * step)
        (hit,) = landmarks_of(memory)
        key = str(hit.item.key)
        first, second = edited(pipeline, 'split', key, at_ns=START_NS + 500 * NS)
        assert first == key
        assert position(memory, first) == pytest.approx((1.0, 0.0, 0.5))
        assert position(memory, second) == pytest.approx((1.8, 0.0, 0.5))


def test_a_deleted_one_is_gone_and_was_there() -> None:
    with open_memory() as memory:
        pipeline, (key, other) = two(memory)
        assert edited(pipeline, 'delete', key) == []
        assert [hit.item.key for hit in landmarks_of(memory)] == [other]
        assert len(landmarks_of(memory, as_of_ns=START_NS + 50 * NS)) == 2


def test_every_edit_leaves_a_receipt() -> None:
    with open_memory() as memory:
        pipeline, keys = two(memory)
        edited(pipeline, 'merge', *keys, actor='operator')
        newest = list(pipeline._persistence.recent._kept)[-1]
        told = memory.receipt(newest)
        assert (told['kind'], told['actor'], told['keys']) == ('merge', 'operator', sorted(keys))
        assert told == pipeline.receipt(newest)


@pytest.mark.parametrize(
    ('op', 'keys', 'fields', 'error'),
    [
        ('pin', ('cup/nothing',), {}, NotFoundError),
        ('pin', (), {}, InvalidRequestError),
        ('merge', ('KEY',), {}, InvalidRequestError),
        ('merge', ('KEY', 'KEY'), {}, InvalidRequestError),
        ('correct', ('KEY',), {}, InvalidRequestError),
        ('correct', ('KEY',), {'label': ' '}, InvalidRequestError),
        ('split', ('KEY',), {}, InvalidRequestError),
        ('paint', ('KEY',), {}, InvalidRequestError),
    ],
)
def test_what_has_no_meaning_is_refused(
    op: EditOp, keys: tuple[str, ...], fields: dict[str, object], error: type[Exception]
) -> None:
    with open_memory() as memory:
        pipeline, (key, _) = two(memory)
        digest = memory.snapshot()
        with pytest.raises(error):
            edited(pipeline, op, *(key if one == 'KEY' else one for one in keys), **fields)
        pipeline.commit(force=True)
        assert memory.snapshot() == digest


def test_a_decision_can_be_read_with_candidates_distances_and_outcome() -> None:
    with open_memory() as memory:
        pipeline, (key, _) = two(memory)
        receipts = [pipeline.receipt(one) for one in pipeline._persistence.recent._kept]
        first, *_, last = [told for told in receipts if told]
        assert [decision['outcome'] for decision in first['decisions']] == ['new', 'new']
        given = next(decision for decision in last['decisions'] if decision['landmark'] == key)
        (candidate,) = given['candidates']
        assert candidate['landmark'] == key
        assert candidate['distance_m'] == pytest.approx(0.0, abs=1e-6)
        assert given['cost_of_none'] > candidate['cost']
        written = next(told for told in receipts if told and told['written'])
        assert memory.receipt(written['id']) == written
        with pytest.raises(NotFoundError):
            memory.receipt(first['id'])
        assert np.isfinite(candidate['squared_mahalanobis'])


def test_a_purge_leaves_neither_sightings_nor_receipts_that_name_it() -> None:
    with open_memory() as memory:
        pipeline, (key, other) = two(memory)
        receipts = [
            told['id'] for one in pipeline._persistence.recent._kept if (told := pipeline.receipt(one))
        ]
        stored = [one for one in receipts if is_stored(memory, one)]
        assert stored
        memory.purge(MemoryQuery(key=key, scope={'map_id': 'hall'}))
        pipeline.commit(force=True)
        assert not any(is_stored(memory, one) for one in stored)
        assert not any(pipeline.receipt(one) for one in receipts)
        left = read_tables(memory, lambda connection: set(connection.scalars(select(sighting.c.landmark))))
        numbers = read_tables(
            memory,
            lambda connection: dict(connection.execute(select(landmark.c.key, landmark.c.number)).all()),  # type: ignore[arg-type]
        )
        assert numbers == {other: left.pop()}
        assert not left


def is_stored(memory: MemoryService, receipt_id: str) -> bool:
    try:
        memory.receipt(receipt_id)
    except NotFoundError:
        return False
    return True
