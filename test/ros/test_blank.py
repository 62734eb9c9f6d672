"""A blank message is what the constructor makes, and shares nothing that is assigned."""

import pytest
from geometry_msgs.msg import Pose
from rclpy.serialization import serialize_message
from std_msgs.msg import Header

from hylo_memory_ros.msg import MemoryHit, MemoryItem
from hylo_memory_ros.ros.blank import Blank

pytestmark = pytest.mark.ros


@pytest.mark.parametrize('kind', [MemoryHit, MemoryItem, Pose, Header])
def test_a_blank_message_is_the_default(kind: type) -> None:
    blank = Blank(kind)()

    assert blank == kind()
    assert serialize_message(blank) == serialize_message(kind())


def test_what_is_assigned_stays_with_one_message() -> None:
    make = Blank(MemoryItem)
    first, second = make(), make()

    first.key, first.entities = 'mug', ['cup']

    assert second == MemoryItem()
