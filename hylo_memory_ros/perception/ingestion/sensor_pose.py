"""Where the sensor and the base of the robot were when a message was made."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hylo_memory_ros.errors import (
    DisconnectedFrameError,
    FrameError,
    InvalidRequestError,
    TransformTooNewError,
    TransformTooOldError,
    UnknownFrameError,
)
from hylo_memory_ros.perception.ingestion.observation import Message
from hylo_memory_ros.perception.map.keyframes import Keyframes
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.transforms import Transform, TransformSource

__all__ = ['FramedThings', 'Locator', 'reason_of']

# Names of tags come from outside; what is remembered of them must not grow without end.
_FRAMES_KEPT = 4096
_NOWHERE = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class FramedThings:
    """Fills in the poses of detections that are named by their frame in tf.

    The transform of a tag is published by its detector, mostly a little after the message and with
    its stamp, so it is waited for as that of the sensor is. One that never comes is waited for
    once: after that its frame is known not to be there, until it is.

    Parameters
    ----------
    transforms : TransformSource
        Asked for the message's frame from the thing's frame at the message's stamp.
    renamed : mapping
        Of each input: the frames that are called otherwise than their things.
    """

    def __init__(self, transforms: TransformSource, renamed: Mapping[str, Mapping[str, str]]) -> None:
        self._transforms = transforms
        self._renamed = renamed
        self._never_known: set[str] = set()

    def placed(self, message: Message, *, waited: bool = False) -> Message:
        """Return a message with positions and orientations in its frame.

        What has none stays at exactly zero, and is counted by the screening.

        Parameters
        ----------
        message : Message
            With or without `Detections.frames`.
        waited : bool
            Whether it has waited long enough: what is not known now never will be.

        Raises
        ------
        FrameError
            One of the frames is waited for.
        """
        frames = message.detections.frames
        if frames is None:
            return message
        names = self._renamed.get(message.input, {})
        found = [self._pose(message, names.get(frame, frame), waited) for frame in frames]
        poses = np.array(found, dtype=np.float64).reshape(-1, 7)
        detections = replace(message.detections, positions=poses[:, :3], orientations=poses[:, 3:])
        return replace(message, detections=detections)

    def _pose(self, message: Message, frame: str, waited: bool) -> tuple[float, ...]:
        try:
            there: Transform = self._transforms.lookup(message.frame_id, frame, message.stamp_ns)
        except (UnknownFrameError, DisconnectedFrameError):
            if waited and len(self._never_known) < _FRAMES_KEPT:
                self._never_known.add(frame)
            if waited or frame in self._never_known:
                return _NOWHERE
            raise
        except TransformTooOldError:
            return _NOWHERE
        except FrameError:
            self._never_known.discard(frame)
            if waited:
                return _NOWHERE
            raise
        except InvalidRequestError:
            # A name that no frame can have.
            return _NOWHERE
        self._never_known.discard(frame)
        return (*there.translation, *there.rotation)


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
