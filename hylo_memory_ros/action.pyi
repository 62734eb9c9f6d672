# Made by tools/write_stubs.py from the interface files.
from collections.abc import Sequence
from typing import ClassVar


__all__ = ['Maintain']

class Maintain:
    class Goal:
        CONSOLIDATE: ClassVar[str]
        REVERT_CONSOLIDATION: ClassVar[str]
        VERIFY: ClassVar[str]
        RESTORE: ClassVar[str]
        op: str
        scope: list[str]
        budget_items: int
        budget_bytes: int
        path: str
        dry_run: bool
        def __init__(
            self,
            *,
            op: str = ...,
            scope: list[str] = ...,
            budget_items: int = ...,
            budget_bytes: int = ...,
            path: str = ...,
            dry_run: bool = ...,
        ) -> None: ...

    class Result:
        report_json: str
        digest: str
        success: bool
        error_code: int
        message: str
        def __init__(
            self,
            *,
            report_json: str = ...,
            digest: str = ...,
            success: bool = ...,
            error_code: int = ...,
            message: str = ...,
        ) -> None: ...

    class Feedback:
        progress: float
        stage: str
        def __init__(
            self,
            *,
            progress: float = ...,
            stage: str = ...,
        ) -> None: ...
