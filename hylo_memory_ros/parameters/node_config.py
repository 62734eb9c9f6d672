"""What can be configured on the node: typed, frozen, a sentence for each field."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model._contract import Contract
from hylo_memory_ros.model._text import FrameId
from hylo_memory_ros.perception import InputSettings, LandmarkSettings

__all__ = ['NodeConfig']

PositiveSeconds = Annotated[float, Field(gt=0.0, le=3600.0)]


class NodeConfig(Contract):
    """Settings of the node; those of the memory and of perception are composed into it."""

    database_path: str = '~/.ros/hylo_memory/memory.db'
    """SQLite file of the memory, or its sqlite URL; a leading ~ is the home, :memory: keeps nothing."""
    map_id: str = ''
    """Map that the robot is in when the node is configured; ~/set_map changes it. Empty: none."""
    global_frame: FrameId = 'map'
    """Fixed frame in which poses are stored."""
    base_frame: FrameId = 'base_link'
    """Frame of the robot's body: sightings are kept relative to it, markers show what is nearest to it."""
    localisation_topic: str = ''
    """Topic of the robot's PoseWithCovarianceStamped, such as amcl_pose: perception is taken once that is
    sure enough. Empty: always."""
    untransformable: Literal['reject', 'keep_frame'] = 'reject'
    """What to do with a pose that cannot be transformed into the global frame: refuse it, or keep it."""
    tf_timeout_s: Annotated[float, Field(ge=0.0, le=60.0)] = 1.0
    """How long a request waits for a transform that is too new, on the steady clock, seconds."""
    tf_buffer_s: PositiveSeconds = Field(default=30.0, json_schema_extra={'read_only': True})
    """How long transforms are kept, seconds."""
    commit_interval_s: Annotated[float, Field(gt=0.0, le=60.0)] = 1.0
    """How often perception is committed, seconds; acknowledged writes never wait for it."""
    reply_limit_bytes: Annotated[int, Field(ge=4096, le=67_108_864)] = 524_288
    """Size to which a reply is cut; its cursor tells where to go on."""
    status_interval_s: Annotated[float, Field(ge=0.05, le=60.0)] = 0.2
    """Shortest time between two messages on ~/status, seconds; only changes are published."""
    consolidate_interval_s: Annotated[float, Field(ge=0.0, le=31_536_000.0)] = 0.0
    """Time between two consolidations that bring every kind to retention.target of its limits, seconds; 0:
    only when one is over a limit, or on request."""
    battery_topic: str = ''
    """Topic of the robot's sensor_msgs/BatteryState. Empty: none."""
    consolidate_below_battery: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Part of the battery's capacity at or below which memory is consolidated, once in each discharge; needs
    battery_topic. 0: never."""
    consolidate_at_shutdown: bool = False
    """Consolidate when the node is shut down too, for as long as a shutdown may take."""
    publish_retrievals: bool = False
    """Publish each retrieval on ~/events too: query, hits and scores, at the sequence that it read."""
    publish_markers: bool = True
    """Publish ~/markers while somebody subscribes."""
    service_introspection: Literal['off', 'metadata', 'contents'] = 'off'
    """What the services publish about their calls on their _service_event topics."""
    bond_enabled: bool = True
    """Bind to a lifecycle manager (Nav2) by a bond while active, where bondpy is installed."""
    autostart: bool = Field(default=False, json_schema_extra={'read_only': True})
    """Configure and activate when the process starts; for use without a launch file or manager."""
    memory: MemoryConfig = MemoryConfig()
    """Settings of the memory itself."""
    landmarks: LandmarkSettings = LandmarkSettings()
    """Settings of perception."""
    inputs: tuple[InputSettings, ...] = ()
    """Perception inputs."""

    @model_validator(mode='after')
    def _named_database(self) -> NodeConfig:
        if not self.database_path.strip():
            raise ValueError("database_path: '' names no file (':memory:' keeps nothing)")
        return self

    @model_validator(mode='after')
    def _consolidates(self) -> NodeConfig:
        wishes = {
            'consolidate_interval_s': self.consolidate_interval_s,
            'consolidate_below_battery': self.consolidate_below_battery,
            'consolidate_at_shutdown': self.consolidate_at_shutdown,
        }
        problems = [
            f'{name}: {value!r}, but there is no retention limit that says to what size'
            for name, value in wishes.items()
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
    def _sound_inputs(self) -> NodeConfig:
        try:
            self.perception  # noqa: B018 - what inputs must be to each other is said there
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
                'localisation_gate': bool(self.localisation_topic),
                'inputs': self.inputs,
                'min_valid_stamp_s': self.memory.min_valid_stamp_s,
            }
        )
