"""Whatever its type: both byte orders are read alike, and what is cut, padded or noise is refused."""

import random
from itertools import permutations
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rosbags', reason='rosbags is not installed')

from support.bags import NS, Types

from hylo_memory_ros.perception import Message
from hylo_memory_ros.perception.ingestion.decoders import (
    DECODERS,
    DecodedMessage,
    decode_clock,
    decode_transforms,
)

NOW = 1_700_000_000 * NS + 5
TYPES = Types()
SAMPLES: dict[str, Any] = {
    'vision_msgs/msg/Detection3DArray': TYPES.boxes(
        NOW, 'camera', TYPES.box('cup', 1, 2), TYPES.box('mug', 3, 4)
    ),
    'geometry_msgs/msg/PoseStamped': TYPES.new(
        'geometry_msgs/PoseStamped', header=TYPES.header(NOW, 'camera'), pose=TYPES.pose(1, 2, 3, 0.5)
    ),
    'geometry_msgs/msg/PoseArray': TYPES.new(
        'geometry_msgs/PoseArray',
        header=TYPES.header(NOW, 'camera'),
        poses=[TYPES.pose(1, 2), TYPES.pose(3, 4)],
    ),
    'apriltag_msgs/msg/AprilTagDetectionArray': TYPES.tags(NOW, 'camera', 3, 14),
    'visualization_msgs/msg/Marker': TYPES.marker(NOW, 'camera', 'crate', 7),
    'visualization_msgs/msg/MarkerArray': TYPES.markers(
        TYPES.marker(NOW, 'camera', 'crate', 7),
        TYPES.marker(
            NOW, 'camera', 'crate', 8, 3.0, 4.0, kind=2, text='a text', points=[TYPES.point(1, 2, 3)]
        ),
    ),
}


def read(kind: str, data: bytes) -> DecodedMessage:
    return DECODERS[kind]()(data, 'front')


def told(message: Message) -> tuple[Any, ...]:
    columns = message.detections
    turns = None if columns.orientations is None else columns.orientations.tolist()
    names = list(columns.labels), list(columns.instances or ())
    return message.stamp_ns, message.frame_id, names, columns.positions.tolist(), turns


def test_each_sample_is_of_a_type_that_is_read() -> None:
    assert set(SAMPLES) <= set(DECODERS)


@pytest.mark.parametrize('kind', SAMPLES)
def test_both_byte_orders_tell_the_same(kind: str) -> None:
    little, big = (read(kind, TYPES.cdr(SAMPLES[kind], little=order)) for order in (True, False))

    assert [told(one) for one in little.messages] == [told(one) for one in big.messages]
    (message,) = little.messages
    assert (message.stamp_ns, message.frame_id) == (NOW, 'camera')
    assert len(message.detections) == (1 if kind.endswith(('Stamped', 'Marker')) else 2)


@pytest.mark.parametrize('little', [True, False])
@pytest.mark.parametrize('kind', SAMPLES)
def test_what_is_cut_anywhere_is_refused(kind: str, little: bool) -> None:
    data = TYPES.cdr(SAMPLES[kind], little=little)
    for end in range(len(data)):
        with pytest.raises(ValueError, match=r'.'):
            read(kind, data[:end])


@pytest.mark.parametrize('kind', SAMPLES)
def test_the_padding_of_a_word_is_taken_and_more_is_refused(kind: str) -> None:
    data = TYPES.cdr(SAMPLES[kind])
    digests = {read(kind, data + bytes(size)).messages[0].digest for size in range(4)}

    assert len(digests) == 1
    with pytest.raises(ValueError, match='4 bytes follow the last field'):
        read(kind, data + bytes(4))


@pytest.mark.parametrize('kind', SAMPLES)
def test_noise_is_read_or_refused_and_nothing_else(kind: str) -> None:
    rng = random.Random(kind)
    data = TYPES.cdr(SAMPLES[kind])
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 6)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            found = read(kind, bytes(changed))
        except ValueError:
            continue
        assert all(isinstance(one, Message) for one in found.messages)


@pytest.mark.parametrize(('kind', 'other'), list(permutations(SAMPLES, 2)))
def test_a_message_of_another_type_is_refused(kind: str, other: str) -> None:
    with pytest.raises(ValueError, match=r'.'):
        read(kind, TYPES.cdr(SAMPLES[other]))


@pytest.mark.parametrize(('at', 'number'), [(0, -1), (4, 10**9)], ids=['seconds', 'nanoseconds'])
@pytest.mark.parametrize('kind', SAMPLES)
def test_a_stamp_that_is_no_time_is_refused(kind: str, at: int, number: int) -> None:
    data = bytearray(TYPES.cdr(SAMPLES[kind]))
    place = at + data.index((1_700_000_000).to_bytes(4, 'little'))
    data[place : place + 4] = number.to_bytes(4, 'little', signed=True)
    with pytest.raises(ValueError, match='expected a time'):
        read(kind, bytes(data))


