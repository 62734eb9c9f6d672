"""Result types of the service: writes, hits, versions, changes, verification, corrections, episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, overload

from hylo_memory_ros.model.feedback import Helpfulness
from hylo_memory_ros.model.item import MemoryItem
from hylo_memory_ros.model.pose import Pose
from hylo_memory_ros.model.time import seconds_from_ns

Exactness = Literal[
    'exact_reference',
    'approximate_candidate_generation_with_exact_rerank',
]


@dataclass(frozen=True, slots=True)
class CandidateEvidence:
    """Evidence of one source of candidates for one query."""

    backend: str
    """What found them: ``mirror``, ``fts5``, ``sql``, ``working``, ``exact``, ``usearch``, …"""
    generation_id: str = ''
    """Derived generation that was searched; empty: none was."""
    requested: int = 0
    """Candidates that were requested; 0: all."""
    returned: int = 0
    """How many the source gave."""
    after_filter: int = 0
    """How many of them passed every filter and both time axes."""
    scanned: int = 0
    """How many rows or vectors were looked at; 0 where the source does not count."""
    missing: int = 0
    """Matches that the generation did not hold."""
    stale: int = 0
    """Entries of the generation that are no longer what the store holds."""
    corrupt: int = 0
    """Entries that failed their digest."""
    reranked: int = 0
    """How many were compared again in exact float32."""
    exactness: Exactness = 'exact_reference'
    """Whether anything that matches can be missing."""
    degradations: tuple[str, ...] = ()
    """What was given up, each in one sentence."""
    fallback: str = ''
    """Why the exact way was taken instead of the configured one; empty: it was not."""


Outcome = Literal['ADD', 'INVALIDATE', 'SKIP_DUP', 'MERGE']
Status = Literal['current', 'scheduled', 'invalidated', 'forgotten', 'ended', 'stale']


def status_at(at_ns: int, valid_from_ns: int, valid_to_ns: int | None, ended_by: str | None) -> Status:
    """Return how a version stands at a world time: what ends later is still current."""
    if at_ns < valid_from_ns:
        return 'scheduled'
    if valid_to_ns is None or at_ns < valid_to_ns:
        return 'current'
    if not ended_by:
        return 'invalidated'
    return 'forgotten' if ended_by == 'forget' else 'ended'


@dataclass(frozen=True, slots=True)
class WriteEvent:
    """Effect of one written item on the timeline of its identity."""

    event: Outcome
    """``ADD``, ``INVALIDATE`` (the open version was shortened), ``SKIP_DUP``, ``MERGE``."""
    id: str
    """The version that holds at the item's ``valid_from`` now."""
    key: str | None = None
    """Key of the item."""
    closed_id: str = ''
    """The version that was open before and no longer is."""
    reopened_id: str = ''
    """The version that is open now, when it is not the new one."""
    reason: str = ''
    """Why nothing holds there now: ``forgotten``, ``ended`` or ``consolidated``; empty: it is so already."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """One committed write, or the first answer again for a known ``request_id``."""

    events: tuple[WriteEvent, ...]
    """One event for each item, in the order given."""
    sequence: int
    """The transaction that stored it; of a dry run, the one it would have been."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The id of each event."""
        return tuple(event.id for event in self.events)


class Removal(int):
    """Count and ids of the versions that a forget, retract or purge removed."""

    ids: tuple[str, ...]
    """Their ids."""
    sequence: int
    """The transaction that did it."""
    unreached: tuple[str, ...]
    """Copies that a purge knows of and cannot reach."""

    def __new__(
        cls, count: int, ids: Sequence[str] = (), sequence: int = 0, unreached: Sequence[str] = ()
    ) -> Removal:
        """Make a count that carries what was counted."""
        self = super().__new__(cls, count)
        self.ids, self.sequence, self.unreached = tuple(ids), sequence, tuple(unreached)
        return self


