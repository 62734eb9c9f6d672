"""Map handler: switch the current map, and correct maps."""

from __future__ import annotations

import numpy as np

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import CorrectionResult
from hylo_memory_ros.perception.corrections.relocate import relocate
from hylo_memory_ros.perception.corrections.revert import restore_landmarks
from hylo_memory_ros.perception.corrections.trajectory import (
    BrownianBridge,
    PathCorrection,
    RigidCorrection,
    Trajectory,
)
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.map.persistence import load_map, save_map
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.service.core import MemoryCore
from hylo_memory_ros.service.validation import validate_names
from hylo_memory_ros.storage import CommitResult
from hylo_memory_ros.storage.corrections import CorrectionPlan, CorrectionSummary, ReversalPlan
from hylo_memory_ros.storage.unit_of_work import UnitOfWork

MapMotion = RigidCorrection | PathCorrection | Trajectory
"""Motion of a map: rigid, or by a corrected trajectory."""

# Landmark states that are kept to undo corrections; each is as large as the landmark tables.
_UNDO_KEPT = 4
# A path may reach this far beyond the stored trajectory: the newest messages may still be pending.
_SLACK_NS = 1_000_000_000


def _correct(
    uow: UnitOfWork, map_id: str, motion: MapMotion, settings: LandmarkSettings
) -> CorrectionSummary:
    landmarks = load_map(uow, map_id, settings)
    if isinstance(motion, Trajectory):
        motion = PathCorrection(_stored_trajectory(landmarks, motion, settings), motion)
    before = uow.corrections.dump_landmarks(map_id)
    earlier = [
        BrownianBridge(np.array(path['stamps_ns']), np.array(path['doubts_m']))
        for path in uow.corrections.details(map_id, 'path')
    ]
    relocation = relocate(landmarks, motion, settings, earlier)
    plan = CorrectionPlan(
        map_id,
        settings.global_frame,
        'rigid' if isinstance(motion, RigidCorrection) else 'path',
        motion.as_json(),
        relocation.move,
        relocation.gone,
        relocation.items,
        len(relocation.merged),
        len(relocation.split),
    )
    summary = uow.corrections.apply(plan)
    save_map(uow, landmarks)
    uow.corrections.keep_undo(map_id, before, _UNDO_KEPT)
    return summary


def _revert(uow: UnitOfWork, correction_id: str, settings: LandmarkSettings) -> CorrectionSummary:
    corrections = uow.corrections
    former = corrections.load(correction_id)
    undo, map_id = former.undo, former.map_id
    if undo is not None and corrections.digest(corrections.dump_landmarks(map_id)) == former.after:
        summary = corrections.revert(ReversalPlan(former))
        corrections.restore_landmarks(map_id, undo)
        return summary
    landmarks = load_map(uow, map_id, settings)
    if not len(landmarks) and not len(landmarks.keyframes):
        return corrections.revert(ReversalPlan(former))
    if undo is None or not corrections.is_newest(former):
        why = 'the map was corrected again since' if undo is not None else 'their state is no longer kept'
        kept = frozenset(filter(None, landmarks.keys))
        return corrections.revert(ReversalPlan(former, kept, f'landmarks stay: {why}'))
    kept = restore_landmarks(landmarks, *corrections.unpack_landmarks(undo), settings)
    remark = (
        'landmarks were seen or changed since: earlier ones are restored, and later sightings '
        'stay with their landmarks'
    )
    summary = corrections.revert(ReversalPlan(former, kept, remark))
    save_map(uow, landmarks)
    return summary


