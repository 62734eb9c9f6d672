"""From messages to landmarks: admission, order, and what follows from each message.

Threads: one lock guards all state and is held for as long as a message takes, but not while the
database writes. The memory may be asked with the lock held, so its listeners, which run under
its own lock, must not call a pipeline.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_right, insort
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
from hylo_memory_ros.model import MAX_STAMP_NS, MemoryItem, normal_frame
from hylo_memory_ros.model.pose import sound_covariance
from hylo_memory_ros.perception.edits import delete
from hylo_memory_ros.perception.existence.existence_filter import Existence
from hylo_memory_ros.perception.existence.visibility import GridView
from hylo_memory_ros.perception.ingestion.deduplication import Entry
from hylo_memory_ros.perception.ingestion.observation import Message
from hylo_memory_ros.perception.ingestion.sensor_pose import Locator, reason_of
from hylo_memory_ros.perception.ingestion.validation import Screen
from hylo_memory_ros.perception.ingestion.watermark import Backlog, Waiting, Watermark
from hylo_memory_ros.perception.manual_items import as_written
from hylo_memory_ros.perception.map.persistence import LandmarkPersistence
from hylo_memory_ros.perception.port import MemoryPort
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.status import InputCounts
from hylo_memory_ros.perception.tracking.data_association import Association, GatedAssociation, Outcome
from hylo_memory_ros.perception.tracking.data_association import Ending as LandmarkEnding
from hylo_memory_ros.storage.statements.removal import Ending
from hylo_memory_ros.transforms import Transform, TransformSource

__all__ = ['IngestionPipeline', 'Localisation', 'Offer', 'broken_rule']

# A message stamped further ahead of the clock is refused: a single one would make all others late.
_MAX_AHEAD_S = 3600.0
# An input this far behind the furthest is not waited for until its next message, seconds of stamps.
_SILENCE_S = 5.0


def broken_rule(message: Message, settings: LandmarkSettings, now_ns: int) -> str:
    """Return the name of the rule that a message breaks; empty: none.

    Parameters
    ----------
    now_ns : int
        The clock, nanoseconds; 0: it has not started.
    """
    stamp_ns = message.stamp_ns
    if stamp_ns == 0:
        return 'zero_stamp'
    if not 0 < stamp_ns <= MAX_STAMP_NS:
        return 'bad_stamp'
    if stamp_ns < settings.min_valid_stamp_s * 1e9:
        return 'before_min_valid_stamp'
    if now_ns and stamp_ns > now_ns + _MAX_AHEAD_S * 1e9:
        return 'ahead_of_clock'
    if message.needs_frame:
        try:
            normal_frame(message.frame_id)
        except ValueError:
            return 'bad_frame'
    return ''


# As long as messages may wait for their transforms; older reports are asked for no more.
_REPORTS_KEPT = 10_000


class Localisation:
    """Reports of how sure localisation was; at each stamp the newest one before it holds.

    Parameters
    ----------
    settings : LandmarkSettings
        What is sure enough.

    Examples
    --------
    >>> known = Localisation(LandmarkSettings(localised_within_m=0.5))
    >>> def sure(sigma_m):
    ...     return [sigma_m**2 if place in (0, 7) else 0.0 for place in range(36)]
    >>> known.report(10, sure(2.0)), known.report(20, sure(0.1))
    (False, True)
    >>> [known.holds(stamp_ns) for stamp_ns in (5, 15, 20, 99)]
    [False, False, True, True]
    """

    def __init__(self, settings: LandmarkSettings) -> None:
        self._within_m = settings.localised_within_m
        self._within_rad = settings.localised_within_rad
        self._reports: list[tuple[int, bool]] = []

    def report(self, stamp_ns: int, covariance: Sequence[float]) -> bool:
        """Take a report, and return whether it is good enough.

        Parameters
        ----------
        stamp_ns : int
            When it was so, nanoseconds.
        covariance : sequence of float, length 36
            Of the robot's pose in the global frame, row-major; all zeros, or what is none: unknown.
        """
        sound = sound_covariance(covariance)
        good = sound is not None and self._is_sure(sound)
        insort(self._reports, (stamp_ns, good))
        del self._reports[:-_REPORTS_KEPT]
        return good

    def holds(self, stamp_ns: int) -> bool:
        """Return whether the robot knew where it was at a stamp."""
        place = bisect_right(self._reports, (stamp_ns, True))
        return place > 0 and self._reports[place - 1][1]

    def _is_sure(self, covariance: Sequence[float]) -> bool:
        matrix = np.reshape(covariance, (6, 6))
        widest = float(np.linalg.eigvalsh(matrix[:2, :2])[-1])
        return math.sqrt(max(widest, 0.0)) <= self._within_m and math.sqrt(matrix[5, 5]) <= self._within_rad


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
        self._screens = {
            source.name: Screen(source, self._counts[source.name].refuse) for source in settings.inputs
        }
        self._journal = LandmarkPersistence(memory, settings, self._counts, self._lock)
        self._locator = Locator(transforms, settings)
        self._existence = Existence(settings)
        self._backlog = Backlog(self._locator.look_up)
        self._never_known: set[str] = set()
        self._watermark = self._first_watermark()
        self._book = self._journal.book(map_id)
        self._base: tuple[int, Transform] | None = None
        self._localisation = Localisation(settings)

    def _first_watermark(self) -> Watermark:
        window_ns = round(self._settings.reorder_window_s * 1e9)
        silence_ns = round(_SILENCE_S * 1e9)
        waited_for = {source.name for source in self._settings.inputs if source.is_waited_for}
        newest_ns = {name: stamp for name, stamp in self._journal.newest_ns().items() if name in waited_for}
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
            reason = broken_rule(message, self._settings, self._clock() if self._clock else 0)
            if reason:
                counts.refuse(reason)
                return 'refused'
            frame_id = message.frame_id if message.needs_frame else self._settings.global_frame
            message = replace(message, frame_id=normal_frame(frame_id))
            if isinstance(message.view, GridView):
                return self._take_grid(message, message.view, counts)
            behind = message.stamp_ns <= self._watermark.value_ns
            if message in self._backlog or (behind and self._is_consumed(message)):
                counts.repeated += 1
                return 'repeated'
            if behind:
                counts.miss()
                return 'late'
            self._watermark.hear(message.input, message.stamp_ns)
            return self._admit(message, counts)

    def _take_grid(self, message: Message, grid: GridView, counts: InputCounts) -> Offer:
        """Take a map as it comes: it is sent once, and what is waited for would wait for the next one."""
        if message.frame_id != self._settings.global_frame:
            counts.refuse('bad_frame')
            return 'refused'
        taken = self._existence.take_grid(message, grid, self._watermark.value_ns)
        if taken == 'repeated':
            counts.repeated += 1
        elif taken == 'late':
            counts.miss()
        else:
            counts.consumed += 1
        return taken

    def _is_consumed(self, message: Message) -> bool:
        return self._journal.holds(message.input, message.stamp_ns, message.digest)

    def _admit(self, message: Message, counts: InputCounts) -> Offer:
        if self._journal.uncommitted + len(self._backlog) >= self._settings.uncommitted_max:
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
            self._counts_of(source).refuse(reason, count)

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
            self._watermark.lift(until_ns)
            self._advance()
            return self._backlog.count_until(until_ns)

    def commit(self, *, force: bool = False) -> int:
        """Store what changed in one group transaction; return how many items were written.

        What is only statistics waits until stamps have advanced by ``statistics_interval_s``,
        unless forced. When the memory refuses, the error is raised and nothing is lost: the next
        commit tries again.
        """
        while True:
            if not self._journal.is_current:
                self._begin_again()
            written = self._journal.commit(self._watermark.value_ns, force=force)
            if self._journal.is_current:
                return written

    def _begin_again(self) -> None:
        """Go on with what the memory holds since it was restored, or its map corrected, by somebody else.

        What was consumed and not committed follows from landmarks that are no more: it is lost, and counted.
        """
        with self._lock:
            self._drop_all('memory_replaced')
            lost = self._journal.uncommitted_of_each()
            self._journal.restore()
            for name, count in lost.items():
                self._counts[name].drop('memory_replaced', count)
            self._watermark = self._first_watermark()
            self._book = self._journal.book(self._book.map_id)

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

    def _given_up(self, waiting: Waiting, refusal: FrameError) -> int:
        """Take what is known of a message that waits no longer, or drop it; return how many were taken."""
        try:
            waiting.message, sensor, waiting.base = self._locator.look_up(waiting.message, waited=True)
        except FrameError:
            self._drop(waiting, reason_of(refusal))
            return 0
        self._consume(waiting, sensor)
        return 1

    def _resolve(self) -> None:
        for lost in self._backlog.resolve():
            self._drop(lost, 'transform_too_old')

    def _is_over(self, waiting: Waiting) -> bool:
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

    def _consume(self, waiting: Waiting, global_from_sensor: Transform) -> None:
        message = waiting.message
        self._backlog.take(waiting)
        self._never_known.discard(message.frame_id)
        self._journal.notice_removals()
        outcome = self._outcome(waiting, global_from_sensor)
        entry = Entry(message.stamp_ns, message.digest, outcome.landmarks)
        self._journal.record(message.input, entry, [*outcome.items, *self._ended(outcome.endings)])
        self._counts[message.input].consumed += 1

    def _outcome(self, waiting: Waiting, global_from_sensor: Transform) -> Outcome:
        message = waiting.message
        if message.deletion is not None:
            outcome = delete(message, self._book)
            self._journal.tell((), outcome.receipts)
            return outcome
        if message.view is not None:
            self._existence.take_view(message, global_from_sensor)
            return Outcome(np.zeros(0, dtype=np.int64), ())
        base = waiting.base or self._locator.stand_in(message, global_from_sensor, self._book.keyframes)
        self._base = message.stamp_ns, base
        scan = self._screens[message.input].scan(message, global_from_sensor, base)
        outcome = self._association.observe(scan, self._book)
        outcome = replace(outcome, items=self._as_written(outcome.items))
        self._journal.tell((), outcome.receipts)
        follows = self._existence.observe(scan, outcome, self._book)
        self._journal.tell((), follows.receipts)
        if not (follows.endings or follows.items):
            return outcome
        # An end comes before what is said anew from the same time on.
        self._journal.tell([*outcome.items, *self._ended([*outcome.endings, *follows.endings])])
        return replace(outcome, items=self._as_written(follows.items), endings=())

    def _as_written(self, items: Sequence[MemoryItem], *, relabelled: bool = False) -> list[MemoryItem]:
        return [as_written(item, self._memory, self._book, relabelled=relabelled) for item in items]

    def _ended(self, endings: Sequence[LandmarkEnding]) -> list[Ending]:
        map_id = self._book.map_id
        return [Ending(one.key, one.at_ns, map_id, one.reason, one.merged_into) for one in endings]

    def _drop(self, waiting: Waiting, reason: str) -> None:
        self._backlog.take(waiting)
        self._counts[waiting.message.input].drop(reason)

    def _drop_all(self, reason: str) -> None:
        while (first := self._backlog.first()) is not None:
            self._drop(first, reason)
