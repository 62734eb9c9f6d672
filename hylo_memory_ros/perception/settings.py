"""How perception becomes landmarks: the typed settings, with a sentence for each field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hylo_memory_ros.model._contract import NOT_A_PARAMETER, Contract
from hylo_memory_ros.model._text import FrameId, Key, Label, Name, Text

__all__ = ['MOVED_WITHIN_S', 'InputSettings', 'LandmarkSettings', 'Reliability']

MOVED_WITHIN_S = 60.0
"""A landmark that is found gone may have appeared elsewhere this long before or after, seconds of stamps."""

Reliability = Literal['reliable', 'best_effort']
Seconds = Annotated[float, Field(ge=0.0)]
PositiveSeconds = Annotated[float, Field(gt=0.0)]
Metres = Annotated[float, Field(gt=0.0, le=1e6)]
Count = Annotated[int, Field(ge=1)]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]

# Message types that carry no class, so that the settings must name it.
IMAGE = 'sensor_msgs/msg/Image'
CAMERA_INFO = 'sensor_msgs/msg/CameraInfo'
GRID = 'nav_msgs/msg/OccupancyGrid'

CLASSLESS_TYPES = frozenset({'geometry_msgs/msg/PoseArray', 'geometry_msgs/msg/PoseStamped'})
# Those whose orientation is that of the thing.
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
    """Label of each class in the message; a class that is missing, or has the empty label, is refused.
    An instance (family:id of a tag, ns/id of a marker) may have a label of its own."""
    instance: Key | None = None
    """Key of the one thing this input reports; None: things are told apart by where they are."""
    min_score: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Least score of a detection that is used."""
    sigma_m: Metres = 0.05
    """Standard deviation of a position whose message gives no covariance, metres, on each axis."""
    sigma_floor_m: Annotated[float, Field(ge=0.0, le=1e6), NOT_A_PARAMETER] = 0.01
    """Least standard deviation that a single position is given, metres, whatever its message claims."""
    gate_m: Metres = 0.5
    """Largest distance between an observation and the landmark it is given to, metres."""
    min_range_m: Annotated[float, Field(ge=0.0)] = 0.0
    """Least distance from the origin of the message's frame, metres."""
    max_range_m: Annotated[float, Field(gt=0.0)] = 1e9
    """Largest distance from the origin of the message's frame, metres."""
    orientation: Literal['auto', 'none', 'object', 'axis'] = 'auto'
    """What the orientations in messages mean: nothing, how a thing is turned, or the direction of one of its
    axes; auto: how it is turned for PoseStamped and AprilTag, nothing for all others."""
    orientation_axis: Literal['x', 'y', 'z'] = 'z'
    """The axis that means something where orientation is axis."""
    detection_probability: Probability = 0.9
    """How likely a thing that can be seen is in a message, for what absence tells."""
    detection_probabilities: Mapping[Name, Probability] = Field(default_factory=dict)
    """The same for single labels."""
    fov_horizontal_rad: Annotated[float, Field(ge=0.0, le=6.3)] = 0.0
    """Horizontal field of view, radians; 0: not configured, so that nothing is ever missing."""
    fov_vertical_rad: Annotated[float, Field(ge=0.0, le=3.15)] = 0.0
    """Vertical field of view, radians; 0: not configured."""
    view_axis: Literal['x', 'z'] = 'z'
    """Axis of the message's frame that looks forward: z of an optical frame, x of a body (REP-103)."""
    visibility: Text = ''
    """Input of type sensor_msgs/msg/Image or nav_msgs/msg/OccupancyGrid that tells whether a place could be
    seen; empty: none, and what is missing is only marked stale."""
    camera_info: Text = ''
    """Input of type sensor_msgs/msg/CameraInfo that belongs to this one of type sensor_msgs/msg/Image."""
    tag_frames: Mapping[Name, FrameId] = Field(default_factory=dict)
    """Frame in tf of each tag (family:id) that the detector calls otherwise than by that name."""
    optional: bool = False
    """Go on without this input when its message type is not installed."""
    reliability: Reliability = 'best_effort'
    """Reliability that the subscription asks for."""
    durability: Literal['volatile', 'transient_local'] = 'volatile'
    """Whether the subscription also asks for what was published before it (latched topics)."""
    depth: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Messages that the subscription keeps, and that may wait to be decoded; beyond it the oldest is dropped
    and counted."""

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
    def is_waited_for(self) -> bool:
        """Whether observations wait for it; a map is seldom sent, and holds until the next one."""
        return self.type != GRID

    @property
    def watches(self) -> bool:
        """Whether its field of view is configured, so that things can be missing from it."""
        return self.fov_horizontal_rad > 0.0 and self.fov_vertical_rad > 0.0

    def detection_probability_of(self, label: str) -> float:
        """Return how likely a visible thing of this label is in a message."""
        return self.detection_probabilities.get(label, self.detection_probability)

    @property
    def turns(self) -> Literal['none', 'object', 'axis']:
        """What orientations mean, with ``auto`` resolved by the type."""
        if self.orientation != 'auto':
            return self.orientation
        return 'object' if self.type in TURNED_TYPES else 'none'


class LandmarkSettings(Contract):
    """How observations are ordered, associated, remembered and written."""

    global_frame: FrameId = 'map'
    """Fixed frame in which landmarks are kept."""
    base_frame: FrameId = 'base_link'
    """Frame of the robot's body, which sightings are relative to; one that tf does not know is left out."""
    keyframe_distance_m: Metres = 0.5
    """A new keyframe begins when the base has moved this far, metres."""
    keyframe_rest_s: PositiveSeconds = 60.0
    """Or rested this long, seconds of stamps."""
    inputs: tuple[InputSettings, ...] = ()
    """The declared inputs."""
    reorder_window_s: Seconds = 0.5
    """How far the watermark stays behind the newest stamp of an input, seconds of stamps."""
    pending_max_age_s: PositiveSeconds = 10.0
    """How far behind the newest stamp a message may wait for its transform, seconds of stamps."""
    pending_max: Annotated[Count, NOT_A_PARAMETER] = 2000
    """Most messages that wait; the oldest is dropped for a newer one."""
    uncommitted_max: Annotated[Count, NOT_A_PARAMETER] = 50_000
    """Most consumed messages that wait for a commit; beyond it new messages are dropped."""
    min_valid_stamp_s: Seconds = 0.0
    """Observations stamped before this are refused, seconds: a robot without battery clock boots in 1970."""
    confirm_n: Count = 3
    """Messages in which a landmark is seen before it is confirmed, and written."""
    move_min_m: Metres = 0.05
    """A confirmed landmark is not written again for a smaller displacement, metres."""
    move_sigmas: Annotated[float, Field(ge=0.0), NOT_A_PARAMETER] = 2.0
    """Nor for one of fewer standard deviations of its position."""
    localisation_sigma_m: Metres = 0.035
    """Standard deviation of where the robot is thought to be, metres, on each axis."""
    localisation_yaw_rad: Annotated[float, Field(ge=0.0, le=3.15)] = 0.002
    """Standard deviation of the heading, radians: it moves what is far away by as much more."""
    localisation_gate: bool = False
    """Take nothing from perception while no report says that the robot knows where it is."""
    localised_within_m: Metres = 0.5
    """Largest standard deviation of the robot's position with which perception is taken, metres."""
    localised_within_rad: Annotated[float, Field(gt=0.0, le=3.15)] = 0.35
    """Largest standard deviation of its heading, radians."""
    unique: tuple[Label, ...] = ()
    """Labels of which there is one thing at most in a map: seen elsewhere, it has moved."""
    sigma_floor_m: Annotated[Metres, NOT_A_PARAMETER] = 0.002
    """Least standard deviation of a landmark's position that is claimed, metres, on each axis."""
    gone_below: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.05
    """A landmark whose existence is less probable than this has ended."""
    stale_after: Count = 3
    """Viewpoints in a row from which a thing was not seen, without proof that it could be, that make it
    stale."""
    tentative_max: Annotated[Count, NOT_A_PARAMETER] = 10_000
    """Most unconfirmed landmarks of a map; those not seen for longest leave first."""
    statistics_interval_s: Annotated[Seconds, NOT_A_PARAMETER] = 45.0
    """How far stamps advance before a commit writes what is only statistics, seconds of stamps."""
    ledger_max_age_s: Annotated[PositiveSeconds, NOT_A_PARAMETER] = 2_592_000.0
    """How long the ledger keeps which landmark an observation was given to, seconds of stamps."""
    ledger_max_bytes: Annotated[Count, NOT_A_PARAMETER] = 2_097_152
    """Most bytes it uses for that; the oldest leave first."""

    @model_validator(mode='after')
    def _distinct(self) -> LandmarkSettings:
        names = [source.name for source in self.inputs]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f'inputs: the name {name!r} is given twice')
        types = {source.name: source.type for source in self.inputs}
        for source in self.inputs:
            for field, named, wanted in (
                ('visibility', source.visibility, (GRID, IMAGE)),
                ('camera_info', source.camera_info, (CAMERA_INFO,)),
            ):
                if named and types.get(named) not in wanted:
                    raise ValueError(
                        f'{field}: {named!r} of the input {source.name!r} is no input of type '
                        + ' or '.join(wanted)
                    )
        return self
