"""Typed configuration of the core, with a sentence for each field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hylo_memory_ros.model._contract import NOT_A_PARAMETER, Contract
from hylo_memory_ros.model._text import Name, Text
from hylo_memory_ros.model.embedding import Spaces
from hylo_memory_ros.model.query import Order
from hylo_memory_ros.model.time import ClockName

__all__ = ['ConsolidationSettings', 'KindLimits', 'MemoryConfig', 'Retention']

# As nanoseconds, and added to any stamp, it still is an integer of 64 bits.
Seconds = Annotated[float, Field(ge=0.0, le=4e9)]
Count = Annotated[int, Field(ge=1)]
Limit = Annotated[int, Field(ge=0)]
Part = Annotated[float, Field(gt=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0, le=1000.0)]


class KindLimits(Contract):
    """Limits of one kind of memory in the main file, the archive not counted."""

    max_items: Limit = 0
    """Most statements that stay at hand; beyond it what has ended is moved to the archive and events are
    consolidated; what else holds, and skills, stay, with a warning. 0: any number."""
    max_bytes: Limit = 0
    """Most bytes that they take, about; 0: any number."""
    max_age_s: Seconds = 0.0
    """How long what has ended, or an event since it happened, stays at hand, seconds; 0: for ever."""

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
    """Limits of what has a place."""
    skill: KindLimits = KindLimits()
    """Limits of skills."""
    target: Part = 0.7
    """Part of a limit to which a kind is brought once it is over it, on schedule and at low battery."""

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

    summariser: Name = 'extractive@1'
    """What makes one text of many, name@version: ours, or one of an installed entry point."""
    group_items: Annotated[int, Field(ge=2, le=1000), NOT_A_PARAMETER] = 32
    """Most statements that one summary stands for."""
    slice_items: Annotated[int, Field(ge=2, le=1000), NOT_A_PARAMETER] = 128
    """Most statements that one transaction ends, for which writers wait; in memory those of one summary."""
    near_duplicate_space: Text = ''
    """Embedding space whose vectors also tell near duplicates; empty: only words do."""
    near_duplicate_similarity: Annotated[Part, NOT_A_PARAMETER] = 0.95
    """Cosine of two vectors from which on they are near duplicates."""


class MemoryConfig(Contract):
    """Settings of a `MemoryService`; those of identity are kept in the file and may not change."""

    identity_scope: tuple[Name, ...] = ('map_id',)
    """Scope names whose values, beside kind and key, decide what a new write may supersede."""
    clock: ClockName = 'wall'
    """Name of the service clock; event times of another clock are stored, but not compared."""
    future_tolerance_s: Annotated[Seconds, NOT_A_PARAMETER] = 1.0
    """How far ahead of now a valid_from may lie and still count as current, seconds."""
    min_valid_stamp_s: Seconds = 0.0
    """Stamps before this are refused, seconds; a robot without a battery clock boots in 1970."""
    accept_older_clock: bool = False
    """Open a file although its last record lies far ahead of the clock."""
    max_clock_step_back_s: Annotated[Seconds, NOT_A_PARAMETER] = 3600.0
    """How far the clock may lie behind the last record of a file that is opened, seconds."""
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
    """How much of each kind stays at hand."""
    consolidation: ConsolidationSettings = ConsolidationSettings()
    """How happenings become fewer."""
    weights: Mapping[Order, Weight] = Field(default_factory=dict)
    """Weight of each order where several are fused by reciprocal rank: near, text and vector count 1 and
    recency, confidence and helpfulness 0 unless they are given here or in the query."""
    helpfulness_success_outcomes: tuple[Name, ...] = ('success', 'succeeded')
    """Outcomes of an episode that speak for what was looked up in it, in any case of letters."""
    helpfulness_failure_outcomes: tuple[Name, ...] = ('failure', 'failed', 'aborted')
    """Outcomes of an episode that speak against what was looked up in it; of any other nothing follows."""
    feedback_retention: Annotated[Count, NOT_A_PARAMETER] = 50_000
    """Verdicts that stay, so that one given again replaces it; what they counted stays with the items."""
    skill_directory: str = ''
    """Directory of skill files, one JSON file a version. Empty: the name of the database with .skills added,
    and none for a memory that keeps nothing; :memory: is none for any."""
    skill_min_traces: Limit = 3
    """Least number of distinct trace references that a verified skill needs as evidence."""
    skill_min_useful: Limit = 3
    """Least number of verdicts `useful` that a verified skill needs."""
    skill_max_misleading_share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.2
    """Largest share of misleading and wrong verdicts that a verified skill may have; not_applicable does not
    count."""
    embedding_spaces: Spaces = Field(default_factory=dict)
    """Embedding spaces by ``name@version``; none: a space is what its first vector is, compared by cosine."""
    episode_events: Annotated[int, Field(ge=0, le=1000), NOT_A_PARAMETER] = 8
    """Most key events that the end of an episode writes one by one; 0: only its outcome and counts."""
    episode_at_restart: Literal['keep', 'interrupt'] = 'keep'
    """What becomes of an episode that is open when the memory is opened: it goes on, or it has ended as
    ``interrupted`` at the last time that is recorded."""
    event_retention: Count = 100_000
    """Transactions whose ids stay in the change feed."""
    request_retention: Count = 10_000
    """Writes whose answer is kept for a repeated request_id."""
    receipts: Literal['off', 'requested', 'all'] = 'requested'
    """Of which queries the evidence is kept: none, those that ask for it, or all."""
    receipt_retention: Count = 10_000
    """Receipts that stay; the oldest leave."""
    receipt_limit_bytes: Count = 67_108_864
    """Bytes that all receipts may take; the oldest leave."""
    renderer: Name = 'hylo-prelude@1'
    """Renderer of prompts, name@version: ours, or one of an installed entry point."""
    token_counter: Name = 'half_of_ascii@1'  # noqa: S105 - a name, no secret
    """Counter of a prompt's tokens, name@version: ours, or one of an installed entry point."""
    wal_limit_bytes: Annotated[Count, NOT_A_PARAMETER] = 16_777_216
    """Size to which the write-ahead log is cut back."""
    archive_path: Text = ''
    """File of the archive, which holds what has ended; empty: the database's own name with .archive added."""
    accept_lost_archive: bool = False
    """Open although the archive file is missing or refused: queries about the past that it holds are refused,
    all else goes on."""
    busy_timeout_s: Annotated[float, Field(ge=0.0, le=3600.0), NOT_A_PARAMETER] = 5.0
    """How long a writer waits for the lock of another connection, seconds."""

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