@dataclass(frozen=True, slots=True)
class History:
    """Versions in the order of belief."""

    versions: tuple[Version, ...]
    """One for each stretch of an identity's timeline and each time it was believed."""
    cursor: str | None = None
    """Give it to the next call to go on where this answer ends."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Findings of a verification."""

    problems: tuple[str, ...]
    """Each in one sentence; empty: all is as it should be."""
    identities: int = 0
    """Timelines recomputed."""
    versions: int = 0
    """Believed versions compared."""
    sequence: int = 0
    """The transaction up to which was looked."""

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class Stats:
    """Statistics beside an item; not versioned, so no time travel applies to them."""

    observations: int = 0
    """How often it was confirmed."""
    first_observed_ns: int | None = None
    """Stamp of the first confirmation."""
    last_observed_ns: int | None = None
    """Stamp of the latest confirmation."""
    existence: float | None = None
    """Probability that the thing is still there; None: not computed."""
    helpfulness: Helpfulness | None = None
    """How far it has helped; None: it was never looked up or judged."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One version that answers a query."""

    item: MemoryItem
    """The statement."""
    score: float
    """How well it answers, 0 to 1, higher is better."""
    details: Mapping[str, float] = field(default_factory=dict)
    """The parts of the score by name."""
    valid_to_ns: int | None = None
    """When it ceased to be true, nanoseconds; None: open."""
    status: Status = 'current'
    """Its state at the world time of the query: ``ended`` if perception, a report or a move ended it by then,
    ``forgotten`` if a forget did, ``invalidated`` if another version or a summary took its place."""
    sequence: int = 0
    """The transaction since which it is believed to be so."""
    distance_m: float | None = None
    """Distance from the centre of the query, metres."""
    stats: Stats | None = None
    """What is counted beside it."""
    episode: str = ''
    """Episode in which it was stored; empty: none."""
    ended_by: str = ''
    """Cause of its end at `valid_to_ns`, also before that time: ``forget``, or ``end`` with its reason
    (``end: seen empty``); empty: it is open, superseded or consolidated."""

    @property
    def valid_to(self) -> float | None:
        """When it ceased to be true, in seconds; None: open."""
        return seconds_from_ns(self.valid_to_ns)


@dataclass(frozen=True, slots=True)
class QueryResult(Sequence[Hit]):
    """The hits of a query in order, and what a reader needs to trust them."""

    hits: tuple[Hit, ...]
    """Best first: score, distance, newest ``valid_from``, id."""
    total: int
    """How many match; exact up to 10 000."""
    sequence: int
    """The transaction up to which the answer looked."""
    as_of_ns: int
    """World time of the query."""
    total_is_lower_bound: bool = False
    """True when at least `total` match."""
    truncated: bool = False
    """True when more match than are returned."""
    cursor: str | None = None
    """Give it to the next query to go on where this answer ends."""
    excluded: Mapping[str, int] = field(default_factory=dict)
    """How many were left out, by reason; lower bounds beyond 10 000 rows, with filters beyond 256 outside."""
    nearest_excluded_m: float | None = None
    """Distance of the nearest match outside the radius, metres."""
    center_used: Pose | None = None
    """The centre that distances were measured from."""
    purged: int = 0
    """Matches that were deleted for good since the time of the query."""
    plan: tuple[str, ...] = ()
    """What was done, step by step, and why in this order."""
    evidence: tuple[CandidateEvidence, ...] = ()
    """What each source of candidates did."""
    receipt_id: str = ''
    """The receipt that was kept of this answer; empty: none was."""
    notes: tuple[str, ...] = ()
    """Remarks, each in one sentence; of an empty answer, what no stored item has."""

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        """Return one hit, or a tuple of them."""
        return self.hits[index]

    def __len__(self) -> int:
        """Return the number of hits, not of matches."""
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        """Go through the hits, best first."""
        return iter(self.hits)


@dataclass(frozen=True, slots=True)
class Version:
    """A stretch of an identity's timeline, and when the store held it to be so."""

    item: MemoryItem
    """The statement."""
    valid_from_ns: int
    """When it became true."""
    valid_to_ns: int | None
    """When it ceased to be true; None: open."""
    forgotten: bool
    """Whether a forget ended it."""
    from_seq: int
    """The transaction since which this was believed."""
    to_seq: int | None
    """The transaction since which it is no longer believed; None: it still is."""
    recorded_at_ns: int
    """Service clock at `from_seq`."""
    superseded_at_ns: int | None
    """Service clock at `to_seq`."""
    cause: str
    """The operation that began this belief: ``write``, ``forget``, ``retract``, ``correct``."""
    superseded_cause: str | None = None
    """The operation that ended this belief."""
    correction_id: str = ''
    """The correction that its pose comes from; empty: the pose is as it was asserted."""
    episode: str = ''
    """Episode in which it was stored; empty: none."""
    ended_by: str = ''
    """Cause of its end, ``forget``, or ``end`` with its reason; empty: open, superseded or consolidated."""
    is_asked: bool = False
    """Whether it has the id that the history was asked for."""


