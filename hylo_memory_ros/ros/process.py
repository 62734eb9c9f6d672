"""Process of the node: start of ROS, executor and node, and orderly exit."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Callable

import rclpy
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.signals import SignalHandlerOptions

from hylo_memory_ros.ros.node import MemoryNode
from hylo_memory_ros.ros.rclpy_compat import MessageExecutor

logger = logging.getLogger(__name__)

# Time that the executor goes on after a lifecycle shutdown, so that its caller gets the reply, seconds.
LINGER_S = 0.3
# The end must come within 5 s of the signal, of which the executor may have taken half a second.
END_S = 4.0
# M_ARENA_MAX of glibc's <malloc.h>, and how many arenas all threads share.
M_ARENA_MAX, ARENAS = -8, 2
# Allocations between two collections of the youngest generation, about ten queries.
GC_ALLOCATIONS = 10_000


def run(args: list[str], stopping: Callable[[], bool]) -> int:
    """Run the node; see `main`.

    Parameters
    ----------
    args : list of str
        The command line.
    stopping : callable
        Whether the process is to end.
    """
    _share_memory()
    try:
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    except Exception as exc:  # noqa: BLE001 - RCLError is no public name; a wrong parameter file, mostly
        sys.stderr.write(f'hylo_memory: ROS does not start: {exc}\n')
        return 1
    try:
        return _serve(stopping)
    finally:
        rclpy.try_shutdown()


def _serve(stopping: Callable[[], bool]) -> int:
    if stopping():
        return 0
    executor = MessageExecutor()
    node = MemoryNode(stopping=stopping)
    try:
        executor.add_node(node)
        if node.autostart:
            _autostart(node)
        else:
            name = node.get_fully_qualified_name()
            node.get_logger().info(f'waiting to be configured: ros2 lifecycle set {name} configure')
        _calm_garbage_collector()
        executor.spin_while(lambda: not stopping() and not node.finalized)
        if node.finalized:
            until = time.monotonic() + LINGER_S
            executor.spin_while(lambda: time.monotonic() < until)
    finally:
        _give_up_later()
        node.end()
        executor.shutdown(timeout_sec=0)
        node.destroy_node()
    return 0


def _share_memory() -> None:
    """Let all threads allocate from the same few arenas, where the C library is glibc.

    By default each thread has its own, what one has freed is of no use to another, and a process with a
    dozen threads grows for hours although it needs no more.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS)


def _calm_garbage_collector() -> None:
    """Collect cycles seldom, and not among imported modules.

    By default each query of ten hits is interrupted several times, and now and then for as long
    as it takes to go through every module that was imported.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS, 20, 20)


def _autostart(node: MemoryNode) -> None:
    if node.trigger_configure() == TransitionCallbackReturn.SUCCESS:
        node.trigger_activate()


def _give_up_later() -> None:
    """End the process in time although a thread still checks a large file, which is safe."""

    def give_up() -> None:
        sys.stderr.write('hylo_memory: closing takes too long; the process ends\n')
        sys.stderr.flush()
        os._exit(0)

    timer = threading.Timer(END_S, give_up)
    timer.daemon = True
    timer.start()
