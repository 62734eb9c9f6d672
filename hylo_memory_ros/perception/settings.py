"""Settings of perception; the sentence of each field is the description of its parameter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hylo_memory_ros.model.validation import NOT_A_PARAMETER, Contract, FrameId, Key, Label, Name, Text

EXISTENCE_MAX = 0.99
"""Largest probability of existence."""
FALSE_DETECTION = 0.05
"""Probability that a detector reports a thing where there is none."""
# Limits of the time between the end of a landmark and the appearance of the same thing elsewhere, seconds.
_MOVED_WITHIN_S = (60.0, 3600.0)

Reliability = Literal['reliable', 'best_effort']
Seconds = Annotated[float, Field(ge=0.0)]
PositiveSeconds = Annotated[float, Field(gt=0.0)]
Metres = Annotated[float, Field(gt=0.0, le=1e6)]
Count = Annotated[int, Field(ge=1)]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]

IMAGE = 'sensor_msgs/msg/Image'
CAMERA_INFO = 'sensor_msgs/msg/CameraInfo'
GRID = 'nav_msgs/msg/OccupancyGrid'

# Message types without a class, so that the settings must name one.
CLASSLESS_TYPES = frozenset({'geometry_msgs/msg/PoseArray', 'geometry_msgs/msg/PoseStamped'})
# Message types with the orientation of the object.
TURNED_TYPES = frozenset({'apriltag_msgs/msg/AprilTagDetectionArray', 'geometry_msgs/msg/PoseStamped'})


class InputSettings(Contract):
    """One declared source of observations.

    Examples
    --------
    >>> trees = InputSettings(name='trees', topic='trees', type='vision_msgs/msg/Detection3DArray',
    ...                       sigma_m=0.3, gate_m=2.0)
    >>> trees.label_of('tree')
    'tree'
    """

    name: Name
    """Name of the input in the status, in the ledger and in the order of observations."""
    topic: Text
    """Topic to subscribe to, relative to the node's namespace."""
    type: Text
    """Message type, such as ``vision_msgs/msg/Detection3DArray``."""
    label: Label = ''
    """Label of everything this input reports; empty: the class in the message."""
    labels: Mapping[Name, Label] = Field(default_factory=dict)
    """Label of each class in the message; a missing class, or one with the empty label, is refused. An
    instance (family:id of a tag, ns/id of a marker) may have a label of its own."""
    instance: Key | None = None
    """Key of the single thing this input reports; None: things are distinguished by place."""
    min_score: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Least score of a detection that is used."""
    sigma_m: Metres = 0.05
    """Standard deviation of a position whose message gives no covariance, metres, on each axis."""
    sigma_floor_m: Annotated[float, Field(ge=0.0, le=1e6), NOT_A_PARAMETER] = 0.01
    """Least standard deviation of a single position, metres, whatever its message claims."""
    gate_m: Metres = 0.5
    """Largest distance between an observation and its landmark, metres."""
    min_range_m: Annotated[float, Field(ge=0.0)] = 0.0
    """Least distance from the origin of the message's frame, metres."""
    max_range_m: Annotated[float, Field(gt=0.0)] = 1e9
    """Largest distance from the origin of the message's frame, metres."""
    orientation: Literal['auto', 'none', 'object', 'axis'] = 'auto'
    """Meaning of the orientations in messages: none, the orientation of the object, or the direction of
    one axis; auto: object for PoseStamped and AprilTag, none for all others."""
    orientation_axis: Literal['x', 'y', 'z'] = 'z'
    """The meaningful axis when orientation is axis."""
    detection_probability: Probability = 0.9
    """Probability that a visible thing is in a message, for the evidence of absence."""
    detection_probabilities: Mapping[Name, Probability] = Field(default_factory=dict)
    """Detection probability of single labels."""
    fov_horizontal_rad: Annotated[float, Field(ge=0.0, le=6.3)] = 0.0
    """Horizontal field of view, radians; 0: not configured, so that nothing counts as missing."""
    fov_vertical_rad: Annotated[float, Field(ge=0.0, le=3.15)] = 0.0
    """Vertical field of view, radians; 0: not configured."""
    view_axis: Literal['x', 'z'] = 'z'
    """Forward axis of the message's frame: z of an optical frame, x of a body (REP-103)."""
    visibility: Text = ''
    """Input of type sensor_msgs/msg/Image or nav_msgs/msg/OccupancyGrid with the visibility of places;
    empty: none, and missing things are only marked stale."""
    camera_info: Text = ''
    """Input of type sensor_msgs/msg/CameraInfo for this one of type sensor_msgs/msg/Image."""
    tag_frames: Mapping[Name, FrameId] = Field(default_factory=dict)
    """Frame in tf of each tag (family:id) whose frame has another name."""
    optional: bool = False
    """Continue without this input when its message type is not installed."""
    reliability: Reliability = 'best_effort'
    """Requested reliability of the subscription."""
    durability: Literal['volatile', 'transient_local'] = 'volatile'
    """Requested durability; transient_local also delivers earlier messages of latched topics."""
    depth: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Queue depth of the subscription and of the messages to be decoded; beyond it the oldest is dropped."""

    @model_validator(mode='after')
    def _consistent(self) -> InputSettings:
        if self.max_range_m <= self.min_range_m:
            raise ValueError(
                f'max_range_m: {self.max_range_m} m is not beyond min_range_m, {self.min_range_m} m'
            )
        if self.type == IMAGE and not self.camera_info:
            raise ValueError(f'camera_info: the depth image {self.name!r} needs one, name its input')
        if self.label and self.labels:
            raise ValueError('label and labels: give one of them')
        if self.type in CLASSLESS_TYPES and not self.label:
            raise ValueError(f'label: {self.type} carries no class, so the input {self.name!r} must name one')
        return self

    def label_of(self, class_id: str) -> str:
        """Return the label of a class in a message; empty: observations of it are refused."""
        if self.label:
            return self.label
        return self.labels.get(class_id, '') if self.labels else class_id

    @property
    def advances_watermark(self) -> bool:
        """True if the watermark waits for it; not for occupancy grids, which are sent seldom."""
        return self.type != GRID

    @property
    def has_field_of_view(self) -> bool:
        """True if its field of view is configured, so that things can be missing from it."""
        return self.fov_horizontal_rad > 0.0 and self.fov_vertical_rad > 0.0

    def detection_probability_of(self, label: str) -> float:
        """Return the detection probability of a label."""
        return self.detection_probabilities.get(label, self.detection_probability)

    @property
    def least_detection_probability(self) -> float:
        """The least detection probability of any label."""
        return min([self.detection_probability, *self.detection_probabilities.values()])

    @property
    def orientation_mode(self) -> Literal['none', 'object', 'axis']:
        """Meaning of orientations, with ``auto`` resolved by the type."""
        if self.orientation != 'auto':
            return self.orientation
        return 'object' if self.type in TURNED_TYPES else 'none'


class LandmarkSettings(Contract):
    """Settings for order, data association, storage and writing of observations."""

    global_frame: FrameId = 'map'
    """Fixed frame of the landmarks."""
    base_frame: FrameId = 'base_link'
    """Frame of the robot's body, which sightings are relative to; ignored while tf does not know it."""
    keyframe_distance_m: Metres = 0.5
    """Distance of the base after which a new keyframe begins, metres."""
    keyframe_rest_s: PositiveSeconds = 60.0
    """Time after which a new keyframe begins at rest, seconds of stamps."""
    inputs: tuple[InputSettings, ...] = ()
    """The declared inputs."""
    reorder_window_s: Seconds = 0.5
    """Distance of the watermark behind the newest stamp of an input, seconds of stamps."""
    pending_max_age_s: PositiveSeconds = 10.0
    """Largest age of a message that waits for its transform, relative to the newest stamp, seconds of
    stamps."""
    pending_max: Annotated[Count, NOT_A_PARAMETER] = 2000
    """Largest number of pending messages; the oldest is dropped for a newer one."""
    uncommitted_max: Annotated[Count, NOT_A_PARAMETER] = 50_000
    """Largest number of consumed messages before a commit; beyond it new messages are dropped."""
    min_valid_stamp_s: Seconds = 0.0
    """Observations stamped before this are refused, seconds: a robot without battery clock boots in 1970."""
    confirm_n: Count = 3
    """Number of messages with a landmark after which it is confirmed and written."""
    move_min_m: Metres = 0.05
    """Least displacement after which a confirmed landmark is written again, metres."""
    move_sigmas: Annotated[float, Field(ge=0.0), NOT_A_PARAMETER] = 2.0
    """Least displacement after which a confirmed landmark is written again, standard deviations of its
    position."""
    localization_sigma_m: Metres = 0.035
    """Standard deviation of the position of the robot, metres, on each axis."""
    localization_yaw_rad: Annotated[float, Field(ge=0.0, le=3.15)] = 0.002
    """Standard deviation of the heading of the robot, radians; its effect grows with distance."""
    localization_gate: bool = False
    """Drop observations unless a localization report says that the pose of the robot is certain enough."""
    localized_within_m: Metres = 0.5
    """Largest standard deviation of the robot's position for observations to be used, metres."""
    localized_within_rad: Annotated[float, Field(gt=0.0, le=3.15)] = 0.35
    """Largest standard deviation of the robot's heading for observations to be used, radians."""
    unique: tuple[Label, ...] = ()
    """Labels with at most one thing in a map: seen elsewhere, it has moved."""
    sigma_floor_m: Annotated[Metres, NOT_A_PARAMETER] = 0.002
    """Least standard deviation of a landmark's position, metres, on each axis."""
    gone_below: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.05
    """Probability of existence below which a landmark ends."""
    stale_after: Count = 3
    """Number of viewpoints in a row without a detection, and without proof of visibility, after which a
    landmark is stale."""
    tentative_max: Annotated[Count, NOT_A_PARAMETER] = 10_000
    """Largest number of unconfirmed landmarks of a map; those not seen for longest leave first."""
    statistics_interval_s: Annotated[Seconds, NOT_A_PARAMETER] = 45.0
    """Interval of stamps after which a commit writes mere statistics, seconds of stamps."""
    ledger_max_age_s: Annotated[PositiveSeconds, NOT_A_PARAMETER] = 2_592_000.0
    """Retention of the assignments of observations to landmarks in the ledger, seconds of stamps."""
    ledger_max_bytes: Annotated[Count, NOT_A_PARAMETER] = 2_097_152
    """Largest size of these assignments, bytes; the oldest leave first."""

    @property
    def moved_within_s(self) -> float:
        """Largest time between the end of a landmark and the appearance of the same thing, seconds of stamps.

        A camera that stands still has one viewpoint in each `keyframe_rest_s`, and needs several to find that
        something is gone: so long after the thing was first seen elsewhere may its end come.
        """
        least, most = _MOVED_WITHIN_S
        p = min((one.least_detection_probability for one in self.inputs if one.visibility), default=1.0)
        if p <= FALSE_DETECTION:
            return most
        odds = EXISTENCE_MAX / (1.0 - EXISTENCE_MAX) * (1.0 - self.gone_below) / self.gone_below
        misses = math.ceil(math.log(odds) / math.log((1.0 - FALSE_DETECTION) / max(1.0 - p, 0.001)))
        return min(max(least, (misses + 1) * self.keyframe_rest_s), most)

    @model_validator(mode='after')
    def _distinct(self) -> LandmarkSettings:
        names = [source.name for source in self.inputs]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f'inputs: the name {name!r} is given twice')
        type_of = {source.name: source.type for source in self.inputs}
        for source in self.inputs:
            for field, name, types in (
                ('visibility', source.visibility, (GRID, IMAGE)),
                ('camera_info', source.camera_info, (CAMERA_INFO,)),
            ):
                if name and type_of.get(name) not in types:
                    raise ValueError(
                        f'{field}: expected an input of type {" or ".join(types)} for {source.name!r}, '
                        f'got {name!r}'
                    )
        return self
