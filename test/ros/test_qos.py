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
        topic = qos.Topic(node, String, 'words', qos.LATCHED)
        assert topic.publish(String(data='before'))
        # As if the executor's thread closed it just before another one publishes.
        node.destroy_publisher(topic._publisher)
        assert topic.publish(String(data='meanwhile'))
        topic.close()
        assert not topic.publish(String(data='after'))
        node.destroy_node()
    finally:
        context.try_shutdown()
