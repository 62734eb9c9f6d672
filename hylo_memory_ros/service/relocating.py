"""What moves a whole map, and puts it back."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from hylo_memory_ros.landmarks.settings import LandmarkSettings
from hylo_memory_ros.model import (
    CorrectionResult,
)
from hylo_memory_ros.service.correcting import Moving, Plan, corrected, reverted
from hylo_memory_ros.service.parts import Parts
from hylo_memory_ros.service.sound import refuse_unsound, sound_name

__all__ = ['Relocating']


class Relocating(Parts):
    """The operations of a memory that follow a map which moved."""

    def correct_map(
        self,
        correction: Moving,
        *,
        map_id: str | None = None,
        landmarks: LandmarkSettings | None = None,
        actor: str = '',
        dry_run: bool = False,
    ) -> CorrectionResult:
        """Move all that is remembered in a map: what is believed changes, not what was true when.

        Every version keeps its id and its interval, closed ones too, and gets another pose; what
        was believed before stays answerable. Landmarks are made again from their sightings, and
        those that prove to be one, or several, become that. A `LandmarkPipeline` that runs on this
        memory must be told: use its own method.

        Parameters
        ----------
        correction : RigidCorrection or Trajectory
            ``new_from_old``, or where the robot really was; where it was thought to be is stored.
        map_id : str, optional
            None: the current map; empty: what was written without one.
        landmarks : LandmarkSettings, optional
            Gates, and the global frame: only poses in it move. None: the defaults.

        Raises
        ------
        NotFoundError
            The map is not known.
        InvalidRequestError
            The path is not of the time of the stored trajectory, or something would be moved
            beyond all coordinates.

        Examples
        --------
        >>> from hylo_memory_ros.frames import Transform
        >>> from hylo_memory_ros.landmarks import RigidCorrection
        >>> from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
        >>> from hylo_memory_ros.service import MemoryService
        >>> with MemoryService.open(map_id='hall') as memory:
        ...     mug = MemoryItem(kind='spatial', key='mug', content='mug',
        ...                      pose=Pose(frame_id='map', position=(1.0, 2.0, 0.8)))
        ...     _ = memory.write([mug])
        ...     done = memory.correct_map(RigidCorrection(Transform((0.5, 0.0, 0.0))))
        ...     there = memory.query(MemoryQuery(key='mug'))[0].item.pose.position
        ...     before = memory.query(MemoryQuery(key='mug', known_seq=1))[0].item.pose.position
        ...     _ = memory.revert_correction(done.correction_id)
        ...     done.moved, there, before, memory.query(MemoryQuery(key='mug'))[0].item.pose.position
        (1, (1.5, 2.0, 0.8), (1.0, 2.0, 0.8), (1.0, 2.0, 0.8))
        """
        refuse_unsound(sound_name, actor=actor)
        map_id = self._known_map(map_id)
        settings = landmarks or LandmarkSettings()
        return self._correct(corrected(map_id, correction, settings), actor, dry_run)

    def revert_correction(
        self,
        correction_id: str,
        *,
        landmarks: LandmarkSettings | None = None,
        actor: str = '',
        dry_run: bool = False,
    ) -> CorrectionResult:
        """Put back the coordinates that a correction replaced, bit for bit.

        What was moved again since stays where that put it; `CorrectionResult.remark` tells.

        Parameters
        ----------
        landmarks : LandmarkSettings, optional
            As for `correct_map`.

        Raises
        ------
        NotFoundError
            No correction has this name.
        InvalidRequestError
            It is a reversal, or was taken back before.
        """
        refuse_unsound(sound_name, actor=actor)
        settings = landmarks or LandmarkSettings()
        return self._correct(reverted(correction_id, settings), actor, dry_run)

    def _known_map(self, map_id: str | None) -> str:
        if map_id is None:
            return self.map_id
        self._maps.refuse_unknown(map_id)
        return map_id

    def _correct(self, plan: Callable[[sa.Connection], Plan], actor: str, dry_run: bool) -> CorrectionResult:
        with self._lock:
            self._refuse_closed()
            moved, committed = self._store.correct(plan, actor=actor, dry_run=dry_run)
            self._follow(committed)
        sequence = 0 if committed is None else committed.change.sequence
        return CorrectionResult(
            moved.correction_id, moved.moved, moved.merged, moved.split, sequence, moved.remark
        )
