"""A made message is what the constructor makes, and shares nothing that is assigned."""

import pytest
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Pose
from rclpy.serialization import serialize_message
from std_msgs.msg import Header

from hylo_memory_ros.msg import MemoryHit, MemoryItem
from hylo_memory_ros.ros.convert.blank import maker

pytestmark = pytest.mark.ros


@pytest.mark.parametrize('kind', [MemoryHit, MemoryItem, Pose, Header])
def test_without_fields_it_is_the_default(kind: type) -> None:
    made = maker(kind)()

    assert made == kind()
    assert serialize_message(made) == serialize_message(kind())


def test_fields_are_given_in_order_or_once_for_all() -> None:
    make = maker(MemoryItem, 'kind', 'key', label='tree')

    assert make('spatial', 'tree/1') == MemoryItem(kind='spatial', key='tree/1', label='tree')
    assert maker(Time, 'nanosec', 'sec')(2, 1) == Time(sec=1, nanosec=2)


def test_what_is_assigned_stays_with_one_message() -> None:
    make = maker(MemoryItem)
    first, second = make(), make()

    first.key, first.entities = 'mug', ['cup']

    assert second == MemoryItem()
