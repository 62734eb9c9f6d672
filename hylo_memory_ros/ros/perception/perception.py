"""Perception of the node: inputs are decoded, processed and committed by the writer's thread.

Threads: the executor's starts, stops and ticks; the pipeline is used by the writer's, except when the
clock jumps.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from hylo_memory_ros.errors import HyloMemoryError, NotNowError
from hylo_memory_ros.model import CorrectionResult
from hylo_memory_ros.parameters import NodeConfig
from hylo_memory_ros.perception import AbsenceAnswer, AbsenceReport, LandmarkPipeline, PipelineStatus
from hylo_memory_ros.perception.corrections.trajectory import RigidCorrection, Trajectory
from hylo_memory_ros.perception.edits import Edit, Edited
from hylo_memory_ros.ros.open_memory import StampWatch
from hylo_memory_ros.ros.perception.inputs import Input, message_type
from hylo_memory_ros.ros.perception.transforms import NodeTransforms
from hylo_memory_ros.ros.runtime.worker_pool import WorkerPool

logger = logging.getLogger(__name__)

# Messages in one job of the writer, so that a burst delays a write by about 100 ms at most.
BATCH = 32


class Perception:
    """The inputs of a node and the pipeline that they feed.

    Parameters
    ----------
    node : Node
        Owner of the subscriptions.
    config : NodeConfig
        Its inputs and the settings of the pipeline.
    memory : MemoryService
        Store of the landmarks.
    transforms : NodeTransforms
        Source of transforms; it keeps those that received messages need.
    writer : WorkerPool
        The one thread that writes.
    clock : callable
        The node's clock, nanoseconds; 0 while it has not started.
    group : CallbackGroup
        Group of the subscriptions.

    Raises
    ------
    ConfigurationError
        If an input has an unknown or missing type.
    """

    def __init__(
        self,
        node: Node,
        config: NodeConfig,
        memory: Any,
        transforms: NodeTransforms,
        writer: WorkerPool,
        clock: Callable[[], int],
        group: CallbackGroup,
    ) -> None:
        self._memory, self._transforms, self._writer, self._clock = memory, transforms, writer, clock
        self._config = config
        self.skipped: list[str] = []
        """Optional inputs whose message package is missing."""
        self.last_failure = ''
        """Error of the last commit; empty: it succeeded."""
        self.localized: bool | None = None
        """True if the newest report of localization was good enough; None: there was none."""
        self._inputs: list[Input] = []
        watch = StampWatch(clock)
        for source in config.inputs:
            kind = message_type(source)
            if kind is None:
                self.skipped.append(source.name)
            else:
                self._inputs.append(
                    Input(node, source, kind, self._schedule, lambda: transforms.horizon_ns, watch, group)
                )
        self._lock = threading.Lock()
        self._scheduled: set[str] = set()
        self._waiters: list[Future[None]] = []
        self._pipeline = self._create_pipeline()
        self._release_transforms = transforms.retain(self._needed_ns)

    @property
    def inputs(self) -> Sequence[Input]:
        """The inputs that are subscribed to."""
        return self._inputs

    def _create_pipeline(self) -> LandmarkPipeline:
        return LandmarkPipeline(
            self._memory,
            self._transforms,
            self._config.perception,
            map_id=self._memory.map_id,
            clock=self._clock,
        )

    def start(self) -> None:
        """Subscribe to the inputs."""
        for source in self._inputs:
            source.start()

    def stop(self) -> Future[Any]:
        """Unsubscribe; the future is done when received messages are committed."""
        for source in self._inputs:
            source.stop()
        return self._writer.submit(self._finish, always=True)

    def close(self) -> None:
        """Process and commit received messages; safe to repeat. After the writer has ended."""
        for source in self._inputs:
            source.stop()
        self._pipeline.close()
        self._release_transforms()

    def _needed_ns(self) -> int | None:
        """Return the stamp from which on the messages received so far need transforms; None: they do not.

        Whatever is faster than the writer would drop them otherwise: the executor takes transforms while a
        message waits to be decoded.
        """
        # In the direction in which a message moves, so that it is found at one place or the other.
        needs = [source.needed_ns() for source in self._inputs]
        needs.append(self._pipeline.needed_ns)
        return min((stamp_ns for stamp_ns in needs if stamp_ns is not None), default=None)

    def status(self) -> PipelineStatus:
        """Return counters and watermarks."""
        return self._pipeline.status()

    def on_transforms(self) -> None:
        """Process messages that waited for transforms; for `TransformSource.on_change`."""
        if self._inputs:
            self._schedule()

    def tick(self) -> None:
        """Wake the flushes that wait."""
        with self._lock:
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.set_result(None)

    def commit(self) -> None:
        """Let the writer commit changes; for a timer."""
        if self._inputs:
            self._once('commit', self._commit)

    def changed(self) -> Future[None]:
        """Return a future that is done at the next tick."""
        waiter: Future[None] = Future()
        with self._lock:
            self._waiters.append(waiter)
        return waiter

    def flush(self, until_ns: int | None) -> int:
        """Process received messages and lift the watermark; return how many still wait. In the writer."""
        self._drain_all()
        pending = self._pipeline.flush(until_ns)
        self._pipeline.commit(force=True)
        return pending

    def settle(self) -> None:
        """Commit received messages that can be decided; the others go on waiting. In the writer."""
        self._drain_all()
        self._pipeline.commit(force=True)

    def report_absent(self, report: AbsenceReport) -> AbsenceAnswer:
        """Take a report of absence after all received messages. In the writer."""
        self._drain_all()
        return self._pipeline.report_absent(report)

    def resolve_names(self, names: Sequence[str]) -> list[str]:
        """Return the keys of landmarks named by key or id, after all received messages. In the writer."""
        self._drain_all()
        return self._pipeline.resolve_keys(names)

    def edit(self, edit: Edit) -> Edited:
        """Edit landmarks and commit; return the remaining ones. In the writer."""
        edited = self._pipeline.edit(edit)
        self._pipeline.commit(force=True)
        return edited

    def frame_of(self, key: str) -> str:
        """Return the frame that a landmark is held in; empty: none is known."""
        return self._pipeline.held_in(key)

    def receipt(self, receipt_id: str) -> Mapping[str, Any] | None:
        """Return the receipt of a recent decision; None: it is no longer kept."""
        return self._pipeline.receipt(receipt_id)

    def on_clock_jump(self) -> None:
        """Resolve what can be resolved before the transforms of the old time are cleared."""
        self._drain_all()
        self._pipeline.on_clock_jump()

    def set_map(self, map_id: str) -> None:
        """Finish or drop pending work, then switch to another map. In the writer."""
        self._drain_all()
        self._pipeline.set_map(map_id)

    def note_localization(self, stamp_ns: int, covariance: Sequence[float]) -> None:
        """Let the writer take the covariance of the robot's pose."""

        def take() -> None:
            good = self._pipeline.note_localization(stamp_ns, covariance)
            if good != self.localized:
                logger.info('localization is %s', 'good enough' if good else 'not good enough')
            self.localized = good

        try:
            self._writer.submit(take, always=True)
        except NotNowError:
            logger.debug('a report of localization came while the node ended')

    def correct(
        self, correction: RigidCorrection | Trajectory, map_id: str | None, actor: str, dry_run: bool
    ) -> CorrectionResult:
        """Correct a map and its landmarks. In the writer."""
        self._drain_all()
        return self._pipeline.correct(correction, map_id=map_id, actor=actor, dry_run=dry_run)

    def revert(self, correction_id: str, actor: str, dry_run: bool) -> CorrectionResult:
        """Revert a correction. In the writer."""
        self._drain_all()
        return self._pipeline.revert(correction_id, actor=actor, dry_run=dry_run)

    def replace_memory(self, change: Callable[[], None]) -> None:
        """Run a change that replaces the memory, and continue with its content. In the writer."""
        self._drain_all()
        self._pipeline.close()
        try:
            change()
        finally:
            self._pipeline = self._create_pipeline()

    def _schedule(self) -> None:
        self._once('drain', self._drain)

    def _once(self, name: str, job: Callable[[], None]) -> None:
        """Queue a job unless it is queued already."""
        with self._lock:
            if name in self._scheduled:
                return
            self._scheduled.add(name)

        def run() -> None:
            with self._lock:
                self._scheduled.discard(name)
            job()

        try:
            self._writer.submit(run, always=True)
        except NotNowError:
            with self._lock:
                self._scheduled.discard(name)

    def _drain(self) -> None:
        try:
            taken = sum(source.drain(self._pipeline, BATCH) for source in self._inputs)
            self._pipeline.poll()
        except HyloMemoryError as exc:
            self._note_failure(exc)
            return
        if taken >= BATCH:
            self._schedule()

    def _drain_all(self) -> None:
        for source in self._inputs:
            while source.drain(self._pipeline, BATCH):
                pass
        self._pipeline.poll()

    def _commit(self) -> None:
        try:
            self._pipeline.commit()
            self.last_failure = ''
        except HyloMemoryError as exc:
            self._note_failure(exc)

    def _finish(self) -> None:
        try:
            self._drain_all()
            self._pipeline.commit(force=True)
        except HyloMemoryError as exc:
            self._note_failure(exc)

    def _note_failure(self, exc: HyloMemoryError) -> None:
        self.last_failure = str(exc)
        logger.error('perception could not be stored and will be retried: %s', exc)
