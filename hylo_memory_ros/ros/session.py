"""What configure opens and cleanup closes: memory, threads, perception, timers, topics.

Who may touch what: the executor's thread only, except for what the parts say of themselves.
"""

from __future__ import annotations

import concurrent.futures
import logging
from collections.abc import Callable, Mapping
from typing import Any

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from hylo_memory_ros.errors import NotNowError
from hylo_memory_ros.parameters import NodeConfig
from hylo_memory_ros.ros.open_memory import behind, opened
from hylo_memory_ros.ros.perception.localization import LocalisationTopic
from hylo_memory_ros.ros.perception.perception import Perception
from hylo_memory_ros.ros.perception.placement import Placement
from hylo_memory_ros.ros.perception.transforms import NodeTransforms
from hylo_memory_ros.ros.publishers.events import Events
from hylo_memory_ros.ros.publishers.markers import Markers
from hylo_memory_ros.ros.publishers.status import Diagnostics, StatusTopic
from hylo_memory_ros.ros.retention_scheduler import BatteryTopic, Keeping
from hylo_memory_ros.ros.runtime.request_guard import RequestGuard
from hylo_memory_ros.ros.runtime.worker_pool import WorkerPool
from hylo_memory_ros.ros.services.episodes import EpisodeHandler
from hylo_memory_ros.ros.services.feedback import Judging
from hylo_memory_ros.ros.services.landmarks import Editing
from hylo_memory_ros.ros.services.maintenance import Maintenance
from hylo_memory_ros.ros.services.maps import Correcting
from hylo_memory_ros.ros.services.query import Reading
from hylo_memory_ros.ros.services.receipts import Proving
from hylo_memory_ros.ros.services.write import Writing
from hylo_memory_ros.ros.stamp_watch import StampWatch
from hylo_memory_ros.transforms import PendingQueue

__all__ = ['Session']

logger = logging.getLogger(__name__)

# How often waiting requests are looked at; the shortest timeout that still is about right.
TICK_S = 0.1
# What ends must end within 5 s; the rest is for the middleware.
END_S = 2.0
# Threads that answer queries, and requests that may wait for each pool before others are refused as busy.
READERS, QUEUE_LIMIT = 2, 256
# Periods of what the node publishes and checks, on the steady clock, seconds.
DIAGNOSTICS_S, MARKERS_S, MIRROR_CHECK_S = 1.0, 1.0, 600.0


