"""A service that answers with the bytes of one response from its input, and does no more.

usage: python -m bench._bare < RESPONSE
"""

from __future__ import annotations

import sys
from typing import Any

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.serialization import deserialize_message

from hylo_memory_ros.srv import Query

SERVICE = '/bare/query'


def main() -> None:
    """Answer until a signal."""
    known = deserialize_message(sys.stdin.buffer.read(), Query.Response)
    rclpy.init()
    node = rclpy.create_node('bare')

    def answer(_: Any, response: Any) -> Any:
        response.hits = known.hits
        response.sequence, response.total, response.truncated = known.sequence, known.total, known.truncated
        response.cursor, response.center_used = known.cursor, known.center_used
        response.success = True
        return response

    node.create_service(Query, SERVICE, answer)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        while rclpy.ok():
            executor.spin_once(timeout_sec=0.5)
    except KeyboardInterrupt:
        pass
    finally:
        rclpy.try_shutdown()


if __name__ == '__main__':
    main()
