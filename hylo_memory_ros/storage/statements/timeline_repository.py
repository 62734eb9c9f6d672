"""Repository of timelines: load what a change can reach, apply points, save the difference.

A point at T can change the timeline only from the start of the version before T on, so only
assertions and forgets from there are loaded; an identity with a long past costs no more
than a young one.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.domain.identity import details_of, is_moved, merged, with_details
from hylo_memory_ros.domain.timeline import Point, Span, timeline
from hylo_memory_ros.model import MemoryItem, MemoryKind
from hylo_memory_ros.storage.changeset import Changeset, VersionRow
from hylo_memory_ros.storage.engine.database import chunks, insert_rows
from hylo_memory_ros.storage.schema import assertion, corrected, forgetting, identity, spatial, version
from hylo_memory_ros.storage.statements.mapper import effective, ending_of, says_now
from hylo_memory_ros.storage.statements.merged_statements import (
    assertions_of_span,
    load_statements,
    store_merges,
    withdraw_assertions,
)
from hylo_memory_ros.storage.statements.repetitions import store_last


class Evidence(NamedTuple):
    """Id, element, place and details of an assertion or a merge, as it is corrected now."""

    id: str
    element: bytes
    spatial_id: int | None
    confidence: float = 1.0
    source: str = ''
    detail: str | None = None


class Merge(NamedTuple):
    """Stored merge, shown in place of the assertion that a version begins with."""

    assertion_id: int
    content: bytes


class _Believed(NamedTuple):
    version_row: int
    assertion_id: int
    valid_from_ns: int
    valid_to_ns: int | None
    ended_by: str | None
    spatial_id: int | None


@dataclass(slots=True)
class IdentityTimeline:
    """The part of one identity's timeline that is being changed."""

    identity_id: int
    kind: str
    key: str | None
    earliest_ns: int = -1
    """From here on all assertions are loaded."""
    points: list[Point] = field(default_factory=list)
    believed: list[_Believed] = field(default_factory=list)
    merges: dict[int, Merge] = field(default_factory=dict)
    """Stored merges, by the assertion in whose place each is shown."""
    folded: dict[int, list[int]] = field(default_factory=dict)
    """Loaded assertions that what a version shows is already made of, by the first of them."""
    shown: dict[int, MemoryItem] = field(default_factory=dict)
    """What versions show from now on, where that is not what is stored."""

    def spans(self) -> list[Span]:
        """Return the timeline as the points have it now."""
        return timeline(self.points)

    def runs(self) -> list[tuple[Span, list[int]]]:
        """Return each span with the loaded assertions that speak for it, in order of world time."""
        return [(span, self.run(span)) for span in self.spans()]

    def run(self, span: Span) -> list[int]:
        """Return the loaded assertions that speak for a span, in order of world time."""
        first = bisect_left(self.points, span.valid_from_ns, key=itemgetter(0))
        end = None
        if span.valid_to_ns is not None:
            end = bisect_left(self.points, span.valid_to_ns, key=itemgetter(0))
        return [point.assertion_id for point in self.points[first:end] if point.content == span.content]

    def add(self, point: Point) -> None:
        """Put a point where it belongs."""
        insort(self.points, point)

    def drop(self, point: Point) -> None:
        """Take a point out that only repeats the one before it."""
        self.points.remove(point)
        for numbers in self.folded.values():
            if point.assertion_id in numbers:
                numbers.remove(point.assertion_id)


