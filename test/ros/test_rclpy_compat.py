"""What cannot be read is counted, and its entity goes on."""

from collections.abc import Iterator
from typing import Any

import pytest
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from ros.harness import Talker
from std_msgs.msg import String

from hylo_memory_ros.ros.rclpy_compat import MessageExecutor

pytestmark = pytest.mark.ros


@pytest.fixture
def node(ros_domain: int) -> Iterator[Node]:
    context = Context()
    context.init(domain_id=ros_domain)
    node = Node('n', context=context)
    yield node
    node.destroy_node()
    context.try_shutdown()


def hear(node: Node, domain: int, first: Any) -> tuple[list[str], MessageExecutor]:
    """Return what is heard when something that cannot be read comes before a good message."""
    executor = MessageExecutor(context=node.context)
    executor.add_node(node)
    heard: list[Any] = []
    node.create_subscription(String, 'words', heard.append, 10)
    with Talker(domain) as talker:
        publisher = talker.node.create_publisher(String, 'words', 10)
        talker.spin_until(publisher.get_subscription_count)
        publisher.publish(first)
        for _ in range(20):
            executor.spin_once(timeout_sec=0.05)
        publisher.publish(String(data='after'))
        for _ in range(2000):
            executor.spin_once(timeout_sec=0.05)
            if heard:
                break
    executor.shutdown(timeout_sec=0)

    return [message.data for message in heard], executor


def test_after_garbage_the_next_message_is_heard(node: Node, ros_domain: int) -> None:
    assert hear(node, ros_domain, b'\0\1\0\0\xff\xff\xff\xffgarbage')[0] == ['after']


def test_a_message_that_raises_while_it_is_taken_is_counted_and_the_next_heard(
    node: Node, ros_domain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = SingleThreadedExecutor._take_subscription

    def refuse(self: Any, subscription: Any) -> Any:
        monkeypatch.setattr(SingleThreadedExecutor, '_take_subscription', take)
        with subscription.handle:
            subscription.handle.take_message(subscription.msg_type, subscription.raw)
        raise UnicodeDecodeError('utf-8', b'\x80', 0, 1, 'invalid start byte')

    monkeypatch.setattr(SingleThreadedExecutor, '_take_subscription', refuse)
    heard, executor = hear(node, ros_domain, String(data='bad'))

    assert heard == ['after']
    assert dict(executor.unreadable) == {'/words': 1}


def test_a_callback_that_raises_ends_nothing(node: Node) -> None:
    executor = MessageExecutor(context=node.context)
    executor.add_node(node)
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise ValueError('oops')

    node.create_timer(0.01, fail)
    executor.spin_while(lambda: len(calls) < 3)
    executor.shutdown(timeout_sec=0)

    assert len(calls) == 3
