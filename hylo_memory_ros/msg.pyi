# Made by tools/write_stubs.py from the interface files.
from collections.abc import Sequence
from typing import ClassVar

from builtin_interfaces.msg import Time
from geometry_msgs.msg import PointStamped, Pose, Vector3
from std_msgs.msg import Header

__all__ = ['ErrorCode', 'MemoryEvent', 'MemoryFilter', 'MemoryHit', 'MemoryItem', 'MemoryStatus', 'MemoryVersion']

class ErrorCode:
    OK: ClassVar[int]
    INVALID_REQUEST: ClassVar[int]
    INVALID_FIELD: ClassVar[int]
    TOO_LARGE: ClassVar[int]
    UNSUPPORTED: ClassVar[int]
    NOT_FOUND: ClassVar[int]
    EMBEDDING_MISMATCH: ClassVar[int]
    NOT_ADMITTED: ClassVar[int]
    FRAME_UNKNOWN: ClassVar[int]
    FRAME_DISCONNECTED: ClassVar[int]
    TRANSFORM_TOO_OLD: ClassVar[int]
    MAP_UNKNOWN: ClassVar[int]
    CLOCK: ClassVar[int]
    EPOCH_CHANGED: ClassVar[int]
    STORE_FULL: ClassVar[int]
    ID_CONFLICT: ClassVar[int]
    READ_ONLY: ClassVar[int]
    DAMAGED: ClassVar[int]
    IN_USE: ClassVar[int]
    NOT_ACTIVE: ClassVar[int]
    LOADING: ClassVar[int]
    NOT_LOCALIZED: ClassVar[int]
    BUSY: ClassVar[int]
    TRANSFORM_TOO_NEW: ClassVar[int]
    INTERNAL: ClassVar[int]
    def __init__(
        self,
    ) -> None: ...

class MemoryEvent:
    header: Header
    epoch: str
    sequence: int
    op: str
    ids: list[str]
    keys: list[str]
    outcomes: list[str]
    actor: str
    receipt_id: str
    episode: str
    extra_json: str
    def __init__(
        self,
        *,
        header: Header = ...,
        epoch: str = ...,
        sequence: int = ...,
        op: str = ...,
        ids: list[str] = ...,
        keys: list[str] = ...,
        outcomes: list[str] = ...,
        actor: str = ...,
        receipt_id: str = ...,
        episode: str = ...,
        extra_json: str = ...,
    ) -> None: ...

class MemoryFilter:
    ids: list[str]
    kinds: list[str]
    keys: list[str]
    labels: list[str]
    entities: list[str]
    object_ids: list[str]
    text: str
    relation: str
    scope: list[str]
    map_id: str
    any_map: bool
    near: PointStamped
    radius_m: float
    horizontal: bool
    time_start: Time
    time_end: Time
    as_of: Time
    known_at: Time
    known_seq: int
    include_invalidated: bool
    include_stale: bool
    min_confidence: float
    min_existence: float
    min_score: float
    embedding_space: str
    embedding: Sequence[float]
    options_json: str
    def __init__(
        self,
        *,
        ids: list[str] = ...,
        kinds: list[str] = ...,
        keys: list[str] = ...,
        labels: list[str] = ...,
        entities: list[str] = ...,
        object_ids: list[str] = ...,
        text: str = ...,
        relation: str = ...,
        scope: list[str] = ...,
        map_id: str = ...,
        any_map: bool = ...,
        near: PointStamped = ...,
        radius_m: float = ...,
        horizontal: bool = ...,
        time_start: Time = ...,
        time_end: Time = ...,
        as_of: Time = ...,
        known_at: Time = ...,
        known_seq: int = ...,
        include_invalidated: bool = ...,
        include_stale: bool = ...,
        min_confidence: float = ...,
        min_existence: float = ...,
        min_score: float = ...,
        embedding_space: str = ...,
        embedding: Sequence[float] = ...,
        options_json: str = ...,
    ) -> None: ...

class MemoryHit:
    item: MemoryItem
    status: str
    valid_to: Time
    last_observed: Time
    observations: int
    sequence: int
    score: float
    distance_m: float
    existence: float
    p_within: float
    text_score: float
    vector_score: float
    details_json: str
    def __init__(
        self,
        *,
        item: MemoryItem = ...,
        status: str = ...,
        valid_to: Time = ...,
        last_observed: Time = ...,
        observations: int = ...,
        sequence: int = ...,
        score: float = ...,
        distance_m: float = ...,
        existence: float = ...,
        p_within: float = ...,
        text_score: float = ...,
        vector_score: float = ...,
        details_json: str = ...,
    ) -> None: ...

class MemoryItem:
    WORKING: ClassVar[str]
    EPISODIC: ClassVar[str]
    SEMANTIC: ClassVar[str]
    SPATIAL: ClassVar[str]
    SKILL: ClassVar[str]
    header: Header
    id: str
    kind: str
    key: str
    label: str
    content: str
    pose: Pose
    has_orientation: bool
    covariance: Sequence[float]
    extent: Vector3
    event_start: Time
    event_end: Time
    valid_from: Time
    confidence: float
    map_id: str
    scope: list[str]
    entities: list[str]
    object_ids: list[str]
    links: list[str]
    source: str
    payload_json: str
    evidence: list[str]
    embedding_space: str
    embedding: Sequence[float]
    extra_json: str
    def __init__(
        self,
        *,
        header: Header = ...,
        id: str = ...,
        kind: str = ...,
        key: str = ...,
        label: str = ...,
        content: str = ...,
        pose: Pose = ...,
        has_orientation: bool = ...,
        covariance: Sequence[float] = ...,
        extent: Vector3 = ...,
        event_start: Time = ...,
        event_end: Time = ...,
        valid_from: Time = ...,
        confidence: float = ...,
        map_id: str = ...,
        scope: list[str] = ...,
        entities: list[str] = ...,
        object_ids: list[str] = ...,
        links: list[str] = ...,
        source: str = ...,
        payload_json: str = ...,
        evidence: list[str] = ...,
        embedding_space: str = ...,
        embedding: Sequence[float] = ...,
        extra_json: str = ...,
    ) -> None: ...

class MemoryStatus:
    header: Header
    map_id: str
    epoch: str
    sequence: int
    mirror_sequence: int
    inputs: list[str]
    watermark_ns: Sequence[int]
    pending: Sequence[int]
    dropped: Sequence[int]
    late: Sequence[int]
    refused: Sequence[int]
    items: int
    landmarks: int
    def __init__(
        self,
        *,
        header: Header = ...,
        map_id: str = ...,
        epoch: str = ...,
        sequence: int = ...,
        mirror_sequence: int = ...,
        inputs: list[str] = ...,
        watermark_ns: Sequence[int] = ...,
        pending: Sequence[int] = ...,
        dropped: Sequence[int] = ...,
        late: Sequence[int] = ...,
        refused: Sequence[int] = ...,
        items: int = ...,
        landmarks: int = ...,
    ) -> None: ...

class MemoryVersion:
    hit: MemoryHit
    recorded_at: Time
    superseded_at: Time
    superseded_sequence: int
    cause: str
    def __init__(
        self,
        *,
        hit: MemoryHit = ...,
        recorded_at: Time = ...,
        superseded_at: Time = ...,
        superseded_sequence: int = ...,
        cause: str = ...,
    ) -> None: ...
