"""Topic `~/status`: sequence, watermarks and counts of the memory.

A timer of the executor requests it; a reader thread collects and publishes it.
"""

from __future__ import annotations

from collections.abc import Callable

from rclpy.node import Node
from std_msgs.msg import Header

from hylo_memory_ros.msg import MemoryStatus
from hylo_memory_ros.perception import PipelineStatus
from hylo_memory_ros.ros import qos
from hylo_memory_ros.ros.convert.fields import stamp_msg
from hylo_memory_ros.ros.perception.perception import Perception
from hylo_memory_ros.service import MemoryService


class StatusTopic:
    """Publishes `~/status` when something in it has changed.

    Parameters
    ----------
    node : Node
        Owner of the topic.
    memory : MemoryService
        The memory.
    perception : Perception
        The inputs.
    global_frame : str
        Frame in which poses are stored.
    clock : callable
        The node's clock, nanoseconds.
    """

    def __init__(
        self,
        node: Node,
        memory: MemoryService,
        perception: Perception,
        global_frame: str,
        clock: Callable[[], int],
    ) -> None:
        self._memory, self._perception = memory, perception
        self._frame, self._clock = global_frame, clock
        self._topic = qos.Topic(node, MemoryStatus, '~/status', qos.LATCHED)
        self._last: MemoryStatus | None = None

    def publish(self) -> None:
        """Publish the status, if it has changed."""
        msg = self._collect()
        if self._last is not None:
            msg.header.stamp = self._last.header.stamp
        if msg == self._last:
            return
        msg.header.stamp = stamp_msg(self._clock())
        if self._topic.publish(msg):
            self._last = msg

    def close(self) -> None:
        """Stop publishing. Safe to repeat."""
        self._topic.close()

    def _collect(self) -> MemoryStatus:
        status: PipelineStatus = self._perception.status()
        counts = self._memory.counts()
        return MemoryStatus(
            header=Header(frame_id=self._frame),
            map_id=self._memory.map_id,
            epoch=self._memory.epoch,
            sequence=self._memory.sequence,
            mirror_sequence=self._memory.mirror_sequence,
            inputs=[source.name for source in status.inputs],
            watermark_ns=[source.watermark_ns for source in status.inputs],
            pending=[source.pending for source in status.inputs],
            dropped=[source.dropped for source in status.inputs],
            late=[source.late for source in status.inputs],
            refused=[sum(source.refused.values()) for source in status.inputs],
            items=sum(counts.values()),
            landmarks=status.confirmed,
        )
