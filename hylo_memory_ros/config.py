"""Typed configuration of the core, with a sentence for each field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hylo_memory_ros.model.embedding import Spaces
from hylo_memory_ros.model.query import Order
from hylo_memory_ros.model.time import ClockName
from hylo_memory_ros.model.validation import NOT_A_PARAMETER, Contract, Name, Text

# As nanoseconds, and added to any stamp, it still is an integer of 64 bits.
Seconds = Annotated[float, Field(ge=0.0, le=4e9)]
Count = Annotated[int, Field(ge=1)]
Limit = Annotated[int, Field(ge=0)]
Part = Annotated[float, Field(gt=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0, le=1000.0)]


class KindLimits(Contract):
    """Limits of one kind of memory in the main file, the archive not counted."""

    max_items: Limit = 0
    """Most statements in the main file. Beyond it ended statements move to the archive and events are
    consolidated; current statements and skills stay, with a warning. 0: no limit."""
    max_bytes: Limit = 0
    """Most bytes of these statements, approximately. 0: no limit."""
    max_age_s: Seconds = 0.0
    """Age at which ended statements and past events leave the main file, seconds. 0: never."""

    @property
    def any(self) -> bool:
        """True if a limit is set."""
        return bool(self.max_items or self.max_bytes or self.max_age_s)


class Retention(Contract):
    """Limits of each kind. What holds now is never dropped; a limit that stays exceeded is reported."""

    episodic: KindLimits = KindLimits()
    """Limits of events."""
    semantic: KindLimits = KindLimits()
    """Limits of facts."""
    spatial: KindLimits = KindLimits()
    """Limits of landmarks and other items with a place."""
    skill: Annotated[KindLimits, NOT_A_PARAMETER] = KindLimits()
    """Limits of skills."""
    target: Annotated[Part, NOT_A_PARAMETER] = 0.7
    """Part of a limit to which a kind is reduced once it exceeds the limit, on schedule and at low
    battery."""

    @property
    def any(self) -> bool:
        """True if any kind has a limit."""
        return any(limits.any for limits in self.by_kind.values())

    @property
    def by_kind(self) -> dict[str, KindLimits]:
        """The limits of each durable kind."""
        return {kind: limits for kind, limits in self if isinstance(limits, KindLimits)}


class ConsolidationSettings(Contract):
    """Settings of consolidation, which brings a memory within a budget."""

    summarizer: Name = 'extractive@1'
    """Summarizer of events, name@version: built in, or from an installed entry point."""
    group_items: Annotated[int, Field(ge=2, le=1000), NOT_A_PARAMETER] = 32
    """Most statements in one summary."""
    slice_items: Annotated[int, Field(ge=2, le=1000), NOT_A_PARAMETER] = 128
    """Most statements that one transaction ends while writers wait."""
    near_duplicate_space: Annotated[Text, NOT_A_PARAMETER] = ''
    """Embedding space in which near duplicates are also searched; empty: only words are compared."""
    near_duplicate_similarity: Annotated[Part, NOT_A_PARAMETER] = 0.95
    """Least cosine similarity of near duplicates."""


class MemoryConfig(Contract):
    """Settings of a `MemoryService`; those of identity are kept in the file and may not change."""

    identity_scope: tuple[Name, ...] = ('map_id',)
    """Scope names that are part of an identity, beside kind and key: a write supersedes statements of its
    own identity only."""
    clock: ClockName = 'wall'
    """Name of the service clock; event times of another clock are stored but not compared."""
    future_tolerance_s: Annotated[Seconds, NOT_A_PARAMETER] = 1.0
    """Largest time ahead of now at which a valid_from counts as current, seconds."""
    min_valid_stamp_s: Seconds = 0.0
    """Stamps before this are refused, seconds; a robot without a battery clock boots in 1970."""
    accept_older_clock: bool = False
    """Open a file whose last record lies far ahead of the clock."""
    max_clock_step_back_s: Annotated[Seconds, NOT_A_PARAMETER] = 3600.0
    """Largest time by which the clock may lie behind the last record of a file, seconds."""
    confidence_step: Annotated[Part, NOT_A_PARAMETER] = 0.05
    """Least change of confidence by which a repeated statement is merged into what is believed; a smaller
    one changes nothing."""
    max_items_per_write: Annotated[Count, NOT_A_PARAMETER] = 10_000
    """Most items in one write."""
    max_payload_bytes: Annotated[Count, NOT_A_PARAMETER] = 262_144
    """Most bytes of one payload as JSON in UTF-8."""
    max_payload_depth: Annotated[int, Field(ge=1, le=128), NOT_A_PARAMETER] = 32
    """Deepest nesting of one payload."""
    max_content_bytes: Annotated[Count, NOT_A_PARAMETER] = 1_048_576
    """Most bytes of one content in UTF-8."""
    working_capacity: Count = 1024
    """Most items of working memory; the least recently used leaves first."""
    working_item_bytes: Annotated[Count, NOT_A_PARAMETER] = 65_536
    """Most bytes of one item of working memory as JSON in UTF-8; a larger one is refused."""
    working_limit_bytes: Count = 16_777_216
    """Most bytes of all items of working memory; the least recently used leaves first."""
    retention: Retention = Retention()
    """Limits of each kind of memory."""
    consolidation: ConsolidationSettings = ConsolidationSettings()
    """Settings of consolidation."""
    weights: Mapping[Order, Weight] = Field(default_factory=dict)
    """Weight of each order in reciprocal rank fusion. Default: near, text and vector 1; recency,
    confidence and helpfulness 0. A query may override it."""
    helpfulness_success_outcomes: tuple[Name, ...] = ('success', 'succeeded')
    """Outcomes of an episode that count in favour of the items retrieved in it; case is ignored."""
    helpfulness_failure_outcomes: tuple[Name, ...] = ('failure', 'failed', 'aborted')
    """Outcomes of an episode that count against the items retrieved in it; other outcomes do not count."""
    feedback_retention: Annotated[Count, NOT_A_PARAMETER] = 50_000
    """Verdicts that are kept, so that a repeated one replaces the earlier; the counts of items stay."""
    skill_directory: str = ''
    """Directory of skill files, one JSON file a version. Empty: the name of the database with .skills
    added, none for an in-memory database; :memory: disables it."""
    skill_min_traces: Limit = 3
    """Least number of distinct trace references as evidence of a verified skill."""
    skill_min_useful: Limit = 3
    """Least number of `useful` verdicts of a verified skill."""
    skill_max_misleading_share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.2
    """Largest share of misleading and wrong verdicts of a verified skill; not_applicable is not counted."""
    embedding_spaces: Spaces = Field(default_factory=dict)
    """Embedding spaces by ``name@version``; an undeclared space takes the dimension of its first vector,
    and cosine."""
    episode_events: Annotated[int, Field(ge=0, le=1000), NOT_A_PARAMETER] = 8
    """Most key events that the end of an episode writes; 0: only its outcome and counts."""
    episode_at_restart: Literal['keep', 'interrupt'] = 'keep'
    """Treatment of an episode that is open when the memory is opened: keep continues it, interrupt ends it
    as ``interrupted`` at the last recorded time."""
    event_retention: Count = 100_000
    """Transactions that stay in the change feed."""
    request_retention: Count = 10_000
    """Writes whose answer is kept for a repeated request_id."""
    receipts: Literal['off', 'requested', 'all'] = 'requested'
    """Queries whose evidence is kept: none, those that request a receipt, or all."""
    receipt_retention: Count = 10_000
    """Receipts that are kept; the oldest are deleted first."""
    receipt_limit_bytes: Count = 67_108_864
    """Bytes of all receipts, at most; the oldest are deleted first."""
    renderer: Name = 'hylo-prelude@1'
    """Renderer of prompts, name@version: built in, or from an installed entry point."""
    token_counter: Name = 'half_of_ascii@1'  # noqa: S105 - a name, no secret
    """Token counter of prompts, name@version: built in, or from an installed entry point."""
    wal_limit_bytes: Annotated[Count, NOT_A_PARAMETER] = 16_777_216
    """Size to which the write-ahead log is truncated, bytes."""
    archive_path: Text = ''
    """File of the archive, which holds ended statements; empty: the database's name with .archive added."""
    accept_lost_archive: bool = False
    """Open although the archive is missing or refused: queries of the past in it are refused, everything
    else works."""
    busy_timeout_s: Annotated[float, Field(ge=0.0, le=3600.0), NOT_A_PARAMETER] = 5.0
    """Time that a writer waits for the lock of another connection, seconds."""

    @model_validator(mode='after')
    def _distinct_outcomes(self) -> MemoryConfig:
        success, failure = self.helpfulness_success_outcomes, self.helpfulness_failure_outcomes
        if both := {word.casefold() for word in success} & {word.casefold() for word in failure}:
            raise ValueError(
                f'helpfulness_success_outcomes and helpfulness_failure_outcomes: {min(both)!r} cannot be both'
            )
        return self

    @model_validator(mode='after')
    def _known_space(self) -> MemoryConfig:
        space = self.consolidation.near_duplicate_space
        if space and self.embedding_spaces and space not in self.embedding_spaces:
            raise ValueError(
                f'consolidation.near_duplicate_space: {space!r} is none of the embedding_spaces '
                f'{", ".join(self.embedding_spaces)}'
            )
        return self

    @model_validator(mode='after')
    def _room_for_one(self) -> MemoryConfig:
        if self.working_item_bytes > self.working_limit_bytes:
            raise ValueError(
                f'working_item_bytes: {self.working_item_bytes} is more than working_limit_bytes '
                f'{self.working_limit_bytes}: such an item could not stay'
            )
        return self
