"""Poses of the sensor and of the base of the robot at the stamp of a message."""

from __future__ import annotations

import contextlib
import math
from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
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
from hylo_memory_ros.model.pose import validate_covariance
from hylo_memory_ros.perception.ingestion.observation import Message
from hylo_memory_ros.perception.map.sightings import Keyframes
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.transforms import Transform, TransformSource

# Tags choose frame names freely, so the number of names that are kept must be bounded.
_FRAMES_KEPT = 4096
_NOWHERE = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class TagPoseResolver:
    """Resolves the poses of detections that are named by their frame in tf.

    The transform of a tag is published by its detector, mostly a little after the message and with its
    stamp, so messages wait for it as for that of the sensor. A frame that never arrives is waited for
    once: after that it counts as unknown until it appears.

    Parameters
    ----------
    transforms : TransformSource
        Looked up for the message's frame from the tag's frame at the message's stamp.
    renamed : mapping
        Frames that are not named like their tags, by input.
    """

    def __init__(self, transforms: TransformSource, renamed: Mapping[str, Mapping[str, str]]) -> None:
        self._transforms = transforms
        self._renamed = renamed
        self._never_known: set[str] = set()

    def resolve(self, message: Message, *, waited: bool = False) -> Message:
        """Return a message with positions and orientations in its frame.

        Unknown poses stay exactly zero, and are counted by the validation.

        Parameters
        ----------
        message : Message
            With or without `Detections.frames`.
        waited : bool
            Whether it has waited long enough: poses unknown now are given up.

        Raises
        ------
        FrameError
            If a frame is still pending.
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
            # An invalid frame name.
            return _NOWHERE
        self._never_known.discard(frame)
        return (*there.translation, *there.rotation)


_REASONS: tuple[tuple[type[FrameError], str], ...] = (
    (UnknownFrameError, 'frame_unknown'),
    (DisconnectedFrameError, 'frame_disconnected'),
    (TransformTooOldError, 'transform_too_old'),
    (TransformTooNewError, 'transform_too_new'),
)


class SensorPoseResolver:
    """Looks up the transforms of messages.

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
        self._tags = TagPoseResolver(transforms, renamed)

    def resolve(
        self, message: Message, *, waited: bool = False
    ) -> tuple[Message, Transform, Transform | None]:
        """Return a message with the poses of its tags, the pose of its sensor, and that of the base if known.

        Raises
        ------
        FrameError
            If a transform is not known, or not yet.
        """
        frame_id, stamp_ns = message.frame_id, message.stamp_ns
        sensor = self._of(frame_id, stamp_ns)
        if message.deletion is not None or message.view is not None:
            return message, sensor, None
        message = self._tags.resolve(message, waited=waited)
        base_frame = self._settings.base_frame
        if frame_id == base_frame:
            return message, sensor, sensor
        try:
            return message, sensor, self._of(base_frame, stamp_ns)
        except (UnknownFrameError, DisconnectedFrameError, TransformTooOldError):
            return message, sensor, None

    def estimate_base(
        self, message: Message, global_from_sensor: Transform, keyframes: Keyframes
    ) -> Transform:
        """Return the pose of the base, or a substitute: the last keyframe or the sensor.

        A message in the global frame needs no transform, so it may arrive before that of the base; when it
        is processed, that has arrived too.
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


def loss_reason(refusal: FrameError | None) -> str:
    """Return the reason under which a message lost to a transform is counted."""
    return next((name for kind, name in _REASONS if isinstance(refusal, kind)), 'transform_unknown')


# Reports that are kept; messages older than all of them are no longer pending.
_REPORTS_KEPT = 10_000


class LocalizationGate:
    """Gate on the uncertainty of the robot pose; at each stamp the newest earlier report is valid.

    Parameters
    ----------
    settings : LandmarkSettings
        Limits of the uncertainty.

    Examples
    --------
    >>> known = LocalizationGate(LandmarkSettings(localized_within_m=0.5))
    >>> def sure(sigma_m):
    ...     return [sigma_m**2 if place in (0, 7) else 0.0 for place in range(36)]
    >>> known.report(10, sure(2.0)), known.report(20, sure(0.1))
    (False, True)
    >>> [known.holds(stamp_ns) for stamp_ns in (5, 15, 20, 99)]
    [False, False, True, True]
    """

    def __init__(self, settings: LandmarkSettings) -> None:
        self._within_m = settings.localized_within_m
        self._within_rad = settings.localized_within_rad
        self._reports: list[tuple[int, bool]] = []

    def report(self, stamp_ns: int, covariance: Sequence[float]) -> bool:
        """Take a report; return whether the pose is certain enough.

        Parameters
        ----------
        stamp_ns : int
            Stamp of the pose, nanoseconds.
        covariance : sequence of float, length 36
            Covariance of the robot pose in the global frame, row-major; all zeros or invalid: unknown.
        """
        valid = validate_covariance(covariance)
        good = valid is not None and self._is_certain(valid)
        insort(self._reports, (stamp_ns, good))
        del self._reports[:-_REPORTS_KEPT]
        return good

    def holds(self, stamp_ns: int) -> bool:
        """Return whether the pose was certain enough at a stamp."""
        place = bisect_right(self._reports, (stamp_ns, True))
        return place > 0 and self._reports[place - 1][1]

    def _is_certain(self, covariance: Sequence[float]) -> bool:
        matrix = np.reshape(covariance, (6, 6))
        widest = float(np.linalg.eigvalsh(matrix[:2, :2])[-1])
        return math.sqrt(max(widest, 0.0)) <= self._within_m and math.sqrt(matrix[5, 5]) <= self._within_rad