def test_poses_keep_their_orientation() -> None:
    (one,) = read(
        'geometry_msgs/msg/PoseStamped', TYPES.cdr(SAMPLES['geometry_msgs/msg/PoseStamped'])
    ).messages
    assert one.detections.positions.tolist() == [[1.0, 2.0, 3.0]]
    assert one.detections.orientations is not None
    assert np.allclose(one.detections.orientations, [[0, 0, np.sin(0.25), np.cos(0.25)]])


@pytest.mark.parametrize(
    'kind',
    ['vision_msgs/Detection3DArray', 'geometry_msgs/PoseArray', 'apriltag_msgs/AprilTagDetectionArray'],
)
def test_an_empty_array_is_a_message(kind: str) -> None:
    empty = TYPES.new(kind, header=TYPES.header(NOW, 'camera'))
    (one,) = read(kind.replace('/', '/msg/'), TYPES.cdr(empty)).messages
    assert (len(one.detections), one.stamp_ns) == (0, NOW)


def test_a_tag_is_named_by_family_and_id_and_its_pose_is_left_to_tf() -> None:
    kind = 'apriltag_msgs/msg/AprilTagDetectionArray'
    (one,) = read(kind, TYPES.cdr(SAMPLES[kind])).messages
    assert list(one.detections.labels) == ['tag36h11', 'tag36h11']
    assert list(one.detections.instances or ()) == ['tag36h11:3', 'tag36h11:14']
    assert list(one.detections.frames or ()) == ['tag36h11:3', 'tag36h11:14']


def test_the_clock_and_transforms_are_read_in_both_orders() -> None:
    clock = TYPES.new('rosgraph_msgs/Clock', clock=TYPES.time(NOW))
    moved = TYPES.tf(TYPES.transform(NOW, 'map', 'base_link', 1.0, 2.0, 0.5))
    for little in (True, False):
        assert decode_clock(TYPES.cdr(clock, little=little)) == NOW
        (one,) = decode_transforms(TYPES.cdr(moved, little=little))
        assert (one.parent, one.child, one.stamp_ns, one.translation) == ('map', 'base_link', NOW, (1, 2, 0))
    with pytest.raises(ValueError, match='CDR'):
        decode_clock(b'\0\1\0\0')
    with pytest.raises(ValueError, match='follow the last field'):
        decode_clock(TYPES.cdr(clock) + bytes(8))


@pytest.mark.parametrize('kind', SAMPLES)
def test_a_digest_is_of_the_values_and_of_no_padding(kind: str) -> None:
    """Writers leave padding between fields as it was in memory, so that each recording has other bytes."""
    data = TYPES.cdr(SAMPLES[kind])
    digests = {message.stamp_ns: message.digest for message in read(kind, data).messages}
    padding = 0
    for place in range(4, len(data)):
        changed = data[:place] + bytes([data[place] ^ 0x15]) + data[place + 1 :]
        try:
            is_same = TYPES.cdr(TYPES.store.deserialize_cdr(changed, kind)) == data
            messages = read(kind, changed).messages
        except Exception:  # noqa: BLE001 - a count or a text that is broken, in the words of either
            continue
        padding += is_same
        for message in messages:
            if message.stamp_ns in digests:
                assert (message.digest == digests[message.stamp_ns]) is is_same, place
    # Arrays of poses and single poses have none where the frame's name ends on a word.
    assert padding or kind.startswith('geometry_msgs')


def test_an_empty_text_has_one_digest_however_it_is_written() -> None:
    """Some writers give it no closing zero, which moves what follows."""
    body = np.arange(7.0).tobytes()
    stamp = (7).to_bytes(4, 'little') + (5).to_bytes(4, 'little')
    usual = b'\0\1\0\0' + stamp + b'\1\0\0\0' + b'\0' + b'\0\0\0' + body
    short = b'\0\1\0\0' + stamp + b'\0\0\0\0' + b'\0\0\0\0' + body
    found = [read('geometry_msgs/msg/PoseStamped', data).messages[0] for data in (usual, short)]
    assert told(found[0]) == told(found[1])
    assert found[0].digest == found[1].digest

    # In a message that ends with a sequence, the short text moves it by a whole word.
    empty = [b'\0\1\0\0' + stamp + frame + b'\0\0\0\0' for frame in (b'\1\0\0\0' + b'\0\0\0\0', b'\0\0\0\0')]
    tags = [read('apriltag_msgs/msg/AprilTagDetectionArray', data).messages[0] for data in empty]
    assert (tags[0].frame_id, tags[0].digest) == ('', tags[1].digest)
