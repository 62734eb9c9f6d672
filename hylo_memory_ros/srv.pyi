# Made by tools/write_stubs.py from the interface files.
from collections.abc import Sequence
from typing import ClassVar

from builtin_interfaces.msg import Time
from geometry_msgs.msg import PointStamped, PoseStamped, Transform
from hylo_memory_ros.msg import MemoryEvent, MemoryFilter, MemoryHit, MemoryItem, MemoryVersion
from nav_msgs.msg import Path

__all__ = ['Changes', 'CorrectMap', 'EditLandmark', 'Episode', 'Feedback', 'Flush', 'Forget', 'History', 'MayReuse', 'Purge', 'Query', 'Receipt', 'Render', 'ReportAbsent', 'Retract', 'SetMap', 'Snapshot', 'Write']

class Changes:
    class Request:
        epoch: str
        after_sequence: int
        limit: int
        def __init__(
            self,
            *,
            epoch: str = ...,
            after_sequence: int = ...,
            limit: int = ...,
        ) -> None: ...

    class Response:
        events: list[MemoryEvent]
        epoch: str
        last_sequence: int
        gap: bool
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            events: list[MemoryEvent] = ...,
            epoch: str = ...,
            last_sequence: int = ...,
            gap: bool = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class CorrectMap:
    class Request:
        map_id: str
        new_from_old: Transform
        path: Path
        revert_id: str
        dry_run: bool
        def __init__(
            self,
            *,
            map_id: str = ...,
            new_from_old: Transform = ...,
            path: Path = ...,
            revert_id: str = ...,
            dry_run: bool = ...,
        ) -> None: ...

    class Response:
        correction_id: str
        moved: int
        merged: int
        split: int
        sequence: int
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            correction_id: str = ...,
            moved: int = ...,
            merged: int = ...,
            split: int = ...,
            sequence: int = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class EditLandmark:
    class Request:
        PIN: ClassVar[str]
        UNPIN: ClassVar[str]
        CORRECT: ClassVar[str]
        SPLIT: ClassVar[str]
        MERGE: ClassVar[str]
        ATTACH: ClassVar[str]
        DETACH: ClassVar[str]
        DELETE: ClassVar[str]
        op: str
        ids: list[str]
        pose: PoseStamped
        label: str
        receipt_id: str
        frame_id: str
        actor: str
        def __init__(
            self,
            *,
            op: str = ...,
            ids: list[str] = ...,
            pose: PoseStamped = ...,
            label: str = ...,
            receipt_id: str = ...,
            frame_id: str = ...,
            actor: str = ...,
        ) -> None: ...

    class Response:
        ids: list[str]
        sequence: int
        receipt_id: str
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            ids: list[str] = ...,
            sequence: int = ...,
            receipt_id: str = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class Episode:
    class Request:
        BEGIN: ClassVar[str]
        END: ClassVar[str]
        op: str
        id: str
        outcome: str
        scope: list[str]
        note: str
        actor: str
        def __init__(
            self,
            *,
            op: str = ...,
            id: str = ...,
            outcome: str = ...,
            scope: list[str] = ...,
            note: str = ...,
            actor: str = ...,
        ) -> None: ...

    class Response:
        id: str
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            id: str = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class Feedback:
    class Request:
        receipt_id: str
        ids: list[str]
        outcome: str
        episode: str
        note: str
        actor: str
        def __init__(
            self,
            *,
            receipt_id: str = ...,
            ids: list[str] = ...,
            outcome: str = ...,
            episode: str = ...,
            note: str = ...,
            actor: str = ...,
        ) -> None: ...

    class Response:
        updated: int
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            updated: int = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class Flush:
    class Request:
        until: Time
        timeout_s: float
        def __init__(
            self,
            *,
            until: Time = ...,
            timeout_s: float = ...,
        ) -> None: ...

    class Response:
        watermark: Time
        pending: int
        sequence: int
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            watermark: Time = ...,
            pending: int = ...,
            sequence: int = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class Forget:
    class Request:
        filter: MemoryFilter
        reason: str
        actor: str
        dry_run: bool
        def __init__(
            self,
            *,
            filter: MemoryFilter = ...,
            reason: str = ...,
            actor: str = ...,
            dry_run: bool = ...,
        ) -> None: ...

    class Response:
        count: int
        ids: list[str]
        sequence: int
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            count: int = ...,
            ids: list[str] = ...,
            sequence: int = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class History:
    class Request:
        id: str
        kind: str
        key: str
        map_id: str
        limit: int
        cursor: str
        def __init__(
            self,
            *,
            id: str = ...,
            kind: str = ...,
            key: str = ...,
            map_id: str = ...,
            limit: int = ...,
            cursor: str = ...,
        ) -> None: ...

    class Response:
        versions: list[MemoryVersion]
        cursor: str
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            versions: list[MemoryVersion] = ...,
            cursor: str = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class MayReuse:
    class Request:
        have_json: str
        want_json: str
        def __init__(
            self,
            *,
            have_json: str = ...,
            want_json: str = ...,
        ) -> None: ...

    class Response:
        allowed: bool
        reasons: list[str]
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            allowed: bool = ...,
            reasons: list[str] = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class Purge:
    class Request:
        filter: MemoryFilter
        reason: str
        actor: str
        dry_run: bool
        def __init__(
            self,
            *,
            filter: MemoryFilter = ...,
            reason: str = ...,
            actor: str = ...,
            dry_run: bool = ...,
        ) -> None: ...

    class Response:
        count: int
        ids: list[str]
        sequence: int
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            count: int = ...,
            ids: list[str] = ...,
            sequence: int = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class Query:
    class Request:
        filter: MemoryFilter
        k: int
        cursor: str
        include: list[str]
        ids_only: bool
        explain: bool
        receipt: bool
        def __init__(
            self,
            *,
            filter: MemoryFilter = ...,
            k: int = ...,
            cursor: str = ...,
            include: list[str] = ...,
            ids_only: bool = ...,
            explain: bool = ...,
            receipt: bool = ...,
        ) -> None: ...

    class Response:
        hits: list[MemoryHit]
        ids: list[str]
        scores: Sequence[float]
        positions: Sequence[float]
        sequence: int
        total: int
        total_is_lower_bound: bool
        truncated: bool
        cursor: str
        center_used: PointStamped
        excluded_reasons: list[str]
        excluded_counts: Sequence[int]
        nearest_excluded_m: float
        receipt_id: str
        extra_json: str
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            hits: list[MemoryHit] = ...,
            ids: list[str] = ...,
            scores: Sequence[float] = ...,
            positions: Sequence[float] = ...,
            sequence: int = ...,
            total: int = ...,
            total_is_lower_bound: bool = ...,
            truncated: bool = ...,
            cursor: str = ...,
            center_used: PointStamped = ...,
            excluded_reasons: list[str] = ...,
            excluded_counts: Sequence[int] = ...,
            nearest_excluded_m: float = ...,
            receipt_id: str = ...,
            extra_json: str = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class Receipt:
    class Request:
        id: str
        def __init__(
            self,
            *,
            id: str = ...,
        ) -> None: ...

    class Response:
        receipt_json: str
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            receipt_json: str = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class Render:
    class Request:
        filter: MemoryFilter
        k: int
        max_tokens: int
        renderer: str
        def __init__(
            self,
            *,
            filter: MemoryFilter = ...,
            k: int = ...,
            max_tokens: int = ...,
            renderer: str = ...,
        ) -> None: ...

    class Response:
        text: str
        digest: str
        ids: list[str]
        segment_digests: list[str]
        receipt_id: str
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            text: str = ...,
            digest: str = ...,
            ids: list[str] = ...,
            segment_digests: list[str] = ...,
            receipt_id: str = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class ReportAbsent:
    class Request:
        id: str
        key: str
        label: str
        where: PointStamped
        radius_m: float
        observed_from: PoseStamped
        confidence: float
        actor: str
        def __init__(
            self,
            *,
            id: str = ...,
            key: str = ...,
            label: str = ...,
            where: PointStamped = ...,
            radius_m: float = ...,
            observed_from: PoseStamped = ...,
            confidence: float = ...,
            actor: str = ...,
        ) -> None: ...

    class Response:
        ids: list[str]
        existence: Sequence[float]
        statuses: list[str]
        receipt_id: str
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            ids: list[str] = ...,
            existence: Sequence[float] = ...,
            statuses: list[str] = ...,
            receipt_id: str = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class Retract:
    class Request:
        filter: MemoryFilter
        reason: str
        actor: str
        dry_run: bool
        def __init__(
            self,
            *,
            filter: MemoryFilter = ...,
            reason: str = ...,
            actor: str = ...,
            dry_run: bool = ...,
        ) -> None: ...

    class Response:
        count: int
        ids: list[str]
        sequence: int
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            count: int = ...,
            ids: list[str] = ...,
            sequence: int = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class SetMap:
    class Request:
        map_id: str
        create: bool
        def __init__(
            self,
            *,
            map_id: str = ...,
            create: bool = ...,
        ) -> None: ...

    class Response:
        previous: str
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            previous: str = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class Snapshot:
    class Request:
        copy_path: str
        def __init__(
            self,
            *,
            copy_path: str = ...,
        ) -> None: ...

    class Response:
        digest: str
        sequence: int
        complete: bool
        manifest_json: str
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            digest: str = ...,
            sequence: int = ...,
            complete: bool = ...,
            manifest_json: str = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

class Write:
    class Request:
        items: list[MemoryItem]
        request_id: str
        dry_run: bool
        actor: str
        def __init__(
            self,
            *,
            items: list[MemoryItem] = ...,
            request_id: str = ...,
            dry_run: bool = ...,
            actor: str = ...,
        ) -> None: ...

    class Response:
        ids: list[str]
        outcomes: list[str]
        closed_ids: list[str]
        sequence: int
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            ids: list[str] = ...,
            outcomes: list[str] = ...,
            closed_ids: list[str] = ...,
            sequence: int = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...
