"""Topic `/diagnostics`: values and problems of the whole node.

A timer of the executor requests it; a reader thread collects and publishes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node
from std_msgs.msg import Header

from hylo_memory_ros.perception import InputStatus
from hylo_memory_ros.ros import qos
from hylo_memory_ros.ros.convert.fields import stamp_msg
from hylo_memory_ros.ros.open_memory import check_clock
from hylo_memory_ros.ros.retention_scheduler import RetentionScheduler
from hylo_memory_ros.ros.runtime.request_guard import RequestGuard
from hylo_memory_ros.ros.services.registration import ServiceContext

logger = logging.getLogger(__name__)


class DiagnosticsTopic:
    """Publishes `/diagnostics`.

    Parameters
    ----------
    node : Node
        Owner of the topic.
    context : ServiceContext
        Parts of the session.
    guard : RequestGuard
        Counts of requests.
    retention : RetentionScheduler
        Fill of the memory.
    """

    def __init__(
        self, node: Node, context: ServiceContext, guard: RequestGuard, retention: RetentionScheduler
    ) -> None:
        self._node, self._context, self._guard, self._retention = node, context, guard, retention
        self._name = f'{node.get_fully_qualified_name().lstrip("/")}: memory'
        self._recorded_ns = context.memory.now_ns()
        self._clock_warned = False
        self._mirror_repairs = 0
        self._topic = qos.Topic(node, DiagnosticArray, '/diagnostics', qos.DIAGNOSTICS)

    def publish(self) -> None:
        """Publish the state."""
        values = self._values()
        fill, limits = self._retention.diagnosis()
        errors, warnings = list(self._errors()), [*self._warnings(), *limits]
        level = (
            DiagnosticStatus.ERROR if errors else DiagnosticStatus.WARN if warnings else DiagnosticStatus.OK
        )
        status = DiagnosticStatus(
            level=level,
            name=self._name,
            message='; '.join([*errors, *warnings]) or 'ok',
            hardware_id=str(self._context.memory.path or ':memory:'),
            values=[KeyValue(key=key, value=str(value)) for key, value in {**values, **fill}.items()],
        )
        header = Header(stamp=stamp_msg(self._context.clock()))
        self._topic.publish(DiagnosticArray(header=header, status=[status]))

    def check_mirror(self) -> None:
        """Compare the spatial mirror with the database; a difference is repaired and reported."""
        memory = self._context.memory
        if memory.ready and memory.verify_mirror():
            self._mirror_repairs += 1

    def close(self) -> None:
        """Stop publishing. Safe to repeat."""
        self._topic.close()

    def _values(self) -> dict[str, Any]:
        context, guard, memory = self._context, self._guard, self._context.memory
        status = context.perception.status()
        return {
            'active': guard.open,
            'map_id': memory.map_id,
            'sequence': memory.sequence,
            'episode': memory.current_episode,
            'mirror': 'loaded' if memory.ready else 'loading',
            'requests': sum(guard.calls.values()),
            'requests refused': sum(guard.refused.values()),
            'requests running': guard.running,
            'transforms refused': sum(context.transforms.refused.values()),
            'poses kept in their frame': context.placement.kept,
            'messages unreadable': sum(getattr(self._node.executor, 'unreadable', {}).values()),
            'skill directory': memory.skill_directory or '',
            'landmarks': status.landmarks,
            'landmarks confirmed': status.confirmed,
            **{f'input {source.name}': _losses(source) for source in status.inputs},
        }

    def _warnings(self) -> Iterator[str]:
        context, memory, perception = self._context, self._context.memory, self._context.perception
        if not memory.ready:
            yield 'the spatial mirror is loading'
        if context.config.localization_topic and not perception.localized:
            yield f'perception waits for localization on {context.config.localization_topic}'
        if behind := check_clock(context.config, self._recorded_ns, context.clock()):
            if not self._clock_warned:
                logger.warning('%s', behind)
            yield behind
        self._clock_warned = bool(behind)
        yield from memory.skill_report.warnings
        for name in perception.skipped:
            yield f'input {name}: its message type is not installed'
        if context.transforms.incompatible:
            yield f'tf: a publisher does not match its quality of service ({context.transforms.incompatible})'
        for source in perception.inputs:
            if source.incompatible:
                yield (
                    f'input {source.name}: a publisher does not match its quality of service '
                    f'({source.incompatible})'
                )
        for counts in perception.status().inputs:
            if counts.dropped or counts.late:
                causes = ''.join(f'; {counts.causes.get(reason, reason)}' for reason in counts.lost)
                yield f'input {counts.name}: {counts.dropped} dropped, {counts.late} late{causes}'

    def _errors(self) -> Iterator[str]:
        if failure := self._context.perception.last_failure:
            yield f'perception: {failure}'
        for source in self._context.perception.status().inputs:
            if source.older_run:
                yield f'input {source.name}: {source.older_run}'
        if self._mirror_repairs:
            times = self._mirror_repairs
            yield f'the spatial mirror differed from the database {times} times, and was repaired'


def _losses(source: InputStatus) -> str:
    lost = {f'dropped {reason}': count for reason, count in source.lost.items()}
    counts = {**lost, 'late': source.late, 'pending': source.pending, **source.refused}
    return ', '.join(f'{name} {count}' for name, count in counts.items() if count)
