"""Asks for a large answer and kills itself before it comes; run by a test as a process of its own."""

import os
import signal
import sys
import time

import rclpy
from rclpy.node import Node
from ros.harness import NODE, spatial

from hylo_memory_ros.srv import Query, Write


def main(calls: int) -> None:
    rclpy.init()
    node = Node('vanishing')
    query, write = node.create_client(Query, f'{NODE}/query'), node.create_client(Write, f'{NODE}/write')
    deadline = time.monotonic() + 20.0
    while not (query.service_is_ready() and write.service_is_ready()) and time.monotonic() < deadline:
        rclpy.spin_once(node, timeout_sec=0.05)
    for index in range(calls):
        write.call_async(Write.Request(items=[spatial(f'vanished-{os.getpid()}-{index}')]))
        query.call_async(Query.Request(k=10_000))
    time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == '__main__':
    main(int(sys.argv[1]))
