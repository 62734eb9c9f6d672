"""What moves a whole map, and puts it back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import sqlalchemy as sa

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import (
    CorrectionResult,
)
from hylo_memory_ros.perception.corrections.relocate import relocate
from hylo_memory_ros.perception.corrections.revert import take_back
from hylo_memory_ros.perception.corrections.trajectory import (
    BrownianBridge,
    PathCorrection,
    RigidCorrection,
    Trajectory,
)
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.map.persistence import load_book, store_book
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.service.core import MemoryCore
from hylo_memory_ros.service.validation import validate_name, validate_texts
from hylo_memory_ros.storage.corrections.apply import Edit
from hylo_memory_ros.storage.corrections.landmark_state import columns_of, digest_of, dumped, put_back
from hylo_memory_ros.storage.corrections.records import details_of, is_newest, keep_undo, stored_correction
from hylo_memory_ros.storage.corrections.revert import Reversal

__all__ = ['MapHandler', 'Mover', 'Plan', 'corrected', 'reverted']

Mover = RigidCorrection | PathCorrection | Trajectory
Plan = Edit | Reversal

# The landmark states before so many corrections are kept; each is as large as the landmark tables.
_UNDO_KEPT = 4
# A path may go this far beyond the stored trajectory: a message or two are still being waited for.
_SLACK_NS = 1_000_000_000


def corrected(map_id: str, correction: Mover, settings: LandmarkSettings) -> Callable[[sa.Connection], Edit]:
    """Return what makes the plan of a correction from the state of the store."""

    def plan(connection: sa.Connection) -> Edit:
        book = load_book(connection, map_id, settings)
        motion = correction
        if isinstance(motion, Trajectory):
            motion = PathCorrection(_stored_trajectory(book, motion, settings), motion)
        before = dumped(connection, map_id)
        earlier = [
            BrownianBridge(np.array(path['stamps_ns']), np.array(path['doubts_m']))
            for path in details_of(connection, map_id, 'path')
        ]
        done = relocate(book, motion, settings, earlier)

        def within(connection: sa.Connection, sequence: int) -> None:
            store_book(connection, book)
            keep_undo(connection, sequence, before, digest_of(dumped(connection, map_id)), _UNDO_KEPT)

        return Edit(
            map_id,
            settings.global_frame,
            'rigid' if isinstance(motion, RigidCorrection) else 'path',
            motion.as_json(),
            done.move,
            done.gone,
            done.items,
            len(done.merged),
            len(done.split),
            within,
        )

    return plan


def reverted(correction_id: str, settings: LandmarkSettings) -> Callable[[sa.Connection], Reversal]:
    """Return what makes the plan of a reversal."""

    def plan(connection: sa.Connection) -> Reversal:
        former = stored_correction(connection, correction_id)
        undo, map_id = former.undo, former.map_id
        if undo is not None and digest_of(dumped(connection, map_id)) == former.after:
            return Reversal(former, within=lambda connection, _: put_back(connection, map_id, undo))
        book = load_book(connection, map_id, settings)
        if not len(book) and not len(book.keyframes):
            return Reversal(former)
        if undo is None or not is_newest(connection, former):
            why = 'the map was corrected again since' if undo is not None else 'their state is no longer kept'
            return Reversal(former, frozenset(filter(None, book.keys)), remark=f'landmarks stay: {why}')
        landmarks, keyframes, sightings = columns_of(undo)
        stays = take_back(book, landmarks, keyframes, sightings, settings)
        return Reversal(
            former,
            stays,
            lambda connection, _: store_book(connection, book),
            'landmarks were seen or changed since: those of before are as they were, and what was seen '
            'since stays with what it was given to',
        )

    return plan


def _stored_trajectory(book: LandmarkMap, path: Trajectory, settings: LandmarkSettings) -> Trajectory:
    """Return where the robot was by the stored keyframes.

    Raises
    ------
    InvalidRequestError
        If there are none, or the path is not of the time that they are of.
    """
    frames = book.keyframes.columns
    if not len(frames):
        raise InvalidRequestError(
            f'path: no trajectory is stored of the map {book.map_id!r} that it could correct', field='path'
        )
    first_ns, last_ns = int(frames['stamp_ns'][0]), int(frames['stamp_ns'][-1])
    # A keyframe is in force until the next one, which comes after a rest at the latest.
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
        correction: Mover,
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
        validate_texts(validate_name, actor=actor)
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
        validate_texts(validate_name, actor=actor)
        settings = landmarks or LandmarkSettings()
        return self._correct(reverted(correction_id, settings), actor, dry_run)

    def _known_map(self, map_id: str | None) -> str:
        if map_id is None:
            return self._core.maps.current
        self._core.maps.refuse_unknown(map_id)
        return map_id

    def _correct(self, plan: Callable[[sa.Connection], Plan], actor: str, dry_run: bool) -> CorrectionResult:
        with self._core.changing():
            moved, committed = self._core.store.correct(plan, actor=actor, dry_run=dry_run)
            self._core.follow(committed)
        sequence = 0 if committed is None else committed.change.sequence
        return CorrectionResult(
            moved.correction_id, moved.moved, moved.merged, moved.split, sequence, moved.remark
        )
