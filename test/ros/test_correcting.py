"""`~/correct_map`: what is moved, what is taken back, and what is refused by name."""

import math
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from geometry_msgs.msg import Point, Pose, PoseStamped, Quaternion, Transform, Vector3
from nav_msgs.msg import Path
from ros.harness import Talker, spatial
from std_msgs.msg import Header

from hylo_memory_ros.errors import InvalidRequestError, UnknownFrameError
from hylo_memory_ros.msg import ErrorCode, MemoryFilter
from hylo_memory_ros.ros.convert.fields import stamp_msg
from hylo_memory_ros.ros.services.maps import path_of, rigid_of
from hylo_memory_ros.srv import CorrectMap, Query

pytestmark = pytest.mark.ros

HALF = math.sqrt(0.5)


def moved(x: float = 0.0, y: float = 0.0, **turn: float) -> Transform:
    return Transform(translation=Vector3(x=x, y=y), rotation=Quaternion(**turn))


def a_path(*stamps_ns: int, frame_id: str = 'map', **pose: Any) -> Path:
    places = [PoseStamped(header=Header(stamp=stamp_msg(stamp)), pose=Pose(**pose)) for stamp in stamps_ns]
    return Path(header=Header(frame_id=frame_id), poses=places)


@pytest.fixture
def talker(shared: SimpleNamespace) -> Talker:
    return shared.talker


@pytest.fixture
def map_id() -> str:
    return f'map-{uuid.uuid4().hex[:8]}'


def x_of(talker: Talker, key: str, **fields: Any) -> float:
    answer = talker.call(Query, 'query', Query.Request(filter=MemoryFilter(keys=[key], **fields)))
    assert answer.success, answer.message
    (hit,) = answer.hits
    return float(hit.item.pose.position.x)


def test_a_map_is_moved_and_moved_back(talker: Talker, map_id: str) -> None:
    written = talker.write(spatial(map_id, 1.0, 2.0, 0.0, map_id=map_id))
    assert written.success, written.message
    request = CorrectMap.Request(map_id=map_id, new_from_old=moved(10.0), dry_run=True)
    rehearsal = talker.call(CorrectMap, 'correct_map', request)
    assert (rehearsal.success, rehearsal.moved, rehearsal.sequence) == (True, 1, 0)
    request.dry_run = False
    done = talker.call(CorrectMap, 'correct_map', request)
    assert (done.success, done.moved, done.merged, done.split) == (True, 1, 0, 0), done.message
    assert done.sequence == written.sequence + 1
    assert x_of(talker, map_id) == 11.0
    assert x_of(talker, map_id, known_seq=written.sequence) == 1.0
    back = talker.call(CorrectMap, 'correct_map', CorrectMap.Request(revert_id=done.correction_id))
    assert (back.success, back.moved) == (True, 1), back.message
    assert x_of(talker, map_id) == 1.0


@pytest.mark.parametrize(
    ('request_', 'code', 'named'),
    [
        (CorrectMap.Request(map_id='nowhere', new_from_old=moved(1.0)), ErrorCode.MAP_UNKNOWN, 'map_id'),
        (CorrectMap.Request(revert_id='correction/0'), ErrorCode.NOT_FOUND, 'revert_id'),
        (CorrectMap.Request(), ErrorCode.INVALID_FIELD, 'new_from_old'),
        (CorrectMap.Request(path=a_path(10**18)), ErrorCode.INVALID_FIELD, 'path'),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(talker: Talker, request_: Any, code: int, named: str) -> None:
    answer = talker.call(CorrectMap, 'correct_map', request_)
    assert (answer.success, answer.error_code) == (False, code)
    assert answer.message.startswith(named)
    assert answer.sequence == 0


@pytest.mark.parametrize(
    ('transform', 'named'),
    [
        (moved(math.nan), r'new_from_old\.translation: \(nan'),
        (moved(math.inf), r'new_from_old\.translation'),
        (moved(2e9), r'new_from_old\.translation'),
        (moved(w=0.5), r'new_from_old\.rotation: .* unit'),
        (moved(w=0.0), r'new_from_old\.rotation'),
        (moved(w=math.nan), r'new_from_old\.rotation'),
        (moved(), 'moves nothing'),
    ],
)
def test_an_unsound_motion_is_refused(transform: Transform, named: str) -> None:
    with pytest.raises(InvalidRequestError, match=named):
        rigid_of(transform)


def test_a_motion_is_normalized() -> None:
    motion = rigid_of(moved(1.0, z=HALF + 1e-4, w=HALF))
    assert sum(part * part for part in motion.new_from_old.rotation) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ('path', 'error', 'named'),
    [
        (a_path(1, 2, 2), InvalidRequestError, r'path\.poses\[2\]\.stamp'),
        (a_path(2, 1), InvalidRequestError, r'path\.poses\[1\]\.stamp'),
        (a_path(0, 1), InvalidRequestError, r'path\.poses\[0\]\.header\.stamp: zero'),
        (a_path(1, position=Point(x=math.nan)), InvalidRequestError, r'path\.poses\[0\]\.position'),
        (a_path(1, orientation=Quaternion(w=0.0)), InvalidRequestError, r'path\.poses\[0\]\.orientation'),
        (a_path(1, orientation=Quaternion(z=1.0)), InvalidRequestError, r'path\.poses\[0\]\.orientation'),
        (a_path(1, frame_id='odom'), UnknownFrameError, r"path\.header\.frame_id: 'odom'"),
        (a_path(1, frame_id=''), InvalidRequestError, r'path\.header\.frame_id'),
    ],
)
def test_an_unsound_path_is_refused_by_the_name_of_its_pose(
    path: Path, error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        path_of(path, 'map')


def test_a_pose_of_another_frame_is_refused() -> None:
    path = a_path(1, 2)
    path.poses[1].header.frame_id = 'odom'
    with pytest.raises(UnknownFrameError, match=r'path\.poses\[1\]\.header\.frame_id'):
        path_of(path, 'map')


def test_a_path_is_taken_as_it_is() -> None:
    path = a_path(5, 7, frame_id='/map', position=Point(x=1.0, y=2.0, z=3.0))
    trajectory = path_of(path, 'map')
    assert trajectory.stamps_ns.tolist() == [5, 7]
    assert trajectory.poses.translation.tolist() == [[1.0, 2.0, 3.0]] * 2
