"""Reports of absence and edits by hand, over DDS, with good requests and bad ones."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import PointStamped, PoseStamped
from nav_msgs.msg import OccupancyGrid
from rclpy.qos import QoSProfile
from ros.harness import NODE, Talker, spatial
from ros.test_inputs import BOXES, NOW, array
from ros.test_proving import receipt_of
from ros.test_topics import LATCHED, heard
from vision_msgs.msg import Detection3DArray
from visualization_msgs.msg import MarkerArray

from hylo_memory_ros.msg import ErrorCode, MemoryFilter
from hylo_memory_ros.srv import EditLandmark, Flush, ReportAbsent

pytestmark = pytest.mark.ros


@pytest.fixture(scope='module')
def parameters() -> dict[str, Any]:
    return {
        'inputs': ['front', 'grid'],
        'input.front.topic': 'boxes',
        'input.front.type': BOXES,
        'input.front.reliability': 'reliable',
        'input.front.fov_horizontal_rad': 6.3,
        'input.front.fov_vertical_rad': 3.0,
        'input.front.max_range_m': 20.0,
        'input.front.view_axis': 'x',
        'input.front.visibility': 'grid',
        'input.grid.topic': 'grid',
        'input.grid.type': 'nav_msgs/msg/OccupancyGrid',
        'input.grid.reliability': 'reliable',
        'landmarks.confirm_n': 2,
        'landmarks.keyframe_rest_s': 5.0,
        'map_id': '',
    }


@pytest.fixture
def talker(shared: SimpleNamespace) -> Talker:
    return shared.talker


@pytest.fixture(scope='module')
def boxes(shared: SimpleNamespace) -> Any:
    publisher = shared.talker.node.create_publisher(Detection3DArray, '/boxes', QoSProfile(depth=200))
    shared.talker.spin_until(lambda: publisher.get_subscription_count() > 0)
    return publisher


def stood(x: float, turn: float = 0.0, frame: str = 'map') -> PoseStamped:
    msg = PoseStamped()
    msg.header.frame_id = frame
    msg.pose.position.x = x
    msg.pose.orientation.z, msg.pose.orientation.w = math.sin(turn / 2), math.cos(turn / 2)
    return msg


def point(x: float, y: float = 0.0, frame: str = 'map') -> PointStamped:
    msg = PointStamped()
    msg.header.frame_id = frame
    msg.point.x, msg.point.y = x, y
    return msg


def report(talker: Talker, **fields: Any) -> Any:
    return talker.call(ReportAbsent, 'report_absent', **{'observed_from': stood(0.0), **fields})


def edit(talker: Talker, op: str, *ids: str, **fields: Any) -> Any:
    return talker.call(EditLandmark, 'edit_landmark', op=op, ids=list(ids), **fields)


def status(talker: Talker, key: str) -> list[str]:
    found = talker.query(filter=MemoryFilter(keys=[key], include_stale=True, include_invalidated=True))
    return [hit.status for hit in found.hits]


def seen(talker: Talker, boxes: Any, at_s: float, *things: tuple[str, float, float]) -> None:
    for n in range(4):
        boxes.publish(array(NOW + at_s + 0.1 * n, *things))
    talker.spin_for(0.3)
    assert talker.call(Flush, 'flush').success


def test_a_wrong_item_written_by_hand_is_reported_until_it_is_gone(talker: Talker) -> None:
    (item_id,) = talker.write(spatial('wrong', 3.0, 0.0, label='mug')).ids
    first = report(talker, label='mug', where=point(3.0), radius_m=0.2, observed_from=stood(2.8))
    assert first.success, first.message
    assert (list(first.ids), list(first.statuses)) == ([item_id], ['stale'])
    told = receipt_of(talker, first.receipt_id)
    assert (told['kind'], told['keys'], told['decisions'][0]['outcome']) == (
        'report_absent',
        ['wrong'],
        'stale',
    )
    assert not talker.query(filter=MemoryFilter(keys=['wrong'])).hits
    (hit,) = talker.query(filter=MemoryFilter(keys=['wrong'], include_stale=True)).hits
    assert (hit.status, hit.existence) == ('stale', pytest.approx(first.existence[0]))
    # The same viewpoint counts once.
    assert report(talker, key='wrong', observed_from=stood(2.8)).existence == first.existence
    second = report(talker, id=item_id, observed_from=stood(2.8, 1.5))
    assert list(second.statuses) == ['ended']
    assert second.existence[0] < 0.05
    assert status(talker, 'wrong') == ['ended']


def test_what_is_in_doubt_fades(talker: Talker) -> None:
    talker.write(spatial('sure', 50.0, 0.0, label='lamp'), spatial('doubted', 51.0, 0.0, label='lamp'))
    shown = heard(talker, MarkerArray, f'{NODE}/markers', LATCHED)
    assert list(report(talker, key='doubted').statuses) == ['stale']

    def opacities() -> dict[float, float]:
        (lamps,) = [one for one in shown[-1].markers if one.ns == 'landmarks/lamp']
        return {point.x: colour.a for point, colour in zip(lamps.points, lamps.colors, strict=True)}

    talker.write(spatial('next', 52.0, 0.0, label='lamp'))
    talker.spin_until(lambda: shown and len(opacities()) == 3, 'three lamps')
    assert opacities()[51.0] < 0.5 * opacities()[50.0]


@pytest.mark.parametrize(
    ('fields', 'code', 'named'),
    [
        ({}, ErrorCode.INVALID_FIELD, 'id: '),
        ({'label': 'mug'}, ErrorCode.INVALID_FIELD, 'where'),
        ({'label': 'mug', 'radius_m': 1.0}, ErrorCode.INVALID_FIELD, 'where.header.frame_id'),
        ({'key': 'none'}, ErrorCode.NOT_FOUND, 'none'),
        ({'key': 'none', 'confidence': 2.0}, ErrorCode.INVALID_FIELD, 'confidence'),
        ({'key': 'none', 'confidence': math.nan}, ErrorCode.INVALID_FIELD, 'confidence'),
        ({'label': 'mug', 'where': point(1.0), 'radius_m': math.nan}, ErrorCode.INVALID_FIELD, 'radius_m'),
        ({'label': 'mug', 'where': point(1.0), 'radius_m': -1.0}, ErrorCode.INVALID_FIELD, 'radius_m'),
        ({'label': 'mug', 'where': point(math.inf), 'radius_m': 1.0}, ErrorCode.INVALID_FIELD, 'where'),
        ({'label': 'mug', 'where': point(1.0, frame='nowhere')}, ErrorCode.FRAME_UNKNOWN, 'where.header'),
        (
            {'label': 'mug', 'where': point(1.0, frame=' map')},
            ErrorCode.INVALID_FIELD,
            'where.header.frame_id',
        ),
        (
            {'key': 'none', 'observed_from': stood(0.0, frame='gone')},
            ErrorCode.FRAME_UNKNOWN,
            'observed_from',
        ),
        ({'key': 'none', 'observed_from': stood(math.nan)}, ErrorCode.INVALID_FIELD, 'observed_from.pose'),
    ],
)
def test_a_report_that_makes_no_sense_is_refused_by_name(
    talker: Talker, fields: dict[str, Any], code: int, named: str
) -> None:
    answer = report(talker, **fields)
    assert (answer.success, answer.error_code) == (False, code), answer.message
    assert named in answer.message


def test_landmarks_are_pinned_corrected_merged_split_held_and_deleted(talker: Talker, boxes: Any) -> None:
    seen(talker, boxes, 0.0, ('cup', 1.0, 5.0), ('cup', 4.0, 5.0))
    hits = talker.query(filter=MemoryFilter(labels=['cup'])).hits
    ids = {hit.item.pose.position.x: hit.item.id for hit in hits}
    keys = {hit.item.pose.position.x: hit.item.key for hit in hits}
    assert set(ids) == {1.0, 4.0}

    pinned = edit(talker, 'pin', ids[1.0])
    assert (pinned.success, list(pinned.ids)) == (True, [ids[1.0]]), pinned.message
    assert list(report(talker, key=keys[1.0]).statuses) == ['current']
    assert edit(talker, 'unpin', keys[1.0]).success

    moved = edit(talker, 'correct', keys[1.0], pose=stood(2.0), label='mug')
    assert moved.success, moved.message
    assert receipt_of(talker, moved.receipt_id)['kind'] == 'correct'
    (hit,) = talker.query(filter=MemoryFilter(keys=[keys[1.0]])).hits
    assert (hit.item.label, hit.item.pose.position.x, hit.item.id) == ('mug', 2.0, moved.ids[0])

    assert edit(talker, 'attach', keys[1.0], frame_id='gripper').success
    assert edit(talker, 'detach', keys[1.0], pose=stood(7.0)).success
    (hit,) = talker.query(filter=MemoryFilter(keys=[keys[1.0]])).hits
    assert hit.item.pose.position.x == 7.0

    merged = edit(talker, 'merge', keys[1.0], keys[4.0])
    assert (merged.success, len(merged.ids)) == (True, 1), merged.message
    assert len(talker.query(filter=MemoryFilter(keys=list(keys.values()))).hits) == 1

    (left,) = talker.query(filter=MemoryFilter(keys=list(keys.values()))).hits
    parted = edit(talker, 'split', left.item.key)
    assert (parted.success, len(parted.ids)) == (True, 2), parted.message

    gone = edit(talker, 'delete', left.item.key)
    assert gone.success, gone.message
    # It was never there: nothing is left of it on the world's axis.
    assert status(talker, left.item.key) == []


def test_an_item_written_by_hand_can_be_edited_too(talker: Talker) -> None:
    (item_id,) = talker.write(spatial('vase', 30.0, 0.0, label='vase')).ids
    assert edit(talker, 'pin', 'vase').success
    assert list(report(talker, id=item_id).statuses) == ['current']
    assert list(edit(talker, 'delete', item_id).ids) == [item_id]
    assert status(talker, 'vase') == []


@pytest.mark.parametrize(
    ('op', 'ids', 'fields', 'code', 'named'),
    [
        ('fly', ['vase'], {}, ErrorCode.INVALID_FIELD, 'op'),
        ('', ['vase'], {}, ErrorCode.INVALID_FIELD, 'op'),
        ('pin', [], {}, ErrorCode.INVALID_FIELD, 'ids'),
        ('pin', ['nothing'], {}, ErrorCode.NOT_FOUND, 'nothing'),
        ('pin', ['plate'], {'label': 'cup'}, ErrorCode.INVALID_FIELD, 'label'),
        ('pin', ['plate'], {'pose': stood(1.0)}, ErrorCode.INVALID_FIELD, 'pose'),
        ('pin', ['plate'], {'frame_id': 'gripper'}, ErrorCode.INVALID_FIELD, 'frame_id'),
        ('correct', ['plate'], {}, ErrorCode.INVALID_FIELD, 'correct'),
        (
            'correct',
            ['plate'],
            {'pose': stood(1.0, frame='')},
            ErrorCode.INVALID_FIELD,
            'pose.header.frame_id',
        ),
        ('correct', ['plate'], {'pose': stood(1.0, frame='gone')}, ErrorCode.FRAME_UNKNOWN, 'pose.header'),
        ('correct', ['plate'], {'pose': stood(math.nan)}, ErrorCode.INVALID_FIELD, 'pose'),
        ('merge', ['plate'], {}, ErrorCode.INVALID_FIELD, 'merge'),
        ('split', ['plate'], {}, ErrorCode.INVALID_FIELD, 'split'),
        ('split', [], {'receipt_id': 'none'}, ErrorCode.NOT_FOUND, 'none'),
    ],
)
def test_an_edit_that_makes_no_sense_is_refused_by_name(
    talker: Talker, op: str, ids: list[str], fields: dict[str, Any], code: int, named: str
) -> None:
    talker.write(spatial('plate', 40.0, 0.0, label='plate'))
    answer = edit(talker, op, *ids, **fields)
    assert (answer.success, answer.error_code) == (False, code), answer.message
    assert named in answer.message


def test_a_ray_over_the_map_proves_that_what_is_missing_is_gone(
    shared: SimpleNamespace, talker: Talker, boxes: Any
) -> None:
    grids = talker.node.create_publisher(OccupancyGrid, '/grid', QoSProfile(depth=1))
    talker.spin_until(lambda: grids.get_subscription_count() > 0)
    grid = OccupancyGrid()
    grid.header.frame_id, grid.header.stamp.sec = 'map', NOW
    grid.info.resolution, grid.info.width, grid.info.height = 0.5, 40, 40
    grid.info.origin.position.x = grid.info.origin.position.y = -10.0
    grid.data = np.zeros(1600, dtype=np.int8).tolist()
    grids.publish(grid)
    seen(talker, boxes, 100.0, ('ball', -3.0, -3.0))
    (hit,) = talker.query(filter=MemoryFilter(labels=['ball'])).hits
    for step in range(1, 8):
        seen(talker, boxes, 100.0 + 10.0 * step)
    assert status(talker, hit.item.key) == ['ended'], shared.process.log
