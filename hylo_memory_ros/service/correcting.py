"""A map moved: what that does to the memory, as a plan that the store carries out.

Landmarks follow their sightings and are associated anew; everything else that has a place is
moved as the global frame was at its stamp.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import sqlalchemy as sa

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.landmarks.book import LandmarkBook
from hylo_memory_ros.landmarks.doubt import Bridge
from hylo_memory_ros.landmarks.relocation import relocate
from hylo_memory_ros.landmarks.settings import LandmarkSettings
from hylo_memory_ros.landmarks.stored import load_book, store_book
from hylo_memory_ros.landmarks.taking_back import take_back
from hylo_memory_ros.landmarks.trajectory import PathCorrection, RigidCorrection, Trajectory
from hylo_memory_ros.store.correction import Edit
from hylo_memory_ros.store.correction_record import details_of, is_newest, keep_undo, stored_correction
from hylo_memory_ros.store.landmark_state import columns_of, digest_of, dumped, put_back
from hylo_memory_ros.store.reversal import Reversal

__all__ = ['Moving', 'Plan', 'corrected', 'reverted']

Moving = RigidCorrection | PathCorrection | Trajectory
Plan = Edit | Reversal

# The landmark states before so many corrections are kept; each is as large as the landmark tables.
_UNDO_KEPT = 4
# A path may go this far beyond the stored trajectory: a message or two are still being waited for.
_SLACK_NS = 1_000_000_000


def corrected(map_id: str, correction: Moving, settings: LandmarkSettings) -> Callable[[sa.Connection], Edit]:
    """Return what makes the plan of a correction from the state of the store."""

    def plan(connection: sa.Connection) -> Edit:
        book = load_book(connection, map_id, settings)
        motion = correction
        if isinstance(motion, Trajectory):
            motion = PathCorrection(_stored_trajectory(book, motion, settings), motion)
        before = dumped(connection, map_id)
        earlier = [
            Bridge(np.array(path['stamps_ns']), np.array(path['doubts_m']))
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


def _stored_trajectory(book: LandmarkBook, path: Trajectory, settings: LandmarkSettings) -> Trajectory:
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
