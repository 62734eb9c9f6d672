"""The pipeline of perception, and what people and planners ask of it: edits, reports, corrections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hylo_memory_ros.model import CorrectionResult
from hylo_memory_ros.perception.corrections.trajectory import RigidCorrection, Trajectory
from hylo_memory_ros.perception.edits import Edit, Edited, edit
from hylo_memory_ros.perception.existence.absence_reports import (
    AbsenceAnswer,
    AbsenceReport,
    checked,
    found,
    named,
    taken,
)
from hylo_memory_ros.perception.ingestion.ingest import IngestionPipeline, Offer
from hylo_memory_ros.perception.status import InputCounts, InputStatus, PipelineStatus

__all__ = ['LandmarkPipeline', 'Offer']


class LandmarkPipeline(IngestionPipeline):
    """Ingestion with edits by hand, reports of absence and map corrections.

    Its parameters are those of `IngestionPipeline`. All methods may be called from any thread.
    """

    def report_absent(self, report: AbsenceReport) -> AbsenceAnswer:
        """Take the report that something was looked for and not found, and commit what follows.

        Raises
        ------
        InvalidRequestError
            If it makes no sense, or nothing that it is about is remembered.
        """
        checked(report)
        self.commit()
        with self._lock:
            hits = found(self._memory, report, self._settings.global_frame, self._book.map_id)
            absence = self._existence.absence
            answer, endings, receipt = taken(report, hits, self._book, absence, self._settings)
            self._journal.tell(self._ended(endings), [receipt])
        self.commit(force=True)
        return answer

    def on_clock_jump(self) -> None:
        """Finish what can be resolved and drop the rest, before transforms are cleared."""
        with self._lock:
            self.flush()
            self._drop_all('clock_jump')
            self._existence.forget_images()

    def set_map(self, map_id: str) -> None:
        """Finish or drop pending work, then go on in another map."""
        with self._lock:
            self.flush()
            self._drop_all('map_switched')
            self._base = None
            self._existence.forget_views()
            self._book = self._journal.book(map_id)

    def edit(self, request: Edit) -> Edited:
        """Change landmarks of the current map by hand; `commit` stores it.

        Everything received before that can be processed is processed first.

        Returns
        -------
        Edited
            What it left, what is written and ended with it, and its receipt.

        Raises
        ------
        NotFoundError
            If a key is that of no landmark of the map.
        InvalidRequestError
            If the request has no meaning.
        """
        with self._lock:
            self._advance()
            self._journal.notice_removals()
            edited = edit(request, self._book, self._settings)
            edited.items = self._as_written(edited.items, relabelled=bool(request.label))
            self._journal.tell([*edited.items, *self._ended(edited.endings)], edited.receipts)
            return edited

    def named(self, names: Sequence[str]) -> list[str]:
        """Return the keys of landmarks that are named by key or by id; what was written by hand becomes one.

        Raises
        ------
        NotFoundError
            If nothing of that name is remembered in the current map.
        """
        self.commit(force=True)
        with self._lock:
            frame_id, absence = self._settings.global_frame, self._existence.absence
            return named(self._memory, names, self._book, absence, frame_id)

    def held_in(self, key: str) -> str:
        """Return the frame that a landmark is held in; empty: none is known."""
        with self._lock:
            row = self._book.row_of(key)
            return '' if row is None else self._book.held_in.get(row, '')

    def receipt(self, receipt_id: str) -> dict[str, Any] | None:
        """Return the receipt of a recent decision as a JSON object; None: it is no longer kept here.

        Those of decisions that changed what is stored are in the memory: `MemoryService.receipt`.
        """
        with self._lock:
            self._journal.notice_removals()
            found = self._journal.recent.get(receipt_id)
            return None if found is None else found.as_dict()

    def correct(
        self,
        correction: RigidCorrection | Trajectory,
        *,
        map_id: str | None = None,
        actor: str = '',
        dry_run: bool = False,
    ) -> CorrectionResult:
        """Move a map, the current one unless named, and go on with its landmarks as that leaves them.

        Everything received before that can be processed is processed and committed first.

        Raises
        ------
        HyloMemoryError
            As the memory refuses; nothing is changed then.
        """
        return self._moved(
            lambda: self._memory.correct_map(
                correction, map_id=map_id, landmarks=self._settings, actor=actor, dry_run=dry_run
            )
        )

    def revert(self, correction_id: str, *, actor: str = '', dry_run: bool = False) -> CorrectionResult:
        """Take a correction back, and go on with the landmarks as that leaves them."""
        return self._moved(
            lambda: self._memory.revert_correction(
                correction_id, landmarks=self._settings, actor=actor, dry_run=dry_run
            )
        )

    def _moved(self, move: Callable[[], CorrectionResult]) -> CorrectionResult:
        self.flush()
        with self._lock:
            if self._base is not None:
                # The trajectory is known up to here, not only to where its last keyframe began.
                self._book.keyframes.mark(*self._base)
                self._book.turn_over()
                self._base = None
        while True:
            self.commit(force=True)
            with self._journal.alone() as is_stored:
                if not is_stored:
                    continue
                result = move()
                if result.sequence:
                    self._journal.restore()
                    self._book = self._journal.book(self._book.map_id)
                return result

    def status(self) -> PipelineStatus:
        """Return counters and watermarks."""
        with self._lock:
            landmarks, confirmed = self._book.counts()
            return PipelineStatus(
                watermark_ns=self._watermark.value_ns,
                inputs=tuple(self._input_status(counts) for counts in self._counts.values()),
                landmarks=landmarks,
                confirmed=confirmed,
                uncommitted=self._journal.uncommitted,
            )

    def _input_status(self, counts: InputCounts) -> InputStatus:
        return InputStatus(
            name=counts.name,
            watermark_ns=self._watermark.of(counts.name),
            pending=self._backlog.count(counts.name),
            consumed=counts.consumed,
            dropped=counts.dropped,
            late=counts.late,
            repeated=counts.repeated,
            refused=dict(counts.refused),
            lost=dict(counts.lost),
        )
