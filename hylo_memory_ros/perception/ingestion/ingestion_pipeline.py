"""Ingestion of observations: admission, order, and the update of landmarks that each message causes.

Threads: one lock guards all state and is held while a message is processed, but not while the
database writes. The memory may be queried with the lock held, so its listeners, which run under
its own lock, must not call a pipeline.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from hylo_memory_ros.errors import (
    DisconnectedFrameError,
    FrameError,
    InvalidRequestError,
    UnknownFrameError,
)
from hylo_memory_ros.model import MemoryItem, normalize_frame
from hylo_memory_ros.perception.edits import delete, keep_manual_content
from hylo_memory_ros.perception.existence.existence_monitor import ExistenceMonitor
from hylo_memory_ros.perception.existence.visibility import OccupancyGrid
from hylo_memory_ros.perception.ingestion.observation import Message
from hylo_memory_ros.perception.ingestion.sensor_pose import (
    LocalizationGate,
    SensorPoseResolver,
    loss_reason,
)
from hylo_memory_ros.perception.ingestion.validation import DetectionValidator, find_violation
from hylo_memory_ros.perception.ingestion.watermark import Backlog, PendingMessage, Watermark
from hylo_memory_ros.perception.map.persistence import ConsumedMessage, LandmarkPersistence
from hylo_memory_ros.perception.port import MemoryPort
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.status import InputCounts, InputStatus, PipelineStatus
from hylo_memory_ros.perception.tracking.data_association import (
    Association,
    AssociationResult,
    GatedAssociation,
)
from hylo_memory_ros.transforms import Transform, TransformSource

Offer = Literal['pending', 'repeated', 'late', 'refused', 'dropped']
"""Result of offering a message; all values except ``pending`` are final."""

# Publishers choose frame names freely, so the number of names that are kept must be bounded.
_FRAMES_KEPT = 256
# An input this far behind the newest stamp does not hold the watermark, seconds of stamps.
_SILENCE_S = 5.0


class IngestionPipeline:
    """Orders observations, associates them with landmarks, and collects what has to be stored.

    Parameters
    ----------
    memory : MemoryPort
        Memory that landmarks are written to; the state of an earlier run is restored from it.
    transforms : TransformSource
        Looked up once per message: ``global_frame`` from the message's frame at its stamp.
    settings : LandmarkSettings
        Inputs, gates and limits.
    map_id : str
        The current map.
    clock : callable, optional
        The node's clock, nanoseconds, 0 while it has not started; only used to refuse stamps far ahead.
    association : Association, optional
        Data association; None: gates and least total cost.
    """

    def __init__(
        self,
        memory: MemoryPort,
        transforms: TransformSource,
        settings: LandmarkSettings,
        *,
        map_id: str = '',
        clock: Callable[[], int] | None = None,
        association: Association | None = None,
    ) -> None:
        self.lock = threading.RLock()
        """Guards all state of the pipeline."""
        self.existence = ExistenceMonitor(settings)
        """Existence of the landmarks of the current map."""
        self._memory = memory
        self._settings = settings
        self._clock = clock
        self._association = association or GatedAssociation(settings)
        self._counts = {source.name: InputCounts(source.name) for source in settings.inputs}
        self._validators = {
            source.name: DetectionValidator(source, self._counts[source.name].reject)
            for source in settings.inputs
        }
        self.persistence = LandmarkPersistence(memory, settings, self._counts, self.lock)
        """State that waits for a commit."""
        self._sensor_poses = SensorPoseResolver(transforms, settings)
        self._backlog = Backlog(self._sensor_poses.resolve)
        self._never_known: set[str] = set()
        self._watermark = self._restore_watermark()
        self.landmarks = self.persistence.landmarks_of(map_id)
        """Landmarks of the current map."""
        self._base: tuple[int, Transform] | None = None
        self._localization = LocalizationGate(settings)

    def _restore_watermark(self) -> Watermark:
        window_ns = round(self._settings.reorder_window_s * 1e9)
        silence_ns = round(_SILENCE_S * 1e9)
        inputs = {source.name for source in self._settings.inputs if source.advances_watermark}
        newest_ns = {name: stamp for name, stamp in self.persistence.newest_ns().items() if name in inputs}
        return Watermark(sorted(inputs), window_ns, silence_ns, newest_ns)

    def offer(self, message: Message) -> Offer:
        """Admit a message, or return why it is not admitted; `poll` processes it."""
        with self.lock:
            counts = self._counts_of(message.input)
            reason = find_violation(message, self._settings, self._clock() if self._clock else 0)
            if reason:
                counts.reject(reason, warn=True)
                return 'refused'
            frame_id = message.frame_id if message.needs_frame else self._settings.global_frame
            message = replace(message, frame_id=normalize_frame(frame_id))
            if isinstance(message.view, OccupancyGrid):
                return self._take_grid(message, message.view, counts)
            behind = message.stamp_ns <= self._watermark.value_ns
            if message in self._backlog or (behind and self.persistence.is_consumed(message)):
                counts.repeated += 1
                counts.older_run = ''
                return 'repeated'
            if behind:
                counts.count_late(message.stamp_ns, self._watermark.value_ns)
                return 'late'
            counts.older_run = ''
            self._watermark.observe(message.input, message.stamp_ns)
            return self._admit(message, counts)

    def _take_grid(self, message: Message, grid: OccupancyGrid, counts: InputCounts) -> Offer:
        """Take an occupancy grid at once: it is sent seldom, and ordering it would wait for the next one."""
        if message.frame_id != self._settings.global_frame:
            counts.reject('bad_frame', warn=True)
            return 'refused'
        taken = self.existence.take_grid(message, grid, self._watermark.value_ns)
        if taken == 'repeated':
            counts.repeated += 1
        elif taken == 'late':
            counts.count_late(message.stamp_ns, self._watermark.value_ns)
        else:
            counts.consumed += 1
        return taken

    def _admit(self, message: Message, counts: InputCounts) -> Offer:
        if self.persistence.uncommitted + len(self._backlog) >= self._settings.uncommitted_max:
            counts.drop('not_committed')
            return 'dropped'
        self._backlog.push(message)
        if len(self._backlog) > self._settings.pending_max:
            oldest = self._backlog.first()
            assert oldest is not None
            self._drop(oldest, 'overload')
        return 'pending'

    def count_dropped(self, source: str, count: int) -> None:
        """Count messages of an input that were dropped before they were decoded."""
        with self.lock:
            self._counts_of(source).drop('overload', count)

    def count_refused(self, source: str, reason: str, count: int) -> None:
        """Count messages of an input that could not be decoded."""
        with self.lock:
            self._counts_of(source).reject(reason, count)

    def report_localization(self, stamp_ns: int, covariance: Sequence[float]) -> bool:
        """Take a localization report; return whether the pose is certain enough."""
        with self.lock:
            return self._localization.report(stamp_ns, covariance)

    def flush(self, until_ns: int | None = None) -> int:
        """Lift the watermark to a stamp; return how many messages up to it still lack a transform."""
        with self.lock:
            until_ns = self._watermark.furthest_ns if until_ns is None else until_ns
            self._watermark.advance_to(until_ns)
            self.advance()
            return self._backlog.count_until(until_ns)

    def commit(self, *, force: bool = False) -> int:
        """Store what changed in one transaction; return how many items were written."""
        while True:
            if not self.persistence.is_current:
                self._reload()
            written = self.persistence.commit(self._watermark.value_ns, force=force)
            if self.persistence.is_current:
                return written

    def _reload(self) -> None:
        """Continue from the memory after it was restored, or its map corrected, by somebody else.

        Consumed messages that were not committed depend on landmarks that no longer exist: they are
        lost, and counted.
        """
        with self.lock:
            lost = self.persistence.uncommitted_by_input()
            self.persistence.restore()
            # Counted after the stored counts were restored, which would overwrite it.
            self.drop_all('memory_replaced')
            for name, count in lost.items():
                self._counts[name].drop('memory_replaced', count)
            self._watermark = self._restore_watermark()
            self.landmarks = self.persistence.landmarks_of(self.landmarks.map_id)

    def switch_map(self, map_id: str) -> None:
        """Drop pending messages and continue in another map; call it under the lock."""
        self.drop_all('map_switched')
        self._base = None
        self.existence.forget_views()
        self.landmarks = self.persistence.landmarks_of(map_id)

    @property
    def needed_ns(self) -> int | None:
        """Stamp from which on transforms are needed still; None: all are looked up. Takes no lock."""
        return self._backlog.needed_ns

    def end_trajectory(self) -> None:
        """Add a keyframe at the newest pose of the base, so that the stored trajectory ends there."""
        with self.lock:
            if self._base is not None:
                self.landmarks.keyframes.mark(*self._base)
                self.landmarks.end_viewpoint()
                self._base = None

    def status(self) -> PipelineStatus:
        """Return counters and watermarks."""
        with self.lock:
            landmarks, confirmed = self.landmarks.counts()
            return PipelineStatus(
                watermark_ns=self._watermark.value_ns,
                inputs=tuple(self._input_status(counts) for counts in self._counts.values()),
                landmarks=landmarks,
                confirmed=confirmed,
                uncommitted=self.persistence.uncommitted,
            )

    def _input_status(self, counts: InputCounts) -> InputStatus:
        return InputStatus(
            name=counts.name,
            watermark_ns=self._watermark.of(counts.name),
            pending=self._backlog.count(counts.name),
            consumed=counts.consumed,
            dropped=counts.lost.total(),
            late=counts.late_since_start,
            repeated=counts.repeated,
            refused=dict(counts.refused),
            lost=dict(counts.lost),
            causes=dict(counts.causes),
            older_run=counts.older_run,
        )

    def _counts_of(self, source: str) -> InputCounts:
        try:
            return self._counts[source]
        except KeyError:
            raise InvalidRequestError(
                f'input: {source!r} is not declared; expected one of {sorted(self._counts)}', input=source
            ) from None

    def advance(self) -> int:
        """Process what the watermark and the transforms allow; return how many messages."""
        with self.lock:
            self._resolve()
            done = 0
            while (first := self._backlog.first()) and first.message.stamp_ns <= self._watermark.value_ns:
                if first.message.needs_frame and not self._is_localized(first.message.stamp_ns):
                    self._drop(first, 'not_localized')
                elif first.transform is not None:
                    self._consume(first, first.transform)
                    done += 1
                elif first.refusal is None:
                    # An earlier message of the same frame was looked up instead of this one.
                    self._resolve()
                elif self._has_expired(first):
                    done += self._give_up(first, first.refusal)
                else:
                    break
            return done

    def _is_localized(self, stamp_ns: int) -> bool:
        return not self._settings.localization_gate or self._localization.holds(stamp_ns)

    def _give_up(self, pending: PendingMessage, refusal: FrameError) -> int:
        """Process an expired message with the poses that are known, or drop it; return 1 or 0."""
        try:
            pending.message, sensor, pending.base = self._sensor_poses.resolve(pending.message, waited=True)
        except FrameError:
            self._drop(pending, loss_reason(refusal))
            return 0
        self._consume(pending, sensor)
        return 1

    def _resolve(self) -> None:
        for lost in self._backlog.resolve():
            self._drop(lost, 'transform_too_old')

    def _has_expired(self, pending: PendingMessage) -> bool:
        """Return whether a message has waited long enough for its transform, measured by stamps."""
        message, refusal = pending.message, pending.refusal
        never_known = isinstance(refusal, (UnknownFrameError, DisconnectedFrameError))
        if never_known and message.frame_id in self._never_known:
            # Each message of such a frame would hold up all later ones for the full wait.
            return True
        age_ns = self._watermark.furthest_ns - message.stamp_ns
        expired = age_ns > self._settings.pending_max_age_s * 1e9
        if expired and never_known and len(self._never_known) < _FRAMES_KEPT:
            self._never_known.add(message.frame_id)
        return expired

    def _consume(self, pending: PendingMessage, global_from_sensor: Transform) -> None:
        message = pending.message
        self._backlog.remove(pending)
        self._never_known.discard(message.frame_id)
        self.persistence.apply_removals()
        result = self._process(pending, global_from_sensor)
        entry = ConsumedMessage(message.stamp_ns, message.digest, result.landmarks)
        self.persistence.record(message.input, entry, [*result.items, *result.endings])
        self._counts[message.input].consumed += 1

    def _process(self, pending: PendingMessage, global_from_sensor: Transform) -> AssociationResult:
        message = pending.message
        if message.deletion is not None:
            result = delete(message, self.landmarks)
            self.persistence.add((), result.receipts)
            return result
        if message.view is not None:
            if reason := self.existence.take_view(message, global_from_sensor):
                self._counts[message.input].reject(reason, warn=True)
            return AssociationResult(np.zeros(0, dtype=np.int64), ())
        base = pending.base or self._sensor_poses.estimate_base(
            message, global_from_sensor, self.landmarks.keyframes
        )
        self._base = message.stamp_ns, base
        scan = self._validators[message.input].validate(message, global_from_sensor, base)
        result = self._association.observe(scan, self.landmarks)
        result = replace(result, items=self.keep_manual_content(result.items))
        update = self.existence.observe(scan, result, self.landmarks)
        self.persistence.add((), [*result.receipts, *update.receipts])
        if not (update.endings or update.items):
            return result
        # An end is stored before a new statement that holds from the same time.
        self.persistence.add([*result.items, *result.endings, *update.endings])
        return replace(result, items=self.keep_manual_content(update.items), endings=())

    def keep_manual_content(
        self, items: Sequence[MemoryItem], *, relabelled: bool = False
    ) -> list[MemoryItem]:
        """Return statements that keep the content of items that were written by hand."""
        return [
            keep_manual_content(item, self._memory, self.landmarks, relabelled=relabelled) for item in items
        ]

    def _drop(self, pending: PendingMessage, reason: str) -> None:
        self._backlog.remove(pending)
        refusal = pending.refusal
        cause = refusal.message if refusal is not None and reason == loss_reason(refusal) else ''
        self._counts[pending.message.input].drop(reason, cause=cause)

    def drop_all(self, reason: str) -> None:
        """Drop all pending messages and count them under a reason."""
        while (first := self._backlog.first()) is not None:
            self._drop(first, reason)
