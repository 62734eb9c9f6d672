"""Where the things of a message are whose poses only tf has: tags, each a frame of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hylo_memory_ros.errors import (
    DisconnectedFrameError,
    FrameError,
    InvalidRequestError,
    TransformTooOldError,
    UnknownFrameError,
)
from hylo_memory_ros.frames import Transform, TransformSource
from hylo_memory_ros.landmarks.observation import Message

__all__ = ['FramedThings']

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
