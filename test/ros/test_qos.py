"""What is published while the executor closes a topic is let go, without a word."""

import pytest
from rclpy.context import Context
from rclpy.node import Node
from std_msgs.msg import String

from hylo_memory_ros.ros import qos

pytestmark = pytest.mark.ros


def test_a_message_for_a_destroyed_publisher_is_let_go(ros_domain: int) -> None:
    context = Context()
    context.init(domain_id=ros_domain)
    try:
        node = Node('n', context=context)
        publisher = qos.publisher(node, String, 'told', qos.LATCHED)
        qos.publish(publisher, String(data='before'))
        node.destroy_publisher(publisher)
        qos.publish(publisher, String(data='after'))
        node.destroy_node()
    finally:
        context.try_shutdown()
