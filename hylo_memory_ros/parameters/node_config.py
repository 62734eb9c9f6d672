"""Typed configuration of the node."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model.validation import Contract, FrameId
from hylo_memory_ros.perception import InputSettings, LandmarkSettings

PositiveSeconds = Annotated[float, Field(gt=0.0, le=3600.0)]


class NodeConfig(Contract):
    """Settings of the node; those of the memory and of perception are composed into it."""

    database_path: str = '~/.ros/hylo_memory/memory.db'
    """SQLite file of the memory, or its sqlite URL; a leading ~ is the home directory, :memory: keeps
    nothing."""
    copy_directory: str = ''
    """Directory of the copies that ~/snapshot makes; a copy_path that leaves it is refused. Empty: the
    directory of the database."""
    map_id: str = ''
    """Map of the robot when the node is configured; ~/set_map changes it. Empty: none."""
    global_frame: FrameId = 'map'
    """Fixed frame in which poses are stored."""
    base_frame: FrameId = 'base_link'
    """Frame of the robot's body, to which sightings are relative and markers are nearest."""
    localization_topic: str = ''
    """Topic of the robot's PoseWithCovarianceStamped, such as amcl_pose; perception is used only while its
    covariance is small enough. Empty: always."""
    untransformable: Literal['reject', 'keep_frame'] = 'reject'
    """Treatment of a pose that cannot be transformed into the global frame."""
    tf_timeout_s: Annotated[float, Field(ge=0.0, le=60.0)] = 1.0
    """Time that a request waits for a transform that is not there yet, on the steady clock, seconds."""
    tf_max_age_s: Annotated[float, Field(ge=0.0, le=3600.0)] = 5.0
    """Largest age of the newest transform for a centre without a stamp, by the node's clock, seconds; an
    older one does not tell where the frame is now, and is refused. 0: any age."""
    tf_buffer_s: PositiveSeconds = Field(default=30.0, json_schema_extra={'read_only': True})
    """Time that transforms are kept, seconds; while received messages need them, up to ten times as long."""
    clock_jump_back_s: PositiveSeconds = Field(default=1.0, json_schema_extra={'read_only': True})
    """Step back of the clock, from its furthest time, that counts as a new run: transforms and pending
    messages of the old time are dropped. A smaller one changes nothing, seconds."""
    commit_interval_s: Annotated[float, Field(gt=0.0, le=60.0)] = 1.0
    """Period of commits of perception, seconds; acknowledged writes are committed at once."""
    reply_limit_bytes: Annotated[int, Field(ge=4096, le=67_108_864)] = 524_288
    """Size at which a reply is truncated, bytes; its cursor continues it."""
    status_interval_s: Annotated[float, Field(ge=0.05, le=60.0)] = 0.2
    """Shortest time between two messages on ~/status, seconds; only changes are published."""
    consolidate_interval_s: Annotated[float, Field(ge=0.0, le=31_536_000.0)] = 0.0
    """Period of consolidations that reduce every kind to 0.7 of its limits, seconds; 0: only
    when a limit is exceeded, or on request."""
    battery_topic: str = ''
    """Topic of the robot's sensor_msgs/BatteryState. Empty: none."""
    consolidate_below_battery: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Charge of the battery, 0 to 1, at or below which memory is consolidated, once in each discharge;
    needs battery_topic. 0: never."""
    consolidate_at_shutdown: bool = False
    """Consolidate at shutdown, within the time that a shutdown may take."""
    publish_retrievals: bool = False
    """Publish each retrieval on ~/events: query, hits and scores at the sequence that was read."""
    publish_markers: bool = True
    """Publish ~/markers while somebody subscribes."""
    service_introspection: Literal['off', 'metadata', 'contents'] = 'off'
    """Content of the _service_event topics of the services."""
    bond_enabled: bool = True
    """Form a bond with a lifecycle manager (Nav2) while active, where bondpy is installed."""
    autostart: bool = Field(default=False, json_schema_extra={'read_only': True})
    """Configure and activate at process start, without a launch file or manager."""
    memory: MemoryConfig = MemoryConfig()
    """Settings of the memory."""
    landmarks: LandmarkSettings = LandmarkSettings()
    """Settings of perception."""
    inputs: tuple[InputSettings, ...] = ()
    """Perception inputs."""

    @model_validator(mode='after')
    def _check_database(self) -> NodeConfig:
        if not self.database_path.strip():
            raise ValueError("database_path: '' expected a file (':memory:' keeps nothing)")
        return self

    @model_validator(mode='after')
    def _check_consolidation(self) -> NodeConfig:
        requested = {
            'consolidate_interval_s': self.consolidate_interval_s,
            'consolidate_below_battery': self.consolidate_below_battery,
            'consolidate_at_shutdown': self.consolidate_at_shutdown,
        }
        problems = [
            f'{name}: {value!r}, but there is no retention limit to consolidate to'
            for name, value in requested.items()
            if value and not self.memory.retention.any
        ]
        if self.consolidate_below_battery and not self.battery_topic:
            problems.append(
                f'consolidate_below_battery: {self.consolidate_below_battery!r}, but battery_topic names none'
            )
        if problems:
            raise ValueError('; '.join(problems))
        return self

    @model_validator(mode='after')
    def _check_inputs(self) -> NodeConfig:
        try:
            self.perception  # noqa: B018 - it validates the inputs against each other
        except ValidationError as exc:
            raise ValueError('; '.join(str(problem['msg']) for problem in exc.errors())) from exc
        return self

    @property
    def perception(self) -> LandmarkSettings:
        """The settings of perception, with what the node and the memory decide filled in."""
        return LandmarkSettings.model_validate(
            {
                **dict(self.landmarks),
                'global_frame': self.global_frame,
                'base_frame': self.base_frame,
                'localization_gate': bool(self.localization_topic),
                'inputs': self.inputs,
                'min_valid_stamp_s': self.memory.min_valid_stamp_s,
            }
        )
