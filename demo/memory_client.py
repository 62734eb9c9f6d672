"""The node's services and its status, as a client in another process uses them.

Everything happens in the caller's thread, in `spin_once` loops that end by conditions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import rclpy
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PointStamped
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import Header

from hylo_memory_ros.msg import MemoryFilter, MemoryStatus
from hylo_memory_ros.srv import Flush, Forget, Query, Snapshot

__all__ = ['MemoryClient', 'RefusedError', 'around', 'ns_of', 'time_of']

_NODE = '/hylo_memory'
_SERVICES = {'query': Query, 'flush': Flush, 'forget': Forget, 'snapshot': Snapshot}
_LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
# Codes of 200 to 299 speak of frames and transforms.
_FRAME_CODES = range(200, 300)


class RefusedError(RuntimeError):
    """The node answered, and refused.

    Parameters
    ----------
    service : str
        Name of the service.
    response : message
        Its response.
    """

    def __init__(self, service: str, response: Any) -> None:
        super().__init__(f'~/{service} refused with {response.error_code}: {response.message}')
        self.is_about_frames = response.error_code in _FRAME_CODES


class MemoryClient:
    """Calls the services of a memory node, and keeps its newest status.

    Parameters
    ----------
    alive : callable
        Whether the node's process runs; when it does not, nothing is waited for.
    """

    def __init__(self, alive: Callable[[], bool]) -> None:
        self._alive = alive
        self._context = rclpy.Context()
        rclpy.init(args=[], context=self._context)
        self.node = rclpy.create_node('hylo_memory_demo', context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self.status: MemoryStatus | None = None
        """The newest ~/status; None: none came yet."""
        self.node.create_subscription(MemoryStatus, f'{_NODE}/status', self._keep_status, _LATCHED)
        self._clients = {
            name: self.node.create_client(kind, f'{_NODE}/{name}') for name, kind in _SERVICES.items()
        }

    def close(self) -> None:
        """Leave the domain; safe to repeat."""
        if self._context.ok():
            self._executor.shutdown()
            self.node.destroy_node()
            rclpy.shutdown(context=self._context)

    def _keep_status(self, status: MemoryStatus) -> None:
        self.status = status

    def wait_until(self, reached: Callable[[], Any], what: str, timeout_s: float = 30.0) -> None:
        """Serve messages until a condition holds.

        Raises
        ------
        RuntimeError
            The node's process ended, or the time is over; it says for what.
        """
        deadline_s = time.monotonic() + timeout_s
        while not reached():
            if not self._alive():
                raise RuntimeError(f'the node ended while the player waited until {what}')
            if time.monotonic() > deadline_s:
                raise RuntimeError(f'after {timeout_s:g} s it still is not so that {what}')
            self._executor.spin_once(timeout_sec=0.02)

    def wait_for_node(self) -> None:
        """Wait until the node is active and every service is there."""
        for name, client in self._clients.items():
            self.wait_until(client.service_is_ready, f'~/{name} is offered')
        self.wait_until(lambda: self.status is not None, 'a ~/status came')

    def call(self, name: str, timeout_s: float = 30.0, **fields: Any) -> Any:
        """Call a service, and return its response.

        Raises
        ------
        RefusedError
            The node refused.
        RuntimeError
            No answer came.
        """
        future = self._clients[name].call_async(_SERVICES[name].Request(**fields))
        self.wait_until(future.done, f'~/{name} has answered', timeout_s)
        response = future.result()
        if not response.success:
            raise RefusedError(name, response)
        return response


def time_of(stamp_ns: int) -> Time:
    """Return nanoseconds as a message."""
    return Time(sec=stamp_ns // 10**9, nanosec=stamp_ns % 10**9)


def ns_of(stamp: Time) -> int:
    """Return a message as nanoseconds."""
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)


def around(frame_id: str, radius_m: float, **fields: Any) -> MemoryFilter:
    """Return the filter for what is near the origin of a frame, where that frame is now."""
    near = PointStamped(header=Header(frame_id=frame_id))
    return MemoryFilter(near=near, radius_m=radius_m, **fields)
