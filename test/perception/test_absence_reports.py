"""Reports of absence: strong, not instant; refused by name where they make no sense."""

from __future__ import annotations

import math
from typing import Any

import pytest
from perception.pieces import NS, START_NS, a_message, a_pipeline, feed, landmarks_of, open_memory
from storage.clauses.base import thing

from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.perception import AbsenceReport, LandmarkPipeline
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.transforms import Transform

CUP = (1.0, 0.0, 0.5)


def report(at_s: float = 100.0, step: int = 0, **fields: Any) -> AbsenceReport:
    """Return a report of the label ``cup`` at its place, each step from another viewpoint."""
    usual = {'label': 'cup', 'where': CUP, 'radius_m': 0.3} if not {'id', 'key'} & set(fields) else {}
    standing = Transform((float(step), 0.0, 0.0))
    return AbsenceReport(
        **{**usual, 'observed_from': standing, 'at_ns': START_NS + round(at_s * NS), **fields}
    )


@pytest.fixture
def memory() -> Any:
    with open_memory(map_id='hall') as memory:
        yield memory
        assert memory.verify().ok


@pytest.fixture
def pipeline(memory: MemoryService) -> LandmarkPipeline:
    """Return a pipeline that has seen a cup."""
    pipeline = a_pipeline(memory)
    feed(pipeline, [a_message(0.1 * step, [CUP]) for step in range(10)])
    pipeline.flush()
    pipeline.commit(force=True)
    return pipeline


def test_one_report_makes_stale_and_further_ones_end_it(
    memory: MemoryService, pipeline: LandmarkPipeline
) -> None:
    (hit,) = landmarks_of(memory)
    before = hit.stats.existence
    answer = pipeline.report_absent(report())
    assert (answer.ids, answer.statuses) == ((hit.item.id,), ('stale',))
    assert 0.05 <= answer.existence[0] < before
    (hit,) = landmarks_of(memory, include_stale=True)
    assert (hit.status, hit.stats.existence) == ('stale', pytest.approx(answer.existence[0]))
    for step in range(1, 5):
        answer = pipeline.report_absent(report(100.0 + step, step))
        if answer.statuses == ('ended',):
            break
    assert answer.existence[0] < 0.05
    assert not landmarks_of(memory, include_stale=True)
    (before,) = landmarks_of(memory, as_of_ns=START_NS + 50 * NS)
    assert before.valid_to_ns == START_NS + (100 + step) * NS
    assert 'end' in memory.changes().changes[-1].op


def test_a_report_leaves_a_receipt_and_one_that_changes_nothing_leaves_none(
    memory: MemoryService, pipeline: LandmarkPipeline
) -> None:
    answer = pipeline.report_absent(report(actor='planner'))
    told = memory.receipt(answer.receipt_id)
    (decision,) = told['decisions']
    assert (told['kind'], told['actor'], decision['outcome']) == ('report_absent', 'planner', 'stale')
    assert decision['existence_after'] == pytest.approx(answer.existence[0], abs=1e-5)
    assert decision['existence_before'] > decision['existence_after']
    assert told == pipeline.receipt(answer.receipt_id)

    again = pipeline.report_absent(report(actor='planner'))
    assert again.receipt_id != answer.receipt_id
    with pytest.raises(NotFoundError):
        memory.receipt(again.receipt_id)


def test_reports_from_viewpoints_in_turn_count_once_each(pipeline: LandmarkPipeline) -> None:
    first = pipeline.report_absent(report(confidence=0.5))
    again = pipeline.report_absent(report(101.0, confidence=0.5))
    assert again.existence == first.existence
    second = pipeline.report_absent(report(102.0, 1, confidence=0.5))
    assert second.existence < first.existence
    assert pipeline.report_absent(report(103.0, confidence=0.5)).existence == second.existence


def test_a_turn_on_the_spot_is_another_viewpoint(pipeline: LandmarkPipeline) -> None:
    first = pipeline.report_absent(report(confidence=0.5))
    turned = Transform((0.0, 0.0, 0.0), (0.0, 0.0, math.sin(0.5), math.cos(0.5)))
    assert pipeline.report_absent(report(101.0, confidence=0.5, observed_from=turned)).existence < (
        first.existence
    )


def test_one_report_alone_ends_nothing_however_sure(pipeline: LandmarkPipeline) -> None:
    assert pipeline.report_absent(report(confidence=1.0)).statuses == ('stale',)


def test_a_report_without_confidence_changes_nothing(
    memory: MemoryService, pipeline: LandmarkPipeline
) -> None:
    (hit,) = landmarks_of(memory)
    answer = pipeline.report_absent(report(confidence=0.0))
    assert (answer.statuses, answer.existence[0]) == (('current',), pytest.approx(hit.stats.existence))


