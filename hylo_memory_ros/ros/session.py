"""Session of a configured node: memory, workers, perception, services and publishers.

Threads: the executor's only, except where a part says otherwise.
"""

from __future__ import annotations

import concurrent.futures
import logging
from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from hylo_memory_ros.errors import NotNowError
from hylo_memory_ros.parameters import NodeConfig
from hylo_memory_ros.ros.open_memory import StampWatch, open_memory
from hylo_memory_ros.ros.perception.inputs import LocalizationTopic
from hylo_memory_ros.ros.perception.perception import Perception
from hylo_memory_ros.ros.perception.placement import Placement
from hylo_memory_ros.ros.perception.transforms import NodeTransforms
from hylo_memory_ros.ros.publishers.diagnostics import DiagnosticsTopic
from hylo_memory_ros.ros.publishers.events import EventTopic
from hylo_memory_ros.ros.publishers.markers import MarkerTopic
from hylo_memory_ros.ros.publishers.status import StatusTopic
from hylo_memory_ros.ros.retention_scheduler import BatteryTopic, RetentionScheduler
from hylo_memory_ros.ros.runtime.request_guard import RequestGuard
from hylo_memory_ros.ros.runtime.worker_pool import WorkerPool
from hylo_memory_ros.ros.services import HANDLERS
from hylo_memory_ros.ros.services.registration import Handlers, ServiceContext
from hylo_memory_ros.transforms import PendingLookups

logger = logging.getLogger(__name__)

# Period of the check of waiting requests; the shortest timeout that is still kept.
TICK_S = 0.1
# Everything must end within 5 s; the rest is for the middleware.
END_S = 2.0
# Threads that answer queries, and requests that may wait for each pool before others are refused as busy.
READERS, QUEUE_LIMIT = 2, 256
# Periods of what the node publishes and checks, on the steady clock, seconds.
DIAGNOSTICS_S, MARKERS_S, MIRROR_CHECK_S = 1.0, 1.0, 600.0


