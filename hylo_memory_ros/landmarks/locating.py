"""Where the sensor and the base of the robot were when a message was made."""

from __future__ import annotations

import contextlib

from hylo_memory_ros.errors import (
    DisconnectedFrameError,
    FrameError,
    TransformTooNewError,
    TransformTooOldError,
    UnknownFrameError,
)
from hylo_memory_ros.frames import Transform, TransformSource
from hylo_memory_ros.landmarks.keyframe import Keyframes
from hylo_memory_ros.landmarks.observation import Message
from hylo_memory_ros.landmarks.placing import FramedThings
from hylo_memory_ros.landmarks.settings import LandmarkSettings

__all__ = ['Locator', 'reason_of']

_REASONS: tuple[tuple[type[FrameError], str], ...] = (
    (UnknownFrameError, 'frame_unknown'),
    (DisconnectedFrameError, 'frame_disconnected'),
    (TransformTooOldError, 'transform_too_old'),
    (TransformTooNewError, 'transform_too_new'),
)


class Locator:
    """Asks for the transforms of messages.

    Parameters
    ----------
    transforms : TransformSource
        Asked for the global frame from that of the message, and from the base.
    settings : LandmarkSettings
        Names of the frames, and of those of tags.
    """

    def __init__(self, transforms: TransformSource, settings: LandmarkSettings) -> None:
        self._settings = settings
        self._transforms = transforms
        renamed = {source.name: source.tag_frames for source in settings.inputs}
        self._framed = FramedThings(transforms, renamed)

    def look_up(
        self, message: Message, *, waited: bool = False
    ) -> tuple[Message, Transform, Transform | None]:
        """Return a message with its things placed, where its sensor was, and the base if that is known.

        Raises
        ------
        FrameError
            If a transform is not known, or not yet.
        """
        frame_id, stamp_ns = message.frame_id, message.stamp_ns
        sensor = self._of(frame_id, stamp_ns)
        if message.deletion is not None or message.view is not None:
            return message, sensor, None
        message = self._framed.placed(message, waited=waited)
        base_frame = self._settings.base_frame
        if frame_id == base_frame:
            return message, sensor, sensor
        try:
            return message, sensor, self._of(base_frame, stamp_ns)
        except (UnknownFrameError, DisconnectedFrameError, TransformTooOldError):
            return message, sensor, None

    def stand_in(self, message: Message, global_from_sensor: Transform, keyframes: Keyframes) -> Transform:
        """Return where the base was, or what stands for it: the sensor, or where it last was.

        A message in the global frame needs no transform, so it may have come before those that tell
        where the base was; by the time that it is its turn they have come too.
        """
        with contextlib.suppress(FrameError):
            return self._of(self._settings.base_frame, message.stamp_ns)
        if message.frame_id == self._settings.global_frame and len(keyframes):
            return keyframes.pose(len(keyframes) - 1)
        return global_from_sensor

    def _of(self, frame_id: str, stamp_ns: int) -> Transform:
        target = self._settings.global_frame
        if frame_id == target:
            return Transform((0.0, 0.0, 0.0), target_frame=target, source_frame=target, stamp_ns=stamp_ns)
        return self._transforms.lookup(target, frame_id, stamp_ns)


def reason_of(refusal: FrameError | None) -> str:
    """Return by which name a refusal is counted."""
    return next((name for kind, name in _REASONS if isinstance(refusal, kind)), 'transform_unknown')