def test_what_was_seen_later_than_the_report_is_there(pipeline: LandmarkPipeline) -> None:
    assert pipeline.report_absent(report(at_s=0.0)).statuses == ('current',)


def test_seen_again_it_is_current_and_reports_count_anew(
    memory: MemoryService, pipeline: LandmarkPipeline
) -> None:
    pipeline.report_absent(report())
    feed(pipeline, [a_message(200.0, [CUP])])
    pipeline.flush()
    pipeline.commit(force=True)
    (hit,) = landmarks_of(memory)
    assert hit.status == 'current'
    assert pipeline.report_absent(report(300.0)).statuses == ('stale',)


@pytest.mark.parametrize('by', ['id', 'key', 'label'])
def test_an_item_written_by_hand_has_statistics_too(
    memory: MemoryService, pipeline: LandmarkPipeline, by: str
) -> None:
    wrong = thing(7.0, 1.0, key='target', label='target', scope={'map_id': 'hall'})
    item_id = memory.write([wrong]).events[0].id
    named = {
        'id': {'id': item_id},
        'key': {'key': 'target'},
        'label': {'label': 'target', 'where': (7.1, 0.0, 0.0), 'radius_m': 0.2, 'key': ''},
    }[by]
    answer = pipeline.report_absent(report(**named))
    assert (answer.ids, answer.statuses) == ((item_id,), ('stale',))
    (hit,) = memory.query(MemoryQuery(key='target', include_stale=True))
    assert (hit.status, hit.stats.existence) == ('stale', pytest.approx(answer.existence[0]))
    for step in range(1, 5):
        answer = pipeline.report_absent(report(100.0 + step, step, key='target'))
        if answer.statuses == ('ended',):
            break
    assert answer.statuses == ('ended',)
    assert not memory.query(MemoryQuery(key='target', include_stale=True))
    # Whoever writes it again begins anew.
    memory.write([thing(8.0, 500.0 + START_NS / NS, key='target', label='target', scope={'map_id': 'hall'})])
    later = report(600.0, key='target')
    assert pipeline.report_absent(later).statuses == ('stale',)


def test_pinned_things_are_exempt(memory: MemoryService, pipeline: LandmarkPipeline) -> None:
    row = pipeline._ingestion.landmarks.row_of(landmarks_of(memory)[0].item.key or '')
    pipeline._ingestion.landmarks.state['pinned'][row] = True
    for step in range(6):
        assert pipeline.report_absent(report(100.0 + step, step)).statuses == ('current',)


@pytest.mark.parametrize(
    ('fields', 'named'),
    [
        ({'label': '', 'where': None}, 'id'),
        ({'where': None}, 'where'),
        ({'radius_m': math.nan}, 'radius_m'),
        ({'radius_m': -0.1}, 'radius_m'),
        ({'radius_m': math.inf}, 'radius_m'),
        ({'where': (math.nan, 0.0, 0.0)}, 'where'),
        ({'confidence': math.nan}, 'confidence'),
        ({'confidence': -0.1}, 'confidence'),
        ({'confidence': 1.1}, 'confidence'),
        ({'id': 'a', 'key': 'b'}, 'key'),
        ({'key': 'cup', 'where': (9.0, 9.0, 9.0), 'radius_m': 0.1}, 'radius_m'),
        ({'key': 'keep', 'observed_from': None}, 'frame'),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    memory: MemoryService, pipeline: LandmarkPipeline, fields: dict[str, Any], named: str
) -> None:
    memory.write(
        [
            thing(0.0, 1.0, key='cup', label='cup', scope={'map_id': 'hall'}),
            thing(0.0, 1.0, key='keep', scope={'map_id': 'hall'}).model_copy(
                update={'pose': thing(0.0).pose.model_copy(update={'frame_id': 'odom'})}
            ),
        ]
    )
    before = memory.sequence
    with pytest.raises(InvalidRequestError, match=named):
        pipeline.report_absent(report(**fields))
    assert memory.sequence == before


@pytest.mark.parametrize('fields', [{'key': 'none'}, {'id': 'none'}, {'where': (9.0, 9.0, 9.0)}])
def test_what_nothing_matches_is_not_found(pipeline: LandmarkPipeline, fields: dict[str, Any]) -> None:
    with pytest.raises(NotFoundError):
        pipeline.report_absent(report(**fields))


def test_without_a_viewpoint_the_newest_keyframe_stands_for_it() -> None:
    with open_memory(map_id='hall') as memory:
        memory.write([thing(1.0, 1.0, key='mug', scope={'map_id': 'hall'})])
        pipeline = a_pipeline(memory)
        with pytest.raises(InvalidRequestError, match='observed_from'):
            pipeline.report_absent(report(key='mug', observed_from=None))
        feed(pipeline, [a_message(0.0, [])])
        pipeline.flush()
        assert pipeline.report_absent(report(key='mug', observed_from=None)).statuses == ('stale',)
