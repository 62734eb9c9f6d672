"""Bytes are read as rclpy reads them, and garbage is refused, never more."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.effort import scaled

pytest.importorskip('rclpy', reason='ROS is not installed')

from geometry_msgs.msg import PoseStamped
from rclpy.serialization import serialize_message
from vision_msgs.msg import Detection3D, Detection3DArray, ObjectHypothesisWithPose

from hylo_memory_ros.perception import Message, digest32
from hylo_memory_ros.perception.ingestion.decoders.detections import decode_detections as decode_array
from hylo_memory_ros.perception.ingestion.decoders.geometry import decode_pose
from hylo_memory_ros.perception.ingestion.observation import DecodedMessage

pytestmark = pytest.mark.ros


def decode_detections(data: bytes, source: str) -> Message:
    """Return the one observation of an array that fits into one."""
    (message,), refused = decode_array(data, source)
    assert not refused
    return message


numbers = st.floats(-1e6, 1e6)
texts = st.text(st.characters(exclude_characters='\0', exclude_categories=['Cs']), max_size=12)


@st.composite
def hypotheses(draw: st.DrawFn) -> ObjectHypothesisWithPose:
    msg = ObjectHypothesisWithPose()
    msg.hypothesis.class_id = draw(texts)
    msg.hypothesis.score = draw(st.floats(0.0, 1.0))
    position = msg.pose.pose.position
    position.x, position.y, position.z = draw(st.tuples(numbers, numbers, numbers))
    msg.pose.covariance = np.array(draw(st.lists(numbers, min_size=36, max_size=36)))
    return msg


@st.composite
def arrays(draw: st.DrawFn) -> Detection3DArray:
    array = Detection3DArray()
    array.header.stamp.sec = draw(st.integers(0, 2**31 - 1))
    array.header.stamp.nanosec = draw(st.integers(0, 10**9 - 1))
    array.header.frame_id = draw(texts)
    for _ in range(draw(st.integers(0, 4))):
        detection = Detection3D(id=draw(texts), results=draw(st.lists(hypotheses(), max_size=3)))
        detection.header.frame_id = draw(st.sampled_from(['', array.header.frame_id]))
        centre, size = detection.bbox.center.position, detection.bbox.size
        centre.x, centre.y, centre.z = draw(st.tuples(numbers, numbers, numbers))
        size.x, size.y, size.z = draw(st.tuples(numbers, numbers, numbers))
        array.detections.append(detection)
    return array


def check(array: Detection3DArray, message: Message) -> None:
    stamp = array.header.stamp
    assert message.stamp_ns == stamp.sec * 10**9 + stamp.nanosec
    assert message.frame_id == array.header.frame_id
    assert len(message.detections) == len(array.detections)
    for index, detection in enumerate(array.detections):
        best = max(detection.results, key=lambda result: result.hypothesis.score, default=None)
        place = detection.bbox.center.position if best is None else best.pose.pose.position
        if (place.x, place.y, place.z) == (0.0, 0.0, 0.0):
            place = detection.bbox.center.position
        columns = message.detections
        assert columns.labels[index] == ('' if best is None else best.hypothesis.class_id)
        assert columns.scores[index] == (0.0 if best is None else best.hypothesis.score)
        assert tuple(columns.positions[index]) == (place.x, place.y, place.z)
        size = detection.bbox.size
        assert tuple(columns.extents[index]) == (size.x, size.y, size.z)
        expected = np.zeros((6, 6)) if best is None else np.array(best.pose.covariance).reshape(6, 6)
        assert np.array_equal(columns.covariances[index], expected[:3, :3])


@given(arrays())
@settings(max_examples=scaled(150), deadline=None)
def test_detections_are_read_as_rclpy_reads_them(array: Detection3DArray) -> None:
    check(array, decode_detections(serialize_message(array), 'front'))


@given(arrays(), st.data())
@settings(max_examples=scaled(150), deadline=None)
def test_damaged_bytes_are_refused_or_read_but_nothing_else(
    array: Detection3DArray, data: st.DataObject
) -> None:
    good = bytearray(serialize_message(array))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(good[: data.draw(st.integers(0, len(good)))])

    for read in (decode_array, decode_pose):
        try:
            message = read(cut, 'front')
        except ValueError:
            continue
        assert isinstance(message, Message | DecodedMessage)


def test_a_pose_is_one_detection() -> None:
    pose = PoseStamped()
    pose.header.frame_id, pose.header.stamp.sec = 'camera', 7
    pose.pose.position.x, pose.pose.position.z = 1.5, -2.0

    message = decode_pose(serialize_message(pose), 'tag')

    assert (message.stamp_ns, message.frame_id, message.input) == (7 * 10**9, 'camera', 'tag')
    assert message.detections.positions.tolist() == [[1.5, 0.0, -2.0]]


def test_the_digest_does_not_depend_on_the_transport() -> None:
    array = Detection3DArray()
    array.header.frame_id = 'ab'
    array.detections = [Detection3D(id='x')]
    data = serialize_message(array)

    assert decode_detections(data + b'\0\0\0', 'a').digest == decode_detections(data, 'b').digest
    array.detections[0].id = 'y'
    assert decode_detections(serialize_message(array), 'a').digest != decode_detections(data, 'a').digest
    assert digest32(b'') == 0


def test_the_frame_of_the_detections_serves_where_the_array_has_none() -> None:
    array = Detection3DArray(detections=[Detection3D(), Detection3D()])
    for detection in array.detections:
        detection.header.frame_id = 'camera'

    assert decode_detections(serialize_message(array), 'a').frame_id == 'camera'

    # As with markers, each frame is an observation of its own.
    array.detections[1].header.frame_id = 'other'
    first, second = decode_array(serialize_message(array), 'a').messages
    assert [(one.frame_id, len(one.detections)) for one in (first, second)] == [('camera', 1), ('other', 1)]
    assert first.digest != second.digest


@pytest.mark.parametrize(
    ('outer', 'inner', 'frame', 'kept'),
    [
        ('cam', '/cam', 'cam', 2),
        ('/cam', 'cam', '/cam', 2),
        ('cam', '', 'cam', 2),
        ('', '/cam', '/cam', 2),
        ('cam', 'other', 'cam', 1),
        ('cam', '//cam', 'cam', 1),
    ],
)
def test_a_leading_slash_means_nothing_and_another_frame_is_left_out(
    outer: str, inner: str, frame: str, kept: int
) -> None:
    array = Detection3DArray(detections=[Detection3D(), Detection3D()])
    array.header.frame_id = outer
    array.header.stamp.sec = 7
    array.detections[0].header.frame_id = inner
    array.detections[1].header.frame_id = outer or inner

    (message,), refused = decode_array(serialize_message(array), 'a')

    assert (message.frame_id, len(message.detections), message.stamp_ns) == (frame, kept, 7 * 10**9)
    assert refused == ({} if kept == 2 else {'other_frame': 1})


def test_the_stamps_of_the_detections_serve_where_the_array_has_none() -> None:
    array = Detection3DArray(detections=[Detection3D(), Detection3D(), Detection3D()])
    array.header.frame_id = 'cam'
    for detection, sec in zip(array.detections, (3, 4, 3), strict=True):
        detection.header.stamp.sec = sec

    messages, refused = decode_array(serialize_message(array), 'a')

    assert [(one.stamp_ns, one.frame_id, len(one.detections)) for one in messages] == [
        (3 * 10**9, 'cam', 2),
        (4 * 10**9, 'cam', 1),
    ]
    assert refused == {}
    # The array's own stamp counts where it has one.
    array.header.stamp.sec = 9
    assert [one.stamp_ns for one in decode_array(serialize_message(array), 'a').messages] == [9 * 10**9]


def test_a_false_count_asks_for_no_memory() -> None:
    data = bytearray(serialize_message(Detection3DArray()))
    data[-4:] = struct.pack('<I', 2**32 - 1)

    with pytest.raises(ValueError, match='4294967295 elements'):
        decode_detections(bytes(data), 'a')


def test_a_text_that_is_no_utf8_is_refused() -> None:
    array = Detection3DArray()
    array.header.frame_id = 'camera'
    data = serialize_message(array).replace(b'camera', bytes(range(0x78, 0x7E)).replace(b'x', b'\x81'))

    with pytest.raises(ValueError, match='utf-8'):
        decode_detections(data, 'a')


def test_both_byte_orders_are_read() -> None:
    little = serialize_message(PoseStamped())
    big = (
        b'\0\0'
        + little[2:4]
        + struct.pack('>iII', 9, 5, 1)
        + b'\0'
        + b'\0' * 3
        + struct.pack('>7d', 1, 2, 3, 0, 0, 0, 1)
    )

    message = decode_pose(big, 'a')

    assert message.stamp_ns == 9 * 10**9 + 5
    assert message.detections.positions.tolist() == [[1.0, 2.0, 3.0]]


@pytest.mark.parametrize('data', [b'', b'\0\1\0\0', b'\0\7\0\0' + b'\0' * 40, b'\1\1\0\0' + b'\0' * 40])
def test_what_is_no_cdr_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match='bytes'):
        decode_detections(data, 'a')
