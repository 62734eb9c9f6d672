"""Query model: filters, valid and transaction time, ranking weights, paging."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictBool, model_validator

from hylo_memory_ros.model.embedding import SpaceName, Vector
from hylo_memory_ros.model.item import Confidence, Link, MemoryKind
from hylo_memory_ros.model.pose import Pose
from hylo_memory_ros.model.skill import SkillStatus, validate_state
from hylo_memory_ros.model.time import StampNs, ns_from_seconds, rename_seconds, seconds_from_ns
from hylo_memory_ros.model.validation import Contract, Key, Label, Name, Text

MAX_K = 10_000
MAX_DEPTH = 8

Order = Literal['near', 'text', 'vector', 'recency', 'confidence', 'helpfulness']
Weight = Annotated[float, Field(ge=0.0, le=1000.0, strict=True)]


class MemoryQuery(Contract):
    """One query to the memory: filters, a place on the two time axes, and the size of the answer.

    Filters combine with AND; the values inside one filter with OR, except `entities`,
    `object_ids` and `scope`, of which an item must have all.

    Examples
    --------
    >>> query = MemoryQuery(labels=['mug'], near=(Pose(frame_id='map', position=(1, 2, 0)), 2.0), as_of=50)
    >>> query.as_of_ns
    50000000000
    """

    text: Text | None = None
    """Words that must all appear; operators of the engine have no meaning."""
    text_space: SpaceName | None = None
    """Compare `text` by its meaning: the embedder of this space makes the vector of `embedding` of it, and
    words do not filter."""
    kinds: frozenset[MemoryKind] | None = None
    """Kinds of memory."""
    key: Key | None = None
    """One key; short for ``keys=(key,)``."""
    keys: tuple[Key, ...] = ()
    """Keys of which an item must have one."""
    ids: tuple[Key, ...] = ()
    """Ids of which an item must have one."""
    labels: tuple[Label, ...] = ()
    """Labels of which an item must have one."""
    entities: tuple[Name, ...] = ()
    """Entities that an item must all name."""
    object_ids: tuple[Name, ...] = ()
    """Object ids that an item must all name."""
    relation: Link | None = None
    """A link that an item must have: ``("on", "O12")``."""
    depth: Annotated[int, Field(ge=1, le=MAX_DEPTH, strict=True)] = 1
    """Maximum number of links to follow: at 2 also items on something that is on O12. Without a `relation`,
    `entities` also matches the entities of items that are reached through links of any relation."""
    scope: Mapping[Name, Name] | None = None
    """Scope values that an item must all have; ``map_id`` also chooses the map that is searched."""
    episode: Key | None = None
    """Episode in which an item was written or repeated, or that its scope has as ``episode_id``."""
    outcome: Key | None = None
    """Items of any episode with this outcome; if `episode` is also given, both must match. Nothing in
    working memory matches."""
    any_map: bool = False
    """Search every map, not only the current one."""
    time_range_ns: tuple[StampNs | None, StampNs | None] | None = None
    """Closed interval that meets `event_time`, ns; an end may be None; ``time_range`` takes seconds."""
    near: tuple[Pose, Annotated[float, Field(ge=0.0)]] | None = None
    """Centre and radius in metres; the boundary belongs to it, and the frame must match."""
    horizontal: bool = False
    """Measure `near` in the plane of x and y only."""
    as_of_ns: StampNs | None = None
    """World time of the query, nanoseconds; None: now. ``as_of`` takes seconds."""
    known_at_ns: StampNs | None = None
    """Service time of the belief, nanoseconds; None: now. ``known_at`` takes seconds."""
    known_seq: Annotated[int, Field(ge=0, strict=True)] | None = None
    """Sequence of the belief; None: the newest."""
    include_invalidated: bool = False
    """Lift the filter on world time: one hit for each version, with its status."""
    include_stale: bool = True
    """Also answer landmarks that were not seen again although they should have been."""
    skill_status: Annotated[tuple[SkillStatus, ...], Field(min_length=1)] = ('verified',)
    """Statuses of which a skill must have one; name others to see what is proposed, refuted or deprecated."""
    state: Annotated[Mapping[str, Any], BeforeValidator(validate_state)] | None = None
    """The caller's state, a JSON object: of skills only those answer whose trigger and preconditions hold in
    it. None: whatever they are."""
    min_confidence: Confidence | None = None
    """Least confidence."""
    min_score: Annotated[float, Field(ge=0.0, le=1.0, strict=True)] | None = None
    """Least score."""
    min_existence: Annotated[float, Field(ge=0.0, le=1.0, strict=True)] | None = None
    """Least probability that a landmark still exists."""
    min_helpfulness: Annotated[float, Field(ge=0.0, le=1.0, strict=True)] | None = None
    """Least score of helpfulness; an item that was never judged has 0.5."""
    embedding: tuple[SpaceName, Vector] | None = None
    """A vector to compare with, and its space; only what has a vector there matches."""
    weights: Mapping[Order, Weight] = Field(default_factory=dict)
    """Weight of each order where several are fused: `near`, `text`, `vector`, `recency` (newest
    ``valid_from`` first), `confidence` and `helpfulness`; 0: it only filters. What is left out is as
    configured."""
    rerank: StrictBool | Name = False
    """Order the best hits once more. A name: by this entry point ``hylo_memory_ros.rerankers``, which gets
    the query and the best 100 hits, or k. True: compare them exactly, as every order does, and note it in
    the evidence."""
    k: Annotated[int, Field(ge=0, le=MAX_K, strict=True)] = 10
    """Most hits to answer; 0: counts only."""
    cursor: Text | None = None
    """Cursor of an earlier, truncated answer."""
    explain: bool = False
    """Count what was excluded even when k hits are found."""

    if TYPE_CHECKING:

        def __init__(self, **data: Any) -> None: ...

    @model_validator(mode='before')
    @classmethod
    def _seconds(cls, data: Any) -> Any:
        if isinstance(data, dict):
            data = dict(data)
            rename_seconds(data, 'as_of', 'known_at')
            if (span := data.pop('time_range', None)) is not None:
                if data.get('time_range_ns') is not None:
                    raise ValueError(
                        'time_range and time_range_ns are one value in two units: give one of them'
                    )
                if not isinstance(span, (tuple, list)):
                    raise ValueError(f'time_range: expected a pair of times, got {span!r}')
                data['time_range_ns'] = tuple(
                    None if end is None else ns_from_seconds(end, 'time_range') for end in span
                )
        return data

    @model_validator(mode='after')
    def _consistent(self) -> MemoryQuery:
        if self.key is not None and self.keys:
            raise ValueError('key and keys: give one of them')
        if self.known_at_ns is not None and self.known_seq is not None:
            raise ValueError('known_at and known_seq: give one of them')
        if self.text_space is not None and (self.text is None or self.embedding is not None):
            raise ValueError('text_space: expected a text, and no embedding beside it')
        start, end = self.time_range_ns or (None, None)
        if start is not None and end is not None and end < start:
            raise ValueError(f'time_range: its end {end} ns lies before its start {start} ns')
        if self.any_map and self.scope and 'map_id' in self.scope:
            raise ValueError("any_map and scope['map_id'] contradict each other: give one of them")
        return self

    @property
    def as_of(self) -> float | None:
        """World time of the query, in seconds."""
        return seconds_from_ns(self.as_of_ns)

    @property
    def known_at(self) -> float | None:
        """Service time of the belief, in seconds."""
        return seconds_from_ns(self.known_at_ns)

    @property
    def all_keys(self) -> tuple[str, ...]:
        """Keys of both fields."""
        return self.keys if self.key is None else (self.key,)
