"""Cursors at the ROS door: the memory's own, and the centre that the first page was asked at.

A client pages by sending the same filter again. "Around base_link" is somewhere else by then, so
the cursor brings the centre of the first page along.
"""

from __future__ import annotations

import base64
import binascii
import json

from pydantic import ValidationError

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import Pose

__all__ = ['cursor_of', 'cursor_read']

MARK = 'at:'


def cursor_of(core: str | None, centre: Pose | None) -> str:
    """Return a cursor for a reply.

    Parameters
    ----------
    core : str or None
        The memory's cursor; None: there is nothing to go on with.
    centre : Pose or None
        The centre that was used, where it is another than the one asked for.
    """
    if core is None:
        return ''
    if centre is None:
        return core
    place = [centre.frame_id, centre.position, centre.stamp_ns, core]
    return MARK + base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def cursor_read(text: str) -> tuple[str | None, Pose | None]:
    """Return the memory's cursor and the centre in a cursor of a request.

    Raises
    ------
    InvalidRequestError
        If it is none that was given out.
    """
    if not text.startswith(MARK):
        return text or None, None
    try:
        frame_id, position, stamp_ns, core = json.loads(base64.urlsafe_b64decode(text[len(MARK) :]))
        return str(core), Pose(frame_id=frame_id, position=position, stamp_ns=stamp_ns)
    except (ValueError, TypeError, binascii.Error, ValidationError) as exc:
        raise InvalidRequestError(
            f'cursor: {text[:40]!r} is no cursor of this memory', field='cursor'
        ) from exc