class Session:
    """One opened memory of a node, with its threads, inputs, topics and timers.

    Parameters
    ----------
    node : Node
        Owner of clock, topics and timers.
    config : NodeConfig
        Its settings.
    transforms : NodeTransforms
        Transforms; outlive the session.
    guard : RequestGuard
        Counts requests; outlives the session.
    abandoned : callable
        Whether the process is to end, so that opening is not waited for.

    Raises
    ------
    HyloMemoryError
        If a part cannot be opened; then nothing is left open.
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
        try:
            self.memory = open_memory(config, self.now_ns, abandoned)
            self._undo.append(self.memory.close)
            self.context = self._create_parts()
            self._retention = RetentionScheduler(self.memory, config)
            self._undo.append(self._retention.close)
            self._subscribe_state()
            self._create_topics()
            self._undo.append(transforms.on_change(self._on_transforms))
            self._undo.append(lambda: self._pending.finish('the memory was closed'))
            self._create_timers()
        except BaseException:
            self.close()
            raise

    def _create_parts(self) -> ServiceContext:
        config = self._config
        self._readers = self._create_pool('readers', READERS)
        writer = self._create_pool('writer', 1)
        slow = self._create_pool('maintenance', 1)
        self._pending = PendingLookups(self._transforms, timeout_s=config.tf_timeout_s)
        self._perception = Perception(
            self._node, config, self.memory, self._transforms, writer, self.now_ns, self._group
        )
        # Closed after the pools have ended, and before the memory: it processes what they left.
        self._undo.insert(1, self._perception.close)
        return ServiceContext(
            memory=self.memory,
            config=config,
            writer=writer,
            readers=self._readers,
            slow=slow,
            perception=self._perception,
            placement=Placement(
                self._pending,
                config.global_frame,
                config.untransformable,
                max_age_s=config.tf_max_age_s,
                clock=self.now_ns,
            ),
            pending=self._pending,
            transforms=self._transforms,
            clock=self.now_ns,
            watch=StampWatch(self.now_ns),
        )

    def _subscribe_state(self) -> None:
        config = self._config
        if config.localization_topic:
            localization = LocalizationTopic(
                self._node, config.localization_topic, config.global_frame,
                self._perception.note_localization, self._group,
            )  # fmt: skip
            self._undo.append(localization.close)
        if config.battery_topic and config.consolidate_below_battery:
            battery = BatteryTopic(
                self._node, config.battery_topic, config.consolidate_below_battery,
                lambda: self._retention.keep('low battery'), self._group,
            )  # fmt: skip
            self._undo.append(battery.close)

    def _create_topics(self) -> None:
        config, node = self._config, self._node
        events = EventTopic(node, self.memory, config.reply_limit_bytes, retrievals=config.publish_retrievals)
        self._status = StatusTopic(node, self.memory, self._perception, config.global_frame, self.now_ns)
        self._diagnostics = DiagnosticsTopic(node, self.context, self._guard, self._retention)
        self._markers = MarkerTopic(node, self.memory, self._transforms, config, self.now_ns)
        self._undo += [events.close, self._status.close, self._diagnostics.close, self._markers.close]

    def _create_timers(self) -> None:
        config = self._config
        self._create_timer(TICK_S, self._tick)
        self._create_timer(config.commit_interval_s, self._perception.commit)
        self._read_every(config.status_interval_s, 'status', self._status.publish)
        self._read_every(DIAGNOSTICS_S, 'diagnostics', self._diagnostics.publish)
        self._read_every(MIRROR_CHECK_S, 'mirror check', self._diagnostics.check_mirror)
        self._create_timer(DIAGNOSTICS_S, self._retention.check)
        if config.consolidate_interval_s:
            self._create_timer(config.consolidate_interval_s, lambda: self._retention.keep('schedule'))
        if config.publish_markers:
            self._create_timer(MARKERS_S, self._show_markers)

    def handlers(self) -> list[Handlers]:
        """Return the handlers of all services."""
        return [group(self.context) for group in HANDLERS]

    def activate(self) -> None:
        """Subscribe to the inputs and admit requests."""
        self._perception.start()
        self._guard.open = True

    def deactivate(self) -> None:
        """Admit no requests, unsubscribe, commit what was received. Safe to repeat."""
        self._guard.open = False
        try:
            self._perception.stop().result(timeout=END_S)
        except NotNowError:
            pass
        except concurrent.futures.TimeoutError:
            logger.warning('perception is still being committed after %g s; it goes on', END_S)
        self._pending.finish('the node was deactivated')

    def finish(self) -> None:
        """Consolidate once more, if that is configured for a shutdown; only `close` may follow."""
        if self._config.consolidate_at_shutdown:
            self._retention.run_at_shutdown()

    def on_clock_jump(self) -> None:
        """Resolve what can be resolved, and clear the transforms of the old time; keep the memory.

        Not left to the writer: transforms of the new time arrive next, in this same thread.
        """
        self._pending.finish('the clock jumped back')
        self._perception.on_clock_jump()
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

    def _create_pool(self, name: str, threads: int) -> WorkerPool:
        pool = WorkerPool(name, threads, QUEUE_LIMIT)

        def close() -> None:
            if not pool.close(END_S):
                logger.warning('the %s did not end within %g s', name, END_S)

        self._undo.append(close)
        return pool

    def _create_timer(self, period_s: float, callback: Callable[[], None]) -> None:
        timer = self._node.create_timer(
            period_s, callback, callback_group=self._group, clock=Clock(clock_type=ClockType.STEADY_TIME)
        )
        self._undo.append(lambda: self._node.destroy_timer(timer))

    def _read_every(self, period_s: float, name: str, job: Callable[[], None]) -> None:
        """Run a job in a reader's thread periodically, once at a time."""
        self._create_timer(period_s, lambda: self._readers.once(name, job))

    def _tick(self) -> None:
        self._pending.expire()
        self._perception.tick()

    def _on_transforms(self) -> None:
        if len(self._pending):
            self._pending.poll()
        self._perception.on_transforms()
        self._perception.tick()

    def _show_markers(self) -> None:
        if self._markers.wanted:
            self._readers.once('markers', self._markers.publish)
