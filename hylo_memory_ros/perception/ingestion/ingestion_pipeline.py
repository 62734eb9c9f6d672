"""From messages to landmarks: admission, order, and what follows from each message.

Threads: one lock guards all state and is held for as long as a message takes, but not while the
database writes. The memory may be asked with the lock held, so its listeners, which run under
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
from hylo_memory_ros.model import MemoryItem, normal_frame
from hylo_memory_ros.perception.edits import delete, keep_manual_content
from hylo_memory_ros.perception.existence.existence_monitor import ExistenceMonitor
from hylo_memory_ros.perception.existence.visibility import OccupancyGrid
from hylo_memory_ros.perception.ingestion.observation import Message
from hylo_memory_ros.perception.ingestion.sensor_pose import LocalisationGate, SensorPoseResolver, loss_reason
from hylo_memory_ros.perception.ingestion.validation import DetectionValidator, find_violation
from hylo_memory_ros.perception.ingestion.watermark import Backlog, PendingMessage, Watermark
from hylo_memory_ros.perception.map.persistence import ConsumedMessage, LandmarkPersistence
from hylo_memory_ros.perception.port import MemoryPort
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.status import InputCounts
from hylo_memory_ros.perception.tracking.data_association import (
    Association,
    AssociationResult,
    GatedAssociation,
)
from hylo_memory_ros.perception.tracking.data_association import Ending as LandmarkEnding
from hylo_memory_ros.storage.statements.removal import Ending
from hylo_memory_ros.transforms import Transform, TransformSource

__all__ = ['IngestionPipeline', 'LocalisationGate', 'Offer', 'find_violation']


Offer = Literal['pending', 'repeated', 'late', 'refused', 'dropped']
"""What became of an offered message; all but ``pending`` are final."""

# Frame names come from outside; what is remembered of them must not grow without end.
_FRAMES_KEPT = 256


class IngestionPipeline:
    """Orders observations, associates them with landmarks, and writes what changed.

    Parameters
    ----------
    memory : MemoryPort
        The memory that landmarks are written to (`MemoryService`); what an earlier pipeline left
        in it is restored.
    transforms : TransformSource
        Asked once per message for ``global_frame`` from the message's frame at its stamp.
    settings : LandmarkSettings
        Inputs, gates, limits.
    map_id : str
        The current map.
    clock : callable, optional
        The node's clock, nanoseconds, 0 while it has not started; only to refuse stamps far ahead.
    association : Association, optional
        Who decides which landmark it is; None: by gates and least cost.

    Notes
    -----
    All methods may be called from any thread, and none waits for anything but the memory. State
    follows from the messages alone: when `poll`, `on_transforms` and `commit` are called does not
    change it.
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
        self._memory = memory
        self._settings = settings
        self._clock = clock
        self._association = association or GatedAssociation(settings)
        self._lock = threading.RLock()
        self._counts = {source.name: InputCounts(source.name) for source in settings.inputs}
        self._validators = {
            source.name: DetectionValidator(source, self._counts[source.name].reject)
            for source in settings.inputs
        }
        self._persistence = LandmarkPersistence(memory, settings, self._counts, self._lock)
        self._sensor_poses = SensorPoseResolver(transforms, settings)
        self._existence = ExistenceMonitor(settings)
        self._backlog = Backlog(self._sensor_poses.resolve)
        self._never_known: set[str] = set()
        self._watermark = self._first_watermark()
        self._landmarks = self._persistence.landmarks(map_id)
        self._base: tuple[int, Transform] | None = None
        self._localisation = LocalisationGate(settings)

    def _first_watermark(self) -> Watermark:
        window_ns = round(self._settings.reorder_window_s * 1e9)
        silence_ns = round(self._settings.silence_s * 1e9)
        waited_for = {source.name for source in self._settings.inputs if source.advances_watermark}
        newest_ns = {
            name: stamp for name, stamp in self._persistence.newest_ns().items() if name in waited_for
        }
        return Watermark(sorted(waited_for), window_ns, silence_ns, newest_ns)

    def offer(self, message: Message) -> Offer:
        """Take a message, or say why not; processing is left to `poll`.

        Raises
        ------
        InvalidRequestError
            If no input of that name is declared.
        """
        with self._lock:
            counts = self._counts_of(message.input)
            reason = find_violation(message, self._settings, self._clock() if self._clock else 0)
            if reason:
                counts.reject(reason)
                return 'refused'
            frame_id = message.frame_id if message.needs_frame else self._settings.global_frame
            message = replace(message, frame_id=normal_frame(frame_id))
            if isinstance(message.view, OccupancyGrid):
                return self._take_grid(message, message.view, counts)
            behind = message.stamp_ns <= self._watermark.value_ns
            if message in self._backlog or (behind and self._is_consumed(message)):
                counts.repeated += 1
                return 'repeated'
            if behind:
                counts.count_late()
                return 'late'
            self._watermark.observe(message.input, message.stamp_ns)
            return self._admit(message, counts)

    def _take_grid(self, message: Message, grid: OccupancyGrid, counts: InputCounts) -> Offer:
        """Take a map as it comes: it is sent once, and what is waited for would wait for the next one."""
        if message.frame_id != self._settings.global_frame:
            counts.reject('bad_frame')
            return 'refused'
        taken = self._existence.take_grid(message, grid, self._watermark.value_ns)
        if taken == 'repeated':
            counts.repeated += 1
        elif taken == 'late':
            counts.count_late()
        else:
            counts.consumed += 1
        return taken

    def _is_consumed(self, message: Message) -> bool:
        return self._persistence.holds(message.input, message.stamp_ns, message.digest)

    def _admit(self, message: Message, counts: InputCounts) -> Offer:
        if self._persistence.uncommitted + len(self._backlog) >= self._settings.uncommitted_max:
            counts.drop('not_committed')
            return 'dropped'
        self._backlog.push(message)
        if len(self._backlog) > self._settings.pending_max:
            oldest = self._backlog.first()
            assert oldest is not None
            self._drop(oldest, 'overload')
        return 'pending'

    def note_dropped(self, source: str, count: int = 1) -> None:
        """Count messages of an input that were dropped before they were decoded."""
        with self._lock:
            self._counts_of(source).drop('overload', count)

    def note_refused(self, source: str, reason: str, count: int = 1) -> None:
        """Count messages of an input that could not be decoded."""
        with self._lock:
            self._counts_of(source).reject(reason, count)

    def note_localisation(self, stamp_ns: int, covariance: Sequence[float]) -> bool:
        """Take a report of how sure the robot's pose is; return whether that is good enough.

        With ``localisation_gate`` messages are dropped unless the newest report before them is.

        Parameters
        ----------
        covariance : sequence of float, length 36
            Row-major, in the global frame; unknown ones are not good enough.
        """
        with self._lock:
            return self._localisation.report(stamp_ns, covariance)

    def _is_localised(self, stamp_ns: int) -> bool:
        return not self._settings.localisation_gate or self._localisation.holds(stamp_ns)

    def poll(self) -> int:
        """Process what the watermark and the transforms allow; return how many messages."""
        with self._lock:
            return self._advance()

    def on_transforms(self) -> int:
        """Do the same after transforms have arrived; for `TransformSource.on_change`."""
        return self.poll()

    def flush(self, until_ns: int | None = None) -> int:
        """Lift the watermark to a stamp, at most to the newest received; None: to that one.

        Returns
        -------
        int
            Messages up to there that still wait for a transform.
        """
        with self._lock:
            until_ns = self._watermark.furthest_ns if until_ns is None else until_ns
            self._watermark.advance_to(until_ns)
            self._advance()
            return self._backlog.count_until(until_ns)

    def commit(self, *, force: bool = False) -> int:
        """Store what changed in one group transaction; return how many items were written.

        What is only statistics waits until stamps have advanced by ``statistics_interval_s``,
        unless forced. When the memory refuses, the error is raised and nothing is lost: the next
        commit tries again.
        """
        while True:
            if not self._persistence.is_current:
                self._begin_again()
            written = self._persistence.commit(self._watermark.value_ns, force=force)
            if self._persistence.is_current:
                return written

    def _begin_again(self) -> None:
        """Go on with what the memory holds since it was restored, or its map corrected, by somebody else.

        What was consumed and not committed follows from landmarks that are no more: it is lost, and counted.
        """
        with self._lock:
            self._drop_all('memory_replaced')
            lost = self._persistence.uncommitted_of_each()
            self._persistence.restore()
            for name, count in lost.items():
                self._counts[name].drop('memory_replaced', count)
            self._watermark = self._first_watermark()
            self._landmarks = self._persistence.landmarks(self._landmarks.map_id)

    def close(self) -> None:
        """Process everything received whose transform is known, and commit it; may be repeated."""
        self.flush()
        self.commit(force=True)

    def _counts_of(self, source: str) -> InputCounts:
        try:
            return self._counts[source]
        except KeyError:
            raise InvalidRequestError(
                f'input: {source!r} is not declared; there are {sorted(self._counts)}', input=source
            ) from None

    def _advance(self) -> int:
        self._resolve()
        done = 0
        while (first := self._backlog.first()) and first.message.stamp_ns <= self._watermark.value_ns:
            if first.message.needs_frame and not self._is_localised(first.message.stamp_ns):
                self._drop(first, 'not_localised')
            elif first.transform is not None:
                self._consume(first, first.transform)
                done += 1
            elif first.refusal is None:
                # Not asked for yet: one of its frame waited before it.
                self._resolve()
            elif self._is_over(first):
                done += self._given_up(first, first.refusal)
            else:
                break
        return done

    def _given_up(self, waiting: PendingMessage, refusal: FrameError) -> int:
        """Take what is known of a message that waits no longer, or drop it; return how many were taken."""
        try:
            waiting.message, sensor, waiting.base = self._sensor_poses.resolve(waiting.message, waited=True)
        except FrameError:
            self._drop(waiting, loss_reason(refusal))
            return 0
        self._consume(waiting, sensor)
        return 1

    def _resolve(self) -> None:
        for lost in self._backlog.resolve():
            self._drop(lost, 'transform_too_old')

    def _is_over(self, waiting: PendingMessage) -> bool:
        """Return whether a message has waited long enough for its transform, by stamps."""
        message, refusal = waiting.message, waiting.refusal
        never_known = isinstance(refusal, (UnknownFrameError, DisconnectedFrameError))
        if never_known and message.frame_id in self._never_known:
            # Everything behind it in the order would wait with each message of such a frame.
            return True
        age_ns = self._watermark.furthest_ns - message.stamp_ns
        over = age_ns > self._settings.pending_max_age_s * 1e9
        if over and never_known and len(self._never_known) < _FRAMES_KEPT:
            self._never_known.add(message.frame_id)
        return over

    def _consume(self, waiting: PendingMessage, global_from_sensor: Transform) -> None:
        message = waiting.message
        self._backlog.take(waiting)
        self._never_known.discard(message.frame_id)
        self._persistence.notice_removals()
        outcome = self._outcome(waiting, global_from_sensor)
        entry = ConsumedMessage(message.stamp_ns, message.digest, outcome.landmarks)
        self._persistence.record(message.input, entry, [*outcome.items, *self._ended(outcome.endings)])
        self._counts[message.input].consumed += 1

    def _outcome(self, waiting: PendingMessage, global_from_sensor: Transform) -> AssociationResult:
        message = waiting.message
        if message.deletion is not None:
            outcome = delete(message, self._landmarks)
            self._persistence.tell((), outcome.receipts)
            return outcome
        if message.view is not None:
            self._existence.take_view(message, global_from_sensor)
            return AssociationResult(np.zeros(0, dtype=np.int64), ())
        base = waiting.base or self._sensor_poses.estimate_base(
            message, global_from_sensor, self._landmarks.keyframes
        )
        self._base = message.stamp_ns, base
        scan = self._validators[message.input].validate(message, global_from_sensor, base)
        outcome = self._association.observe(scan, self._landmarks)
        outcome = replace(outcome, items=self._keep_manual_content(outcome.items))
        self._persistence.tell((), outcome.receipts)
        follows = self._existence.observe(scan, outcome, self._landmarks)
        self._persistence.tell((), follows.receipts)
        if not (follows.endings or follows.items):
            return outcome
        # An end comes before what is said anew from the same time on.
        self._persistence.tell([*outcome.items, *self._ended([*outcome.endings, *follows.endings])])
        return replace(outcome, items=self._keep_manual_content(follows.items), endings=())

    def _keep_manual_content(
        self, items: Sequence[MemoryItem], *, relabelled: bool = False
    ) -> list[MemoryItem]:
        return [
            keep_manual_content(item, self._memory, self._landmarks, relabelled=relabelled) for item in items
        ]

    def _ended(self, endings: Sequence[LandmarkEnding]) -> list[Ending]:
        map_id = self._landmarks.map_id
        return [Ending(one.key, one.at_ns, map_id, one.reason, one.merged_into) for one in endings]

    def _drop(self, waiting: PendingMessage, reason: str) -> None:
        self._backlog.take(waiting)
        self._counts[waiting.message.input].drop(reason)

    def _drop_all(self, reason: str) -> None:
        while (first := self._backlog.first()) is not None:
            self._drop(first, reason)