class Timelines:
    """The timelines that one transaction changes.

    Parameters
    ----------
    transaction : Changeset
        Through which everything is read and written.
    """

    def __init__(self, transaction: Changeset) -> None:
        self._txn = transaction
        self._held: dict[int, IdentityTimeline] = {}
        self._former: dict[int, Evidence] = {}
        self.evidence: dict[int, Evidence] = {}
        self._repeated: dict[int, tuple[int, int]] = {}
        self.items: dict[int, MemoryItem] = {}
        """Items of assertions, of those too that are not stored yet."""
        self.idle: set[int] = set()
        """Repetitions that add nothing to the assertion before them, or to what is shown."""

    def new(self, identity_id: int, kind: str, key: str | None) -> None:
        """Begin the timeline of an identity that was not there before."""
        self._held[identity_id] = IdentityTimeline(identity_id, kind, key)

    def __getitem__(self, identity_id: int) -> IdentityTimeline:
        """Return a timeline that was begun or loaded."""
        return self._held[identity_id]

    def correct(self, identity_id: int, corrected: Mapping[int, tuple[bytes, Evidence] | None]) -> None:
        """Replace the contents of assertions of one timeline from now on.

        Parameters
        ----------
        corrected : mapping
            Content and evidence of each assertion by its number, also of one that had no content until
            now; None: it has no content any more.
        """
        held = self._held[identity_id]
        bases = {merge.assertion_id: base for base, merge in held.merges.items()}
        spoke = {point.assertion_id: point for point in held.points if point.assertion_id}
        for assertion_id in (spoke.keys() | bases.keys()) & corrected.keys():
            self._former.setdefault(assertion_id, self.evidence[assertion_id])
        held.points = [point for point in held.points if point.assertion_id not in corrected]
        silent = [
            number
            for number, one in corrected.items()
            if one is not None and number not in spoke and number not in bases
        ]
        spoke |= self._silent_points(silent)
        for assertion_id, one in corrected.items():
            if one is None:
                continue
            self.evidence[assertion_id] = one[1]
            if assertion_id in bases:
                held.merges[bases[assertion_id]] = Merge(assertion_id, one[0])
            else:
                held.add(spoke[assertion_id]._replace(content=one[0]))

    def _silent_points(self, assertion_ids: Sequence[int]) -> dict[int, Point]:
        found = {}
        for part in chunks(assertion_ids):
            for row in self._txn.connection.execute(_points, {'ids': part}):
                found[row.assertion_id] = Point(*row)
        return found

    def load(self, earliest_ns: Mapping[int, int]) -> None:
        """Load timelines from the version before the earliest change on.

        Parameters
        ----------
        earliest_ns : mapping of int to int
            The earliest world time that will change, by identity.
        """
        self._txn.archive.restore_from(earliest_ns)
        connection = self._txn.connection
        for part in chunks(earliest_ns):
            for identity_id, kind, key in connection.execute(_identities, {'ids': part}):
                earliest = earliest_ns[identity_id]
                self._held[identity_id] = IdentityTimeline(identity_id, kind, key, earliest)
            pairs = json.dumps([(identity_id, earliest_ns[identity_id]) for identity_id in part])
            starts, spoken = [], set()
            for identity_id, start_ns, nearest_ns in connection.execute(_starts, {'pairs': pairs}):
                starts.append((identity_id, start_ns))
                spoken |= {(identity_id, start_ns), (identity_id, nearest_ns)}
            self._load_window(json.dumps(starts), json.dumps(sorted(spoken)), pairs)
            self._store_repetitions(earliest_ns)
            for identity_id in part:
                held = self._held[identity_id]
                held.points.sort(key=lambda point: point[:3])
                held.folded = {span.assertion_id: numbers for span, numbers in held.runs()}

    def _store_repetitions(self, earliest_ns: Mapping[int, int]) -> None:
        """Give the last repetition of a statement a row where the change can reach it."""
        reached = [
            assertion_id
            for assertion_id, (identity_id, last_ns) in self._repeated.items()
            if last_ns >= earliest_ns[identity_id]
        ]
        self._repeated.clear()
        for one in store_last(self._txn, reached) if reached else ():
            point = Point(one.valid_from_ns, one.sequence, 0, one.content, one.assertion_id)
            self._held[one.identity_id].points.append(point)
            like = self.evidence[one.like]
            self.evidence[one.assertion_id] = like._replace(id=one.id, element=one.element, spatial_id=None)

    def _load_window(self, starts: str, spoken: str, earliest: str) -> None:
        """Load versions from their starts on, and the assertions that they follow from.

        Of the assertions between the start of a version and the earliest change only the newest is read:
        the others repeat it, or are superseded.
        """
        connection = self._txn.connection
        for identity_id, *rest in connection.execute(_believed, {'pairs': starts}):
            self._held[identity_id].believed.append(_Believed(*rest))
        said = chain(
            connection.execute(_said_at, {'pairs': spoken}),
            connection.execute(_said_from, {'pairs': earliest}),
        )
        for identity_id, base_id, last_ns, *rest in said:
            *evidence, valid_from_ns, sequence, position, content, number = rest
            held = self._held[identity_id]
            self.evidence[number] = Evidence(*evidence)
            if base_id is not None:
                held.merges[base_id] = Merge(number, content)
                continue
            if last_ns is not None and last_ns > valid_from_ns:
                self._repeated[number] = identity_id, last_ns
            held.points.append(Point(valid_from_ns, sequence, position, content, number))
        for identity_id, at_ns, sequence, consolidation, is_end in connection.execute(
            _forgettings, {'pairs': starts}
        ):
            point = Point(at_ns, sequence, 0, None, 0, ending_of(consolidation, is_end=is_end))
            self._held[identity_id].points.append(point)

    def merge(self, held: IdentityTimeline, span: Span, point: Point) -> bool:
        """Merge a repetition into what its version shows; return whether that changed it."""
        base, numbers, item = span.assertion_id, held.run(span), self.items[point.assertion_id]
        before = held.points[bisect_left(held.points, point) - 1]
        known = self.evidence.get(before.assertion_id)
        own = self.evidence[point.assertion_id]
        merge = held.merges.get(base)
        shown = self.evidence[base if merge is None else merge.assertion_id]
        is_last = numbers[-1] == point.assertion_id and base not in held.shown
        if held.kind == MemoryKind.SKILL or (
            not item.embeddings
            and (item.pose is None or item.pose.covariance is None)
            and (
                (before.content == point.content and known is not None and known[3:] == own[3:])
                or (is_last and self._adds_nothing(item, shown))
            )
        ):
            held.folded[base] = numbers
            self.idle.add(point.assertion_id)
            return False
        is_changed = self._fold(held, span, numbers)
        if not is_changed and numbers[-1] == point.assertion_id:
            self.idle.add(point.assertion_id)
        return is_changed

    def _adds_nothing(self, item: MemoryItem, shown: Evidence) -> bool:
        detail = json.loads(shown.detail) if (item.evidence or item.provenance) and shown.detail else {}
        return (
            not is_moved(shown.confidence, item.confidence, self._txn.config.confidence_step)
            and item.source in ('', shown.source)
            and set(item.evidence) <= set(detail.get('evidence', ()))
            and item.provenance.items() <= detail.get('provenance', {}).items()
        )

    def _fold(self, held: IdentityTimeline, span: Span, numbers: list[int]) -> bool:
        """Merge all assertions that speak for a span; return whether it shows something else than before."""
        base, merge = span.assertion_id, held.merges.get(span.assertion_id)
        before = held.folded.get(base, [])
        stored = base if merge is None else merge.assertion_id
        added, is_appended = numbers, bool(before) and numbers[: len(before)] == before
        if is_appended:
            added = numbers[len(before) :]
        elif span.valid_from_ns < held.earliest_ns:
            loaded = {point.assertion_id: (*point[:3], point.assertion_id) for point in held.points}
            stored_rows = assertions_of_span(self._txn.connection, held.identity_id, span)
            others = [row for row in stored_rows if row[3] not in loaded]
            added = [row[3] for row in sorted([*others, *(loaded[number] for number in numbers)])]
        items = self._items({base, stored, *added})
        former = held.shown.get(base) or items[stored]
        start = former if is_appended else items[added[0]]
        for number in added:
            start = merged(start, items[number], self._txn.config.confidence_step)
        held.folded[base] = numbers
        if details_of(start) == details_of(former):
            return False
        held.shown[base] = with_details(former, start)
        return True

    def _items(self, assertion_ids: Collection[int]) -> dict[int, MemoryItem]:
        if stored := [number for number in assertion_ids if number not in self.items]:
            self.items |= load_statements(self._txn.connection, stored)
        return {number: self.items[number] for number in assertion_ids}

    def _merge_all(self) -> None:
        """Store what versions show from now on, and withdraw the merges that nothing shows any more."""
        stale: list[int] = []
        shown: dict[int, MemoryItem] = {}
        owners: dict[int, tuple[IdentityTimeline, bytes]] = {}
        for held in self._held.values():
            if len(held.points) < 2 and not held.merges:
                continue
            runs = held.runs()
            for span, numbers in runs:
                base, merge = span.assertion_id, held.merges.get(span.assertion_id)
                if merge is not None and merge.content != span.content:
                    stale.append(held.merges.pop(base).assertion_id)
                    held.folded.pop(base, None)
                    merge = None
                is_whole = held.folded.get(base) == numbers
                if not is_whole and len(numbers) == 1 and merge is None:
                    # All of it is loaded, so it speaks for itself.
                    is_whole = span.valid_from_ns >= held.earliest_ns
                if not is_whole and held.kind != MemoryKind.SKILL:
                    self._fold(held, span, numbers)
                if base in held.shown:
                    own = self._items([base])[base]
                    if details_of(held.shown[base]) != details_of(own):
                        shown[base] = with_details(own, held.shown[base])
                        owners[base] = held, span.content
                    if merge is not None:
                        stale.append(merge.assertion_id)
                        del held.merges[base]
            bases = {span.assertion_id for span, _ in runs}
            stale += [held.merges.pop(base).assertion_id for base in held.merges.keys() - bases]
            held.shown.clear()
        if stale:
            withdraw_assertions(self._txn, stale)
        for base, row in store_merges(self._txn, shown).items() if shown else ():
            held, content = owners[base]
            held.merges[base] = Merge(row.assertion_id, content)
            self.evidence[row.assertion_id] = self.evidence[base]._replace(
                element=row.element, spatial_id=row.spatial_id
            )

    def save(self) -> None:
        """End the versions that are no longer so, and write those that are now."""
        self._merge_all()
        first_ended, first_added = len(self._txn.ended), len(self._txn.added)
        for held in self._held.values():
            wanted = set()
            for span in held.spans():
                merge = held.merges.get(span.assertion_id)
                number = span.assertion_id if merge is None else merge.assertion_id
                place = self.evidence[number].spatial_id
                wanted.add((number, span.valid_from_ns, span.valid_to_ns, span.ended_by, place))
            for row in held.believed:
                if row[1:] in wanted:
                    wanted.discard(row[1:])
                else:
                    self._txn.ended.append(row.version_row)
                    spoke = self._former.get(row.assertion_id) or self.evidence[row.assertion_id]
                    self._txn.count_version(held.kind, spoke.element, (row.valid_to_ns, row.ended_by), -1)
            for assertion_id, valid_from_ns, valid_to_ns, ended_by, spatial_id in sorted(
                wanted, key=itemgetter(1)
            ):
                self._txn.added.append(
                    VersionRow(
                        self._txn.next_id('version'),
                        held.identity_id,
                        assertion_id,
                        spatial_id,
                        held.kind,
                        valid_from_ns,
                        valid_to_ns,
                        ended_by,
                        self._txn.sequence,
                    )
                )
                element = self.evidence[assertion_id].element
                self._txn.count_version(held.kind, element, (valid_to_ns, ended_by), 1)
        connection, sequence = self._txn.connection, self._txn.sequence
        if ended := self._txn.ended[first_ended:]:
            connection.execute(_end_version, [{'row': row, 'seq': sequence} for row in ended])
        if added := self._txn.added[first_added:]:
            insert_rows(connection, version, [row._asdict() for row in added])
        places = self._txn.places
        wanted_places = {row.spatial_id for row in self._txn.added if row.spatial_id is not None}
        for part in chunks(wanted_places - places.keys()):
            for place_id, *position in connection.execute(_places, {'ids': part}):
                places[place_id] = tuple(position)