def _stored_trajectory(landmarks: LandmarkMap, path: Trajectory, settings: LandmarkSettings) -> Trajectory:
    """Return the trajectory of the stored keyframes.

    Raises
    ------
    InvalidRequestError
        If there are no keyframes, or the path lies outside their time.
    """
    frames = landmarks.keyframes.columns
    if not len(frames):
        raise InvalidRequestError(
            f'path: no trajectory is stored of the map {landmarks.map_id!r}', field='path'
        )
    first_ns, last_ns = int(frames['stamp_ns'][0]), int(frames['stamp_ns'][-1])
    # A keyframe is valid until the next one, which comes after a rest at the latest.
    last_ns += round(settings.keyframe_rest_s * 1e9)
    outside = (path.stamps_ns < first_ns - _SLACK_NS) | (path.stamps_ns > last_ns + _SLACK_NS)
    if outside.any():
        pose = int(np.argmax(outside))
        raise InvalidRequestError(
            f'path.poses[{pose}].stamp: {int(path.stamps_ns[pose])} ns lies outside the stored trajectory, '
            f'{first_ns} to {last_ns} ns',
            field=f'path.poses[{pose}].stamp',
        )
    return Trajectory.of(frames['stamp_ns'], frames['position'], frames['rotation'], 'keyframes')


class MapHandler:
    """Switches and corrects maps.

    Parameters
    ----------
    core : MemoryCore
        State of the memory.
    """

    def __init__(self, core: MemoryCore) -> None:
        self._core = core

    def set_map(self, map_id: str, *, create: bool = True) -> str:
        """Make a map the current one, and return the one before.

        Raises
        ------
        NotFoundError
            The map is not known, and may not be created.
        InvalidRequestError
            Its name is refused.
        """
        with self._core.changing():
            return self._core.maps.switch(map_id, create=create)

    def correct_map(
        self,
        correction: MapMotion,
        *,
        map_id: str | None = None,
        landmarks: LandmarkSettings | None = None,
        actor: str = '',
        dry_run: bool = False,
    ) -> CorrectionResult:
        """Move all items of a map: a change of belief, not of the world.

        Every version keeps its id and its interval, closed ones too, and gets another pose; earlier
        belief stays available. Landmarks are estimated again from their sightings, and merged or
        split accordingly. For a memory with a running `LandmarkPipeline` call the pipeline instead.

        Parameters
        ----------
        correction : RigidCorrection or Trajectory
            ``new_from_old``, or the corrected trajectory of the robot; the former one is stored.
        map_id : str, optional
            None: the current map; empty: items without a map.
        landmarks : LandmarkSettings, optional
            Gates, and the global frame: only poses in it move. None: the defaults.

        Raises
        ------
        NotFoundError
            The map is not known.
        InvalidRequestError
            The path lies outside the time of the stored trajectory, or a pose would be moved
            beyond the largest coordinate.

        Examples
        --------
        >>> from hylo_memory_ros.transforms import Transform
        >>> from hylo_memory_ros.perception import RigidCorrection
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
        validate_names(actor=actor)
        map_id = self._known_map(map_id)
        settings = landmarks or LandmarkSettings()
        with self._core.changing():
            with self._core.store.begin('correct', actor=actor, dry_run=dry_run) as uow:
                summary = _correct(uow, map_id, correction, settings)
            return self._result(summary, uow.result)

    def revert_correction(
        self,
        correction_id: str,
        *,
        landmarks: LandmarkSettings | None = None,
        actor: str = '',
        dry_run: bool = False,
    ) -> CorrectionResult:
        """Restore the coordinates that a correction replaced, bit for bit.

        Statements that were moved again since stay there; `CorrectionResult.remark` counts them.

        Parameters
        ----------
        landmarks : LandmarkSettings, optional
            As for `correct_map`.

        Raises
        ------
        NotFoundError
            No correction has this name.
        InvalidRequestError
            It is a reversal, or was reverted before.
        """
        validate_names(actor=actor)
        settings = landmarks or LandmarkSettings()
        with self._core.changing():
            with self._core.store.begin('correct', actor=actor, dry_run=dry_run) as uow:
                summary = _revert(uow, correction_id, settings)
            return self._result(summary, uow.result)

    def _known_map(self, map_id: str | None) -> str:
        if map_id is None:
            return self._core.maps.current
        self._core.maps.refuse_unknown(map_id)
        return map_id

    def _result(self, summary: CorrectionSummary, committed: CommitResult | None) -> CorrectionResult:
        self._core.follow(committed)
        sequence = 0 if committed is None else committed.change.sequence
        return CorrectionResult(
            summary.correction_id, summary.moved, summary.merged, summary.split, sequence, summary.remark
        )
