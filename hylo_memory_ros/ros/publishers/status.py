"""`~/status` and `/diagnostics`: how the memory stands.

A timer of the executor asks for it; a reader gathers and publishes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node
from std_msgs.msg import Header

from hylo_memory_ros.msg import MemoryStatus
from hylo_memory_ros.perception import PipelineStatus
from hylo_memory_ros.ros import qos
from hylo_memory_ros.ros.convert.fields import stamp_msg
from hylo_memory_ros.ros.perception.perception import Perception
from hylo_memory_ros.service import MemoryService

__all__ = ['Diagnostics', 'StatusTopic']


class StatusTopic:
    """Publishes `~/status` when something in it has changed.

    Parameters
    ----------
    node : Node
        Whose topic it is.
    memory : MemoryService
        Whose status it is.
    perception : Perception
        Whose inputs are told of.
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
        self._node, self._memory, self._perception = node, memory, perception
        self._frame, self._clock = global_frame, clock
        self._publisher: Any = qos.publisher(node, MemoryStatus, '~/status', qos.LATCHED)
        self._last: MemoryStatus | None = None

    def publish(self) -> None:
        """Publish what has changed; nothing, if nothing has."""
        msg = self._gathered()
        last, publisher = self._last, self._publisher
        if last is not None:
            msg.header.stamp = last.header.stamp
        if publisher is not None and msg != last:
            msg.header.stamp = stamp_msg(self._clock())
            qos.publish(publisher, msg)
            self._last = msg

    def close(self) -> None:
        """Publish no more. Safe to repeat."""
        if self._publisher is not None:
            self._node.destroy_publisher(self._publisher)
            self._publisher = None

    def _gathered(self) -> MemoryStatus:
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


class Diagnostics:
    """Publishes `/diagnostics`.

    Parameters
    ----------
    node : Node
        Whose state it is.
    gather : callable
        Returns the values by name, and the problems by severity: warnings, errors.
    hardware_id : str
        What it is about: the file of the memory.
    clock : callable
        The node's clock, nanoseconds.
    """

    def __init__(
        self,
        node: Node,
        gather: Callable[[], tuple[Mapping[str, Any], list[str], list[str]]],
        hardware_id: str,
        clock: Callable[[], int],
    ) -> None:
        self._node, self._gather, self._clock = node, gather, clock
        self._name = f'{node.get_fully_qualified_name().lstrip("/")}: memory'
        self._hardware_id = hardware_id
        self._publisher: Any = qos.publisher(node, DiagnosticArray, '/diagnostics', qos.DIAGNOSTICS)

    def publish(self) -> None:
        """Publish the state."""
        values, warnings, errors = self._gather()
        level = (
            DiagnosticStatus.ERROR if errors else DiagnosticStatus.WARN if warnings else DiagnosticStatus.OK
        )
        status = DiagnosticStatus(
            level=level,
            name=self._name,
            message='; '.join([*errors, *warnings]) or 'ok',
            hardware_id=self._hardware_id,
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
        )
        publisher = self._publisher
        if publisher is not None:
            header = Header(stamp=stamp_msg(self._clock()))
            qos.publish(publisher, DiagnosticArray(header=header, status=[status]))

    def close(self) -> None:
        """Publish no more. Safe to repeat."""
        if self._publisher is not None:
            self._node.destroy_publisher(self._publisher)
            self._publisher = None
