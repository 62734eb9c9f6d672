"""Memory item: one immutable remembered statement."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator

from hylo_memory_ros.model.embedding import Embeddings
from hylo_memory_ros.model.pose import Pose, Vector3
from hylo_memory_ros.model.time import StampNs, TimeSpan, rename_seconds, seconds_from_ns
from hylo_memory_ros.model.validation import Contract, JsonObject, Key, Label, Name, Text


class MemoryKind(str, Enum):
    """Kind of memory that a statement belongs to."""

    WORKING = 'working'
    """In-process, bounded, never on disk."""
    EPISODIC = 'episodic'
    """What happened."""
    SEMANTIC = 'semantic'
    """What is generally so."""
    SPATIAL = 'spatial'
    """What is where."""
    SKILL = 'skill'
    """What can be done; admitted only through the validation gate."""


Confidence = Annotated[float, Field(ge=0.0, le=1.0)]
Link = tuple[Name, Name]


class MemoryItem(Contract):
    """One immutable remembered statement.

    Normalized when it is built: keys, frames, quaternions and -0.0. Texts in `content` and
    `payload` are kept as given.

    Examples
    --------
    >>> item = MemoryItem(kind='spatial', key='mug', content='red mug',
    ...                   pose=Pose(frame_id='/map', position=(1, 2, 0.8)), valid_from=12.5)
    >>> item.pose.frame_id, item.valid_from_ns
    ('map', 12500000000)
    """

    kind: MemoryKind
    """Kind of memory."""
    content: Text = ''
    """The statement for a human or a language model; returned as given."""
    key: Key | None = None
    """What the statement is about; a later statement with the same identity supersedes it."""
    label: Label = ''
    """Class of the thing (``mug``); empty: none."""
    payload: JsonObject = Field(default_factory=dict)
    """Structure that belongs to the kind: one JSON object."""
    entities: tuple[Name, ...] = ()
    """Names of the people, places and things it speaks of."""
    object_ids: tuple[Name, ...] = ()
    """Ids of objects it speaks of, in the numbering of their producer."""
    links: tuple[Link, ...] = ()
    """Relations to other things, as (relation, target id): ``("on", "O12")``."""
    scope: Mapping[Name, Name] = Field(default_factory=dict)
    """Where it belongs: ``map_id``, ``robot_id``, ``task_id``, ``episode_id``."""
    pose: Pose | None = None
    """Where the thing is."""
    extent: Vector3 | None = None
    """Size of its box along x y z of the pose, metres."""
    event_time: TimeSpan | None = None
    """When it happened in the world."""
    valid_from_ns: StampNs | None = None
    """When it became true, integer nanoseconds; ``valid_from`` takes seconds."""
    valid_from_assumed: bool = False
    """True when the store put its own clock into `valid_from_ns`."""
    confidence: Confidence = 1.0
    """How sure the producer is, 0 to 1."""
    source: Text = ''
    """Producer, ``component@version``."""
    evidence: tuple[Text, ...] = ()
    """URIs of what it was derived from."""
    provenance: JsonObject = Field(default_factory=dict)
    """How it came to be stored, such as the source frame and the transform used."""
    embeddings: Embeddings = Field(default_factory=dict)
    """Vectors by space ``name@version``, kept as float32."""
    id: Key | None = None
    """Name of this statement; given, or computed when it is stored."""

    if TYPE_CHECKING:

        def __init__(self, **data: Any) -> None: ...

    @model_validator(mode='before')
    @classmethod
    def _seconds(cls, data: Any) -> Any:
        if isinstance(data, dict):
            data = dict(data)
            rename_seconds(data, 'valid_from')
        return data

    @property
    def valid_from(self) -> float | None:
        """When it became true, in seconds."""
        return seconds_from_ns(self.valid_from_ns)
