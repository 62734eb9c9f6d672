"""Landmark pipeline: ingestion of observations, edits, absence reports and map corrections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hylo_memory_ros.model import CorrectionResult
from hylo_memory_ros.perception.corrections.trajectory import RigidCorrection, Trajectory
from hylo_memory_ros.perception.edits import Edit, Edited, edit
from hylo_memory_ros.perception.existence.absence_reports import (
    AbsenceAnswer,
    AbsenceReport,
    apply_report,
    find_items,
    resolve_keys,
    validate_report,
)
from hylo_memory_ros.perception.ingestion.ingestion_pipeline import IngestionPipeline, Offer
from hylo_memory_ros.perception.ingestion.observation import Message
from hylo_memory_ros.perception.port import MemoryPort
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.status import PipelineStatus
from hylo_memory_ros.perception.tracking.data_association import Association
from hylo_memory_ros.transforms import TransformSource


class LandmarkPipeline:
    """Turns observations into landmarks, and applies edits, absence reports and map corrections.

    Parameters
    ----------
    memory : MemoryPort
        Memory that landmarks are written to (`MemoryService`); the state of an earlier pipeline is
        restored from it.
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

    Notes
    -----
    All methods may be called from any thread, and none waits for anything but the memory. State
    depends on the messages alone: the times at which `poll`, `on_transforms` and `commit` are called
    do not change it.
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
        self._ingestion = IngestionPipeline(
            memory, transforms, settings, map_id=map_id, clock=clock, association=association
        )
        self._lock = self._ingestion.lock
        self._persistence = self._ingestion.persistence

    def offer(self, message: Message) -> Offer:
        """Admit a message, or return why it is not admitted; processing is left to `poll`.

        Raises
        ------
        InvalidRequestError
            If no input of that name is declared.
        """
        return self._ingestion.offer(message)

    def note_dropped(self, source: str, count: int = 1) -> None:
        """Count messages of an input that were dropped before they were decoded."""
        self._ingestion.count_dropped(source, count)

    def note_refused(self, source: str, reason: str, count: int = 1) -> None:
        """Count messages of an input that could not be decoded."""
        self._ingestion.count_refused(source, reason, count)

    def note_localization(self, stamp_ns: int, covariance: Sequence[float]) -> bool:
        """Take a report of the uncertainty of the robot's pose; return whether it is small enough.

        With ``localization_gate`` messages are dropped unless the newest report before them is good.

        Parameters
        ----------
        covariance : sequence of float, length 36
            Row-major, in the global frame; an unknown one is not good enough.
        """
        return self._ingestion.report_localization(stamp_ns, covariance)

    def poll(self) -> int:
        """Process what the watermark and the transforms allow; return how many messages."""
        return self._ingestion.advance()

    def on_transforms(self) -> int:
        """Poll after transforms have arrived; for `TransformSource.on_change`."""
        return self._ingestion.advance()

    def flush(self, until_ns: int | None = None) -> int:
        """Lift the watermark to a stamp, at most to the newest received; None: to that one.

        Returns
        -------
        int
            Messages up to there that still wait for a transform.
        """
        return self._ingestion.flush(until_ns)

    def commit(self, *, force: bool = False) -> int:
        """Store what changed in one group transaction; return how many items were written.

        Mere statistics wait until stamps have advanced by ``statistics_interval_s``, unless forced.
        When the memory refuses, the error is raised and nothing is lost: the next commit tries again.
        """
        return self._ingestion.commit(force=force)

    def close(self) -> None:
        """Process everything received whose transform is known, and commit it; may be repeated."""
        self.flush()
        self.commit(force=True)

    def report_absent(self, report: AbsenceReport) -> AbsenceAnswer:
        """Apply a report that something was looked for and not found, and commit the consequences.

        Raises
        ------
        InvalidRequestError
            If the report is inconsistent.
        NotFoundError
            If no remembered item matches it.
        """
        validate_report(report)
        self.commit()
        with self._lock:
            landmarks, existence = self._ingestion.landmarks, self._ingestion.existence.filter
            hits = find_items(self._memory, report, self._settings.global_frame, landmarks.map_id)
            answer, endings, receipt = apply_report(report, hits, landmarks, existence, self._settings)
            self._persistence.add(endings, [receipt])
        self.commit(force=True)
        return answer

    def on_clock_jump(self) -> None:
        """Finish what can be resolved and drop the rest, before transforms are cleared."""
        with self._lock:
            self.flush()
            self._ingestion.drop_all('clock_jump')
            self._ingestion.existence.forget_images()

    def set_map(self, map_id: str) -> None:
        """Finish or drop pending messages, then continue in another map."""
        with self._lock:
            self.flush()
            self._ingestion.switch_map(map_id)

    def edit(self, request: Edit) -> Edited:
        """Change landmarks of the current map by hand; `commit` stores it.

        Messages received before that can be processed are processed first.

        Returns
        -------
        Edited
            The remaining landmarks, the statements and endings that follow, and the receipt.

        Raises
        ------
        NotFoundError
            If a key names no landmark of the map.
        InvalidRequestError
            If the request is inconsistent.
        """
        with self._lock:
            self._ingestion.advance()
            self._persistence.apply_removals()
            edited = edit(request, self._ingestion.landmarks, self._settings)
            edited.items = self._ingestion.keep_manual_content(edited.items, relabelled=bool(request.label))
            self._persistence.add([*edited.items, *edited.endings], edited.receipts)
            return edited

    def resolve_keys(self, names: Sequence[str]) -> list[str]:
        """Return the keys of landmarks named by key or id; an item written by hand becomes a landmark.

        Raises
        ------
        NotFoundError
            If a name matches no item of the current map.
        """
        self.commit(force=True)
        with self._lock:
            landmarks, existence = self._ingestion.landmarks, self._ingestion.existence.filter
            return resolve_keys(self._memory, names, landmarks, existence, self._settings.global_frame)

    def held_in(self, key: str) -> str:
        """Return the frame that a landmark is held in; empty: none is known."""
        with self._lock:
            landmarks = self._ingestion.landmarks
            row = landmarks.row_of(key)
            return '' if row is None else landmarks.held_in.get(row, '')

    def receipt(self, receipt_id: str) -> dict[str, Any] | None:
        """Return the receipt of a recent decision as a JSON object; None: it is no longer kept here.

        Receipts of decisions that changed stored state are in the memory: `MemoryService.receipt`.
        """
        with self._lock:
            self._persistence.apply_removals()
            receipt = self._persistence.recent.get(receipt_id)
            return None if receipt is None else receipt.as_dict()

    def correct(
        self,
        correction: RigidCorrection | Trajectory,
        *,
        map_id: str | None = None,
        actor: str = '',
        dry_run: bool = False,
    ) -> CorrectionResult:
        """Correct a map, the current one unless named, and continue with its corrected landmarks.

        Messages received before that can be processed are processed and committed first.

        Raises
        ------
        HyloMemoryError
            As raised by the memory; nothing is changed then.
        """
        return self._run_correction(
            lambda: self._memory.correct_map(
                correction, map_id=map_id, landmarks=self._settings, actor=actor, dry_run=dry_run
            )
        )

    def revert(self, correction_id: str, *, actor: str = '', dry_run: bool = False) -> CorrectionResult:
        """Revert a correction, and continue with the reverted landmarks."""
        return self._run_correction(
            lambda: self._memory.revert_correction(
                correction_id, landmarks=self._settings, actor=actor, dry_run=dry_run
            )
        )

    def _run_correction(self, correct: Callable[[], CorrectionResult]) -> CorrectionResult:
        self.flush()
        # The stored trajectory must reach to the newest pose, not only to its last keyframe.
        self._ingestion.end_trajectory()
        while True:
            self.commit(force=True)
            with self._persistence.exclusive() as is_stored:
                if not is_stored:
                    continue
                result = correct()
                if result.sequence:
                    self._persistence.restore()
                    map_id = self._ingestion.landmarks.map_id
                    self._ingestion.landmarks = self._persistence.landmarks_of(map_id)
                return result

    @property
    def needed_ns(self) -> int | None:
        """Stamp from which on transforms are needed still, nanoseconds; None: none are. Takes no lock."""
        return self._ingestion.needed_ns

    def status(self) -> PipelineStatus:
        """Return counters and watermarks."""
        return self._ingestion.status()