class Session:
    """One configured memory of a node.

    Parameters
    ----------
    node : Node
        Whose clock, topics and timers it uses.
    config : NodeConfig
        Its settings.
    transforms : NodeTransforms
        Where frames were; outlives the session.
    guard : RequestGuard
        Counts requests; outlives the session.
    abandoned : callable
        Whether the process is to end, so that opening is not waited for.

    Raises
    ------
    HyloMemoryError
        If anything cannot be had; then nothing is left open.
    """

    def __init__(
        self,
        node: Node,
        config: NodeConfig,
        transforms: NodeTransforms,
        guard: RequestGuard,
        abandoned: Callable[[], bool],
    ) -> None:
        self._node, self._config, self._transforms, self._guard = node, config, transforms, guard
        self._undo: list[Callable[[], Any]] = []
        self._group = MutuallyExclusiveCallbackGroup()
        self._mirror_mended = 0
        self._behind_told = False
        try:
            self._open(abandoned)
        except BaseException:
            self.close()
            raise

    def _open(self, abandoned: Callable[[], bool]) -> None:
        config = self._config
        self.memory = opened(config, self.now_ns, abandoned)
        self._undo.append(self.memory.close)
        self._recorded_ns = self.memory.now_ns()
        self._readers = self._lane('readers', READERS)
        self._writer = self._lane('writer', 1)
        self._slow = self._lane('maintenance', 1)
        self._pending = PendingQueue(self._transforms, timeout_s=config.tf_timeout_s)
        self._placement = Placement(self._pending, config.global_frame, config.untransformable)
        self.perception = Perception(
            self._node, config, self.memory, self._transforms, self._writer, self.now_ns, self._group
        )
        if config.localisation_topic:
            localisation = LocalisationTopic(
                self._node, config.localisation_topic, config.global_frame,
                self.perception.note_localisation, self._group,
            )  # fmt: skip
            self._undo.append(localisation.close)
        # Lanes end before it, in the order of undoing; what they left is processed here.
        self._undo.insert(1, self.perception.close)
        self._keeping = Keeping(self.memory, config)
        self._undo.append(self._keeping.close)
        if config.battery_topic and config.consolidate_below_battery:
            battery = BatteryTopic(
                self._node, config.battery_topic, config.consolidate_below_battery,
                lambda: self._keeping.keep('low battery'), self._group,
            )  # fmt: skip
            self._undo.append(battery.close)
        self._topics()
        self._undo.append(self._transforms.on_change(self._on_transforms))
        self._undo.append(lambda: self._pending.finish('the memory was closed'))
        self._timers()

    def _topics(self) -> None:
        config, node = self._config, self._node
        events = Events(node, self.memory, config.reply_limit_bytes, retrievals=config.publish_retrievals)
        self._status = StatusTopic(node, self.memory, self.perception, config.global_frame, self.now_ns)
        self._diagnostics = Diagnostics(
            node, self.diagnosis, str(self.memory.path or ':memory:'), self.now_ns
        )
        self._markers = Markers(node, self.memory, self._transforms, config, self.now_ns)
        self._undo += [events.close, self._status.close, self._diagnostics.close, self._markers.close]

    def _timers(self) -> None:
        config = self._config
        self._timer(TICK_S, self._tick)
        self._timer(config.commit_interval_s, self.perception.commit)
        self._timer(config.status_interval_s, lambda: self._readers.once('status', self._status.publish))
        self._timer(
            DIAGNOSTICS_S,
            lambda: self._readers.once('diagnostics', self._diagnostics.publish),
        )
        self._timer(MIRROR_CHECK_S, lambda: self._readers.once('mirror check', self._check_mirror))
        self._timer(DIAGNOSTICS_S, self._keeping.check)
        if config.consolidate_interval_s:
            self._timer(config.consolidate_interval_s, lambda: self._keeping.keep('schedule'))
        if config.publish_markers:
            self._timer(MARKERS_S, self._show)

    def handlers(self) -> Mapping[str, Any]:
        """Return what answers each service, and the action."""
        config = self._config
        reading = Reading(self.memory, self._readers, self._placement, config.reply_limit_bytes)
        writing = Writing(
            self.memory, self._writer, self._readers, self._placement, self.perception, self._pending,
            self._transforms, self.now_ns, StampWatch(self.now_ns), config.reply_limit_bytes,
        )  # fmt: skip
        proving = Proving(
            self.memory, self._readers, self._placement, config.reply_limit_bytes,
            config.memory.receipts != 'off', self.perception.receipt,
        )  # fmt: skip
        editing = Editing(
            self.memory, self._writer, self.perception, self._pending, self.now_ns, config.global_frame,
            config.base_frame,
        )  # fmt: skip
        correcting = Correcting(self._writer, self.perception, config.global_frame)
        episodes = EpisodeHandler(self.memory, self._writer, self.perception, self.now_ns)
        maintenance = Maintenance(
            self.memory, self._writer, self._readers, self.perception, self._slow, config.reply_limit_bytes
        )
        return {
            "query": reading.query, "history": reading.history, "changes": reading.changes,
            "write": writing.write, "forget": writing.forget, "retract": writing.retract,
            "purge": writing.purge, "set_map": writing.set_map, "flush": writing.flush,
            "correct_map": correcting.correct_map, "snapshot": writing.snapshot,
            "maintain": maintenance.perform,
            "render": proving.render, "may_reuse": proving.may_reuse, "receipt": proving.receipt,
            "report_absent": editing.report_absent, "edit_landmark": editing.edit_landmark,
            "episode": episodes.episode,
            "feedback": Judging(self.memory, self._writer).feedback,
        }  # fmt: skip

    def activate(self) -> None:
        """Subscribe to the inputs and let requests through."""
        self.perception.start()
        self._guard.open = True

    def deactivate(self) -> None:
        """Let no requests through, subscribe no more, commit what was received. Safe to repeat."""
        self._guard.open = False
        try:
            self.perception.stop().result(timeout=END_S)
        except NotNowError:
            pass
        except concurrent.futures.TimeoutError:
            logger.warning('perception is still being committed after %g s; it goes on', END_S)
        self._pending.finish('the node was deactivated')

    def finish(self) -> None:
        """Consolidate once more, where that is asked of a shutdown; only `close` may follow."""
        if self._config.consolidate_at_shutdown:
            self._keeping.at_end()

    def on_clock_jump(self) -> None:
        """Finish what can be resolved, and clear the transforms of the old time; keep the memory.

        Not left to the writer: transforms of the new time arrive next, in this same thread.
        """
        self._pending.finish('the clock jumped back')
        self.perception.on_clock_jump()
        self._transforms.clear()

    def close(self) -> None:
        """Close everything, last opened first; safe to repeat."""
        self._guard.open = False
        while self._undo:
            undo = self._undo.pop()
            try:
                undo()
            except Exception:
                logger.exception('closing goes on after a failure')

    def now_ns(self) -> int:
        """Return the node's time, nanoseconds; 0 while its clock has not started."""
        return int(self._node.get_clock().now().nanoseconds)

    def diagnosis(self) -> tuple[Mapping[str, Any], list[str], list[str]]:
        """Return values for /diagnostics, and the problems: warnings, errors."""
        memory, perception, guard = self.memory, self.perception, self._guard
        status = perception.status()
        values: dict[str, Any] = {
            'active': guard.open,
            'map_id': memory.map_id,
            'sequence': memory.sequence,
            'episode': memory.current_episode,
            'mirror': 'loaded' if memory.ready else 'loading',
            'requests': sum(guard.calls.values()),
            'requests refused': sum(guard.refused.values()),
            'requests running': guard.running,
            'transforms refused': sum(self._transforms.refused.values()),
            'poses kept in their frame': self._placement.kept,
            'messages unreadable': sum(getattr(self._node.executor, 'unreadable', {}).values()),
            'skill directory': memory.skill_directory or '',
            'landmarks': status.landmarks,
            'landmarks confirmed': status.confirmed,
        }
        filled, full = self._keeping.diagnosis()
        values |= filled
        warnings = [] if memory.ready else ['the spatial mirror is loading']
        if self._config.localisation_topic and not perception.localised:
            warnings.append(f'perception waits for localisation on {self._config.localisation_topic}')
        warnings += self._behind()
        warnings += full
        warnings += memory.skill_report.warnings
        warnings += [f'input {name}: its message type is not installed' for name in perception.skipped]
        warnings += [
            f'input {source.name}: a publisher does not match its quality of service ({source.incompatible})'
            for source in perception.inputs
            if source.incompatible
        ]
        for source in status.inputs:
            lost = {
                'dropped': source.dropped,
                'late': source.late,
                'pending': source.pending,
                **source.refused,
            }
            values[f'input {source.name}'] = ', '.join(
                f'{name} {count}' for name, count in lost.items() if count
            )
            if source.dropped or source.late:
                warnings.append(f'input {source.name}: {source.dropped} dropped, {source.late} late')
        errors = [f'perception: {perception.last_failure}'] if perception.last_failure else []
        if self._mirror_mended:
            errors.append(
                f'the spatial mirror differed from the database {self._mirror_mended} times, and was mended'
            )
        return values, warnings, errors

    def _behind(self) -> list[str]:
        """Return what is wrong with the clock, which may have started after the file was opened."""
        told = behind(self._config, self._recorded_ns, self.now_ns())
        if told and not self._behind_told:
            logger.warning('%s', told)
        self._behind_told = bool(told)
        return [told] if told else []

    def _lane(self, name: str, threads: int) -> WorkerPool:
        lane = WorkerPool(name, threads, QUEUE_LIMIT)
        self._undo.append(lambda: self._ended(name, lane))
        return lane

    def _ended(self, name: str, lane: WorkerPool) -> None:
        if not lane.close(END_S):
            logger.warning('the %s did not end within %g s', name, END_S)

    def _timer(self, period_s: float, callback: Callable[[], None]) -> None:
        timer = self._node.create_timer(
            period_s, callback, callback_group=self._group, clock=Clock(clock_type=ClockType.STEADY_TIME)
        )
        self._undo.append(lambda: self._node.destroy_timer(timer))

    def _tick(self) -> None:
        self._pending.expire()
        self.perception.tick()

    def _on_transforms(self) -> None:
        if len(self._pending):
            self._pending.poll()
        self.perception.on_transforms()
        self.perception.tick()

    def _show(self) -> None:
        if self._markers.wanted:
            self._readers.once('markers', self._markers.publish)

    def _check_mirror(self) -> None:
        if self.memory.ready and self.memory.verify_mirror():
            self._mirror_mended += 1
