"""A map moved: what that does to the memory, as a plan that the store carries out.

Landmarks follow their sightings and are associated anew; everything else that has a place is
moved as the global frame was at its stamp.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from hylo_memory_ros.landmarks.moving import moved_poses
from hylo_memory_ros.landmarks.trajectory import Correction, PathCorrection
from hylo_memory_ros.store.correction import Edit, Reversal, stored_correction

__all__ = ['Plan', 'corrected', 'reverted']

Plan = Edit | Reversal


def corrected(map_id: str, frame_id: str, correction: Correction) -> Callable[[sa.Connection], Edit]:
    """Return what makes the plan of a correction from the state of the store."""

    def plan(_: sa.Connection) -> Edit:
        kind = 'path' if isinstance(correction, PathCorrection) else 'rigid'
        return Edit(
            map_id, frame_id, kind, correction.as_json(), lambda placed: moved_poses(placed, correction)
        )

    return plan


def reverted(correction_id: str) -> Callable[[sa.Connection], Reversal]:
    """Return what makes the plan of a reversal."""

    def plan(connection: sa.Connection) -> Reversal:
        return Reversal(stored_correction(connection, correction_id))

    return plan