@dataclass(frozen=True, slots=True)
class Change:
    """One committed transaction in the feed."""

    sequence: int
    """Its number; in the feed there is no gap."""
    recorded_at_ns: int
    """Service clock at its commit."""
    op: str
    """``write``, ``forget``, ``end``, ``retract``, ``purge``, ``restore`` …; ``PURGED`` once scrubbed.
    ``evict`` and ``retrieval`` take no sequence: listeners hear of them, the feed does not."""
    ids: tuple[str, ...] = ()
    """The ids it touched."""
    keys: tuple[str, ...] = ()
    """Their keys, in the same order; empty: none."""
    outcomes: tuple[str, ...] = ()
    """What happened to each."""
    actor: str = ''
    """Author of the request."""
    episode: str = ''
    """The episode in which it happened; empty: none."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What an operation adds, such as the ``reason`` of a forget."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Record of one removal: forget, end, retract or purge. It is never deleted."""

    sequence: int
    """Its transaction."""
    recorded_at_ns: int
    """Service clock at its commit."""
    op: str
    """``forget``, ``end``, ``retract`` or ``purge``."""
    count: int
    """Number of removed items."""
    reason: str = ''
    """Reason that was given; empty: none, or it named what was purged later."""
    actor: str = ''
    """Author of the request."""
    ids: tuple[str, ...] | None = None
    """Ids of the removed items; None after a purge of any of them."""
    query: Mapping[str, Any] | None = None
    """Query that selected them, or the endings; None after a purge of what it names."""


@dataclass(frozen=True, slots=True)
class CorrectionResult:
    """Result of a map correction, or of its reversal."""

    correction_id: str
    """Its name, by which it can be taken back."""
    moved: int
    """Versions that got another pose."""
    merged: int = 0
    """Landmarks merged into another."""
    split: int = 0
    """Landmarks that proved to be several."""
    sequence: int = 0
    """Its transaction; 0: nothing was committed."""
    remark: str = ''
    """What there is to say of it; empty: nothing."""


@dataclass(frozen=True, slots=True)
class Changes:
    """A piece of the feed."""

    epoch: str
    """The history that the sequences belong to."""
    changes: tuple[Change, ...]
    """In order of their sequence."""
    last_sequence: int
    """The newest transaction of the store."""
    gap: bool = False
    """True when changes after the given position are no longer kept."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode as it is known: open, or ended with an outcome."""

    id: str
    """Its name."""
    begun_ns: int
    """Service clock at its begin, nanoseconds."""
    begin_seq: int
    """The transaction that began it, its first one."""
    ended_ns: int | None = None
    """Service clock at its end, nanoseconds; None: it is open."""
    end_seq: int | None = None
    """The transaction that ended it, its last one; None: it is open."""
    outcome: str = ''
    """How it ended, such as ``success``; empty: it is open."""
    scope: Mapping[str, str] = field(default_factory=dict)
    """Where it belongs: ``task_id``, ``robot_id`` …"""
    note: str = ''
    """Note given at its begin."""
    end_note: str = ''
    """Note given at its end."""
    actor: str = ''
    """Who began it."""

    @property
    def is_open(self) -> bool:
        """True until the episode ends."""
        return self.end_seq is None

    @property
    def begun(self) -> float:
        """Service clock at its begin, seconds."""
        return self.begun_ns / 1e9

    @property
    def ended(self) -> float | None:
        """Service clock at its end, seconds; None: it is open."""
        return seconds_from_ns(self.ended_ns)

    @property
    def duration_s(self) -> float | None:
        """Duration in seconds; None while the episode is open."""
        return None if self.ended_ns is None else (self.ended_ns - self.begun_ns) / 1e9
