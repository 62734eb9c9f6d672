"""Repository of timelines: load what a change can reach, apply points, save the difference.

A point at T can change the timeline only from the start of the version before T on, so only
assertions and forgets from there are loaded; an identity with a long past costs no more
than a young one.
"""

from __future__ import annotations

import json
from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.domain.timeline import Point, Span, timeline
from hylo_memory_ros.storage.changeset import Changeset, VersionRow
from hylo_memory_ros.storage.engine.database import chunks, insert_rows
from hylo_memory_ros.storage.schema import assertion, corrected, forgetting, identity, spatial, version
from hylo_memory_ros.storage.statements.repetitions import store_last


class Evidence(NamedTuple):
    """Id, element and place that a version takes over from its assertion, as it is corrected now."""

    id: str
    element: bytes
    spatial_id: int | None


class _Believed(NamedTuple):
    version_row: int
    assertion_id: int
    valid_from_ns: int
    valid_to_ns: int | None
    forgotten: bool
    spatial_id: int | None


@dataclass(slots=True)
class IdentityTimeline:
    """The part of one identity's timeline that is being changed."""

    identity_id: int
    kind: str
    key: str | None
    points: list[Point] = field(default_factory=list)
    believed: list[_Believed] = field(default_factory=list)

    def spans(self) -> list[Span]:
        """Return the timeline as the points have it now."""
        return timeline(self.points)

    def add(self, point: Point) -> None:
        """Put a point where it belongs."""
        insort(self.points, point)


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
        spoke = {point.assertion_id: point for point in held.points if point.assertion_id}
        for assertion_id in spoke.keys() & corrected.keys():
            self._former.setdefault(assertion_id, self.evidence[assertion_id])
        held.points = [point for point in held.points if point.assertion_id not in corrected]
        silent = [number for number, one in corrected.items() if one is not None and number not in spoke]
        spoke |= self._silent_points(silent)
        for assertion_id, one in corrected.items():
            if one is not None:
                held.add(spoke[assertion_id]._replace(content=one[0]))
                self.evidence[assertion_id] = one[1]

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
                self._held[identity_id] = IdentityTimeline(identity_id, kind, key)
            earliest = json.dumps([(identity_id, earliest_ns[identity_id]) for identity_id in part])
            starts, spoken = [], set()
            for identity_id, start_ns, nearest_ns in connection.execute(_starts, {'pairs': earliest}):
                starts.append((identity_id, start_ns))
                spoken |= {(identity_id, start_ns), (identity_id, nearest_ns)}
            self._load_window(json.dumps(starts), json.dumps(sorted(spoken)), earliest)
            self._store_repetitions(earliest_ns)
            for identity_id in part:
                self._held[identity_id].points.sort(key=lambda point: point[:3])

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
            self.evidence[one.assertion_id] = Evidence(one.id, one.element, None)

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
        for identity_id, item_id, element, spatial_id, last_ns, *rest in said:
            point = Point(*rest)
            if last_ns is not None and last_ns > point.valid_from_ns:
                self._repeated[point.assertion_id] = identity_id, last_ns
            self._held[identity_id].points.append(point)
            self.evidence[point.assertion_id] = Evidence(item_id, element, spatial_id)
        for identity_id, at_ns, sequence, consolidation in connection.execute(
            _forgettings, {'pairs': starts}
        ):
            point = Point(at_ns, sequence, 0, None, 0, consolidation is not None)
            self._held[identity_id].points.append(point)

    def save(self) -> None:
        """End the versions that are no longer so, and write those that are now."""
        first_ended, first_added = len(self._txn.ended), len(self._txn.added)
        for held in self._held.values():
            wanted = {self._face(span) for span in held.spans()}
            for row in held.believed:
                if tuple(row[1:]) in wanted:
                    wanted.discard(tuple(row[1:]))
                else:
                    self._end(held, row)
            for begin in sorted(wanted, key=lambda values: values[1]):
                self._begin(held, *begin[:4])
        connection, sequence = self._txn.connection, self._txn.sequence
        if ended := self._txn.ended[first_ended:]:
            connection.execute(_end_version, [{'row': row, 'seq': sequence} for row in ended])
        if added := self._txn.added[first_added:]:
            insert_rows(connection, version, [row._asdict() for row in added])
        self._load_places()

    def _face(self, span: Span) -> tuple[Any, ...]:
        spatial_id = self.evidence[span.assertion_id].spatial_id
        return span.assertion_id, span.valid_from_ns, span.valid_to_ns, span.forgotten, spatial_id

    def _end(self, held: IdentityTimeline, row: _Believed) -> None:
        self._txn.ended.append(row.version_row)
        spoke = self._former.get(row.assertion_id) or self.evidence[row.assertion_id]
        self._txn.count_version(held.kind, spoke.element, (row.valid_to_ns, row.forgotten), -1)

    def _begin(
        self,
        held: IdentityTimeline,
        assertion_id: int,
        valid_from_ns: int,
        valid_to_ns: int | None,
        gone: bool,
    ) -> None:
        evidence = self.evidence[assertion_id]
        self._txn.added.append(
            VersionRow(
                self._txn.next_id('version'),
                held.identity_id,
                assertion_id,
                evidence.spatial_id,
                held.kind,
                valid_from_ns,
                valid_to_ns,
                gone,
                self._txn.sequence,
            )
        )
        self._txn.count_version(held.kind, evidence.element, (valid_to_ns, gone), 1)

    def _load_places(self) -> None:
        places = self._txn.places
        wanted = {row.spatial_id for row in self._txn.added if row.spatial_id is not None}
        for part in chunks(wanted - places.keys()):
            for spatial_id, *place in self._txn.connection.execute(_places, {'ids': part}):
                places[spatial_id] = tuple(place)


says_now = (corrected.c.assertion_id == assertion.c.assertion_id) & corrected.c.to_seq.is_(None)
"""Joins assertions with what they say since a correction."""

said_then = (
    (corrected.c.assertion_id == version.c.assertion_id)
    & (corrected.c.from_seq <= version.c.from_seq)
    & (corrected.c.to_seq.is_(None) | (corrected.c.to_seq > version.c.from_seq))
)
"""Joins versions with what their assertion said when they began to be believed."""


def effective(column: str) -> sa.ColumnElement[Any]:
    """Return a column of assertions, outer-joined by `says_now`, as it is corrected now."""
    is_corrected = corrected.c.assertion_id.is_not(None)
    return sa.case((is_corrected, corrected.c[column]), else_=assertion.c[column]).label(column)


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
    version.c.forgotten,
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
            assertion.c.id,
            effective('element'),
            effective('spatial_id'),
            assertion.c.last_ns,
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
    forgetting.c.identity_id, forgetting.c.forgotten_at_ns, forgetting.c.sequence, forgetting.c.consolidation
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
