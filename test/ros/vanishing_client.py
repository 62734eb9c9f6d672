"""Clients that ask for a large answer and kill themselves before it comes; run by a test, as one process.

They are forked, so that what they import is imported once.
"""

import os
import signal
import sys
import time

import rclpy
from rclpy.node import Node
from ros.harness import NODE, spatial

from hylo_memory_ros.srv import Query, Write

AT_ONCE = 10


def ask_and_vanish() -> None:
    rclpy.init()
    node = Node('vanishing')
    query, write = node.create_client(Query, f'{NODE}/query'), node.create_client(Write, f'{NODE}/write')
    deadline = time.monotonic() + 20.0
    while not (query.service_is_ready() and write.service_is_ready()) and time.monotonic() < deadline:
        rclpy.spin_once(node, timeout_sec=0.05)
    write.call_async(Write.Request(items=[spatial(f'vanished-{os.getpid()}')]))
    query.call_async(Query.Request(k=10_000))
    time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


def main(clients: int) -> None:
    for _ in range(clients // AT_ONCE):
        children = []
        for _ in range(AT_ONCE):
            if not (child := os.fork()):
                ask_and_vanish()
            children.append(child)
        for child in children:
            os.waitpid(child, 0)


if __name__ == '__main__':
    main(int(sys.argv[1]))
