"""Reports of localization from their bytes: what rclpy writes, and what is none."""

import pytest
from geometry_msgs.msg import PoseWithCovarianceStamped
from rclpy.serialization import serialize_message

from hylo_memory_ros.perception.ingestion.decoders import decode_localization

pytestmark = pytest.mark.ros


@pytest.mark.parametrize('frame_id', ['map', '', 'a longer name'])
def test_it_is_read_as_it_was_written(frame_id: str) -> None:
    message = PoseWithCovarianceStamped()
    message.header.frame_id, message.header.stamp.sec, message.header.stamp.nanosec = frame_id, 7, 9
    message.pose.pose.position.x = 5.0
    message.pose.covariance = [float(number) for number in range(36)]
    told = decode_localization(serialize_message(message))
    assert told == (7_000_000_009, frame_id, tuple(map(float, range(36))))


@pytest.mark.parametrize('cut', [0, 3, 10, 40, 200])
def test_what_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(ValueError, match=r'.'):
        decode_localization(serialize_message(PoseWithCovarianceStamped())[:cut])