def _among(column: sa.Column[int]) -> sa.ColumnElement[bool]:
    return column.in_(sa.bindparam('ids', expanding=True))


# The pairs (identity, time) of one call travel as one JSON text, so that every call runs the
# same prepared statement.
_pairs = sa.func.json_each(sa.bindparam('pairs', type_=sa.Text)).table_valued('value', name='pair')
_pair_id = sa.func.json_extract(_pairs.c.value, '$[0]', type_=sa.BigInteger)
_pair_ns = sa.func.json_extract(_pairs.c.value, '$[1]', type_=sa.BigInteger)

_points = sa.select(
    assertion.c.valid_from_ns,
    assertion.c.sequence,
    assertion.c.position,
    assertion.c.content_digest,
    assertion.c.assertion_id,
).where(_among(assertion.c.assertion_id))
_identities = sa.select(identity.c.identity_id, identity.c.kind, identity.c.key).where(
    _among(identity.c.identity_id)
)
_starts = sa.select(
    _pair_id,
    sa.func.coalesce(
        sa.select(sa.func.max(version.c.valid_from_ns))
        .where(
            version.c.identity_id == _pair_id, version.c.to_seq.is_(None), version.c.valid_from_ns < _pair_ns
        )
        .correlate(_pairs)
        .scalar_subquery(),
        -1,
    ),
    sa.func.coalesce(
        sa.select(sa.func.max(assertion.c.valid_from_ns))
        .where(
            assertion.c.identity_id == _pair_id,
            assertion.c.valid_from_ns < _pair_ns,
            assertion.c.withdrawn_seq.is_(None),
        )
        .correlate(_pairs)
        .scalar_subquery(),
        -1,
    ),
)
_believed = sa.select(
    version.c.identity_id,
    version.c.version_row,
    version.c.assertion_id,
    version.c.valid_from_ns,
    version.c.valid_to_ns,
    version.c.ended_by,
    version.c.spatial_id,
).select_from(
    _pairs.join(
        version,
        (version.c.identity_id == _pair_id)
        & version.c.to_seq.is_(None)
        & (version.c.valid_from_ns >= _pair_ns),
    )
)


def _said(at: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Return what says something, of the identities and at the times of pairs."""
    return (
        sa.select(
            assertion.c.identity_id,
            assertion.c.base_id,
            assertion.c.last_ns,
            assertion.c.id,
            effective('element'),
            effective('spatial_id'),
            assertion.c.confidence,
            assertion.c.source,
            assertion.c.detail,
            assertion.c.valid_from_ns,
            assertion.c.sequence,
            assertion.c.position,
            effective('content_digest'),
            assertion.c.assertion_id,
        )
        .select_from(
            _pairs.join(
                assertion, (assertion.c.identity_id == _pair_id) & at & assertion.c.withdrawn_seq.is_(None)
            ).outerjoin(corrected, says_now)
        )
        .where(effective('content_digest').is_not(None))
    )


_said_at = _said(assertion.c.valid_from_ns == _pair_ns)
_said_from = _said(assertion.c.valid_from_ns >= _pair_ns)
_forgettings = sa.select(
    forgetting.c.identity_id,
    forgetting.c.forgotten_at_ns,
    forgetting.c.sequence,
    forgetting.c.consolidation,
    forgetting.c.is_end,
).select_from(
    _pairs.join(
        forgetting,
        (forgetting.c.identity_id == _pair_id)
        & (forgetting.c.forgotten_at_ns >= _pair_ns)
        & forgetting.c.withdrawn_seq.is_(None),
    )
)
_places = sa.select(
    spatial.c.spatial_id, spatial.c.map_id, spatial.c.frame_id, spatial.c.x, spatial.c.y, spatial.c.z
).where(_among(spatial.c.spatial_id))
_end_version = (
    version.update().where(version.c.version_row == sa.bindparam('row')).values(to_seq=sa.bindparam('seq'))
)
