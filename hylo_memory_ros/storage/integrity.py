"""Integrity check: recomputes every timeline, digest and hash."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.domain.identity import EMPTY_STATE, details_of, merged, statement_of, update_state
from hylo_memory_ros.domain.timeline import Point, Span, timeline
from hylo_memory_ros.model import MemoryItem, VerifyReport
from hylo_memory_ros.storage.consolidation.candidates import miscounted
from hylo_memory_ros.storage.engine.state import get_state
from hylo_memory_ros.storage.episodes import episode_problems
from hylo_memory_ros.storage.feedback import misjudged
from hylo_memory_ros.storage.query.select import embeddings_of
from hylo_memory_ros.storage.schema import (
    FULL_TEXT,
    SUMMARY_TEXT,
    assertion,
    corrected,
    forgetting,
    identity,
    spatial,
    version,
)
from hylo_memory_ros.storage.statements.embeddings import digest_of_vector, vector_batches
from hylo_memory_ros.storage.statements.history import last_transaction
from hylo_memory_ros.storage.statements.mapper import (
    ITEM_COLUMNS,
    POSE_NAMES,
    effective,
    ending_of,
    item_of,
    item_source,
    pose_of,
    said_then,
    says_now,
)
from hylo_memory_ros.storage.statements.merged_statements import assertions_of_span, load_statements

# An identity that changed more often is looked at this often: each look costs its whole timeline.
_MOST_LOOKS = 64


class ContentPoint(NamedTuple):
    """Corrected content of an assertion from one transaction to another."""

    from_seq: int
    to_seq: int | None
    content: bytes | None
    """None: nothing."""
    spatial_id: int | None

    def holds(self, seq: int) -> bool:
        """Return whether it held as of a sequence."""
        return self.from_seq <= seq and (self.to_seq is None or self.to_seq > seq)


class AssertionPoint(NamedTuple):
    """A point, the transaction that took it back, and what corrections made of it."""

    point: Point
    withdrawn_seq: int | None
    spatial_id: int | None = None
    corrected: Sequence[ContentPoint] = ()

    def as_of(self, seq: int) -> tuple[Point, int | None] | None:
        """Return the point and its place as of a sequence; None: it did not hold then."""
        withdrawn = self.withdrawn_seq is not None and self.withdrawn_seq <= seq
        if self.point.sequence > seq or withdrawn:
            return None
        for said in self.corrected:
            if said.holds(seq):
                if said.content is None:
                    return None
                return self.point._replace(content=said.content), said.spatial_id
        return self.point, self.spatial_id


class BelievedSpan(NamedTuple):
    """A span, and the transactions between which it was believed."""

    span: Span
    from_seq: int
    to_seq: int | None
    spatial_id: int | None = None


def sequence_of_difference(
    known: Sequence[AssertionPoint],
    believed: Sequence[BelievedSpan],
    merges: Sequence[tuple[int, AssertionPoint]] = (),
) -> int | None:
    """Return a sequence as of which an identity's versions do not follow from its points, or None.

    Parameters
    ----------
    merges : sequence of (int, AssertionPoint)
        The assertion in whose place each merge is shown, and the merge.
    """
    everything = [*known, *(merge for _, merge in merges)]
    changes = {one.point.sequence for one in everything}
    changes |= {one.withdrawn_seq for one in everything if one.withdrawn_seq is not None}
    changes |= {
        seq
        for one in everything
        for said in one.corrected
        for seq in (said.from_seq, said.to_seq)
        if seq is not None
    }
    for one in believed:
        if one.from_seq not in changes or (one.to_seq is not None and one.to_seq not in changes):
            return one.from_seq
    newest_first = sorted(changes, reverse=True)
    for seq in newest_first[:: len(newest_first) // _MOST_LOOKS + 1]:
        if not _follows(known, believed, merges, seq):
            return seq
    return None


def _follows(
    known: Sequence[AssertionPoint],
    believed: Sequence[BelievedSpan],
    merges: Sequence[tuple[int, AssertionPoint]],
    seq: int,
) -> bool:
    points, places = [], {}
    for one in known:
        if (said := one.as_of(seq)) is not None:
            points.append(said[0])
            places[said[0].assertion_id] = said[1]
    held = [one for one in believed if one.from_seq <= seq and (one.to_seq is None or one.to_seq > seq)]
    held.sort(key=lambda one: one.span.valid_from_ns)
    merged = {base: said for base, merge in merges if (said := merge.as_of(seq)) is not None}
    expected = []
    for span in timeline(points):
        if (said := merged.get(span.assertion_id)) is not None:
            shown = span._replace(assertion_id=said[0].assertion_id, content=said[0].content or b'')
            expected.append((shown, said[1]))
        else:
            expected.append((span, places[span.assertion_id]))
    return expected == [(one.span, one.spatial_id) for one in held]


_BATCH = 1000
# No confidence moves by more.
_NO_STEP = 2.0
_MOST_PROBLEMS = 100


def verify_database(
    connection: sa.Connection, identity_scope: tuple[str, ...], *beside: sa.Connection
) -> VerifyReport:
    """Return what is wrong with a database, from one consistent state.

    Parameters
    ----------
    beside : Connection
        To its archive file, with the main file attached; none: nothing is archived.
    """
    files = (connection, *beside)
    problems: list[str] = []
    check = _Check(identity_scope)
    for file, name in zip(files, ('', 'archive file: '), strict=False):
        for pragma, sound in (('main.integrity_check', 'ok'), ('main.foreign_key_check', None)):
            rows = file.exec_driver_sql(f'PRAGMA {pragma}').all()
            problems += [f'{name}{pragma[5:]}: {tuple(row)}' for row in rows if row[0] != sound]
    last_id = connection.execute(sa.select(sa.func.max(identity.c.identity_id))).scalar() or 0
    for first in range(0, last_id + 1, _BATCH):
        problems += check.batch(files, first, first + _BATCH)
        if len(problems) > _MOST_PROBLEMS:
            problems = [*problems[:_MOST_PROBLEMS], 'and more']
            break
    else:
        problems += check.totals(files)
        problems += [problem for file in files for problem in _damaged_vectors(file)]
        problems += miscounted(connection)
        problems += misjudged(connection)
        problems += episode_problems(connection)
    sequence, _ = last_transaction(connection)
    return VerifyReport(tuple(problems), check.identities, check.versions, sequence)


def _damaged_vectors(connection: sa.Connection) -> list[str]:
    problems = []
    for batch in vector_batches(connection, _BATCH):
        for _, item_id, space, digest, vector in batch:
            if digest_of_vector(vector) != digest:
                problems.append(f'{item_id}: its vector in {space} is not the one that was stored')
                if len(problems) >= _MOST_PROBLEMS:
                    return [*problems, 'and more']
    return problems


def _differing_merge(files: Sequence[sa.Connection], identity_id: int, span: Span) -> Iterator[str]:
    """Say if a version shows something else than what the assertions that speak for it amount to."""
    for file in files:
        run = [row[3] for row in sorted(assertions_of_span(file, identity_id, span))]
        items = load_statements(file, {*run, span.assertion_id})
        if not run or span.assertion_id not in items:
            continue
        shown = items[run[0]]
        for number in run[1:]:
            shown = merged(shown, items[number], _NO_STEP)
        expected, found = details_of(shown), details_of(items[span.assertion_id])
        # The step of the configuration may have been another when it was merged.
        del expected['confidence']
        confidence = found.pop('confidence')
        if expected != found or confidence not in {items[number].confidence for number in run}:
            yield f'{shown.id}: its version does not show what was merged into it'


class _Check:
    def __init__(self, identity_scope: tuple[str, ...]) -> None:
        self._scope = identity_scope
        self._open_hash = self._line_hash = EMPTY_STATE
        self._counts: Counter[str] = Counter()
        self.identities = 0
        self.versions = 0

    def batch(self, files: Sequence[sa.Connection], first: int, end: int) -> Iterator[str]:
        """Check the identities with numbers in [first, end), all of whose files together have them."""
        known: dict[int, list[AssertionPoint]] = {}
        believed: dict[int, list[BelievedSpan]] = {}
        part = {'first': first, 'end': end}
        said: dict[int, list[ContentPoint]] = {}

        def rows_of(statement: sa.Select[Any]) -> Iterator[Any]:
            return (row for file in files for row in file.execute(statement, part))

        for assertion_id, *rest in rows_of(_corrected):
            said.setdefault(assertion_id, []).append(ContentPoint(*rest))
        merges: dict[int, list[tuple[int, AssertionPoint]]] = {}
        for identity_id, base_id, withdrawn_seq, spatial_id, *rest in rows_of(_points):
            point = Point(*rest)
            one = AssertionPoint(point, withdrawn_seq, spatial_id, said.get(point.assertion_id, ()))
            if base_id is None:
                known.setdefault(identity_id, []).append(one)
            else:
                merges.setdefault(identity_id, []).append((base_id, one))
        for identity_id, at_ns, sequence, consolidation, is_end, withdrawn_seq in rows_of(_forgettings):
            point = Point(at_ns, sequence, 0, None, 0, ending_of(consolidation, is_end=is_end))
            known.setdefault(identity_id, []).append(AssertionPoint(point, withdrawn_seq))
        for identity_id, from_seq, to_seq, spatial_id, *span in rows_of(_spans):
            believed.setdefault(identity_id, []).append(
                BelievedSpan(Span(*span), from_seq, to_seq, spatial_id)
            )
        for file in files:
            rows = file.execute(_versions, part).all()
            yield from self._digests(file, rows)
            self.versions += len(rows)
        self.identities += len(known)
        for identity_id in sorted(known.keys() | believed.keys()):
            seq = sequence_of_difference(
                known.get(identity_id, ()), believed.get(identity_id, ()), merges.get(identity_id, ())
            )
            if seq is not None:
                yield (
                    f'identity {identity_id}: its versions as of sequence {seq} do not follow from its '
                    'assertions, forgets and corrections'
                )
            merged_rows = {merge.point.assertion_id for _, merge in merges.get(identity_id, ())}
            for held in believed.get(identity_id, ()) if merged_rows else ():
                if held.to_seq is None and held.span.assertion_id in merged_rows:
                    yield from _differing_merge(files, identity_id, held.span)

    def _digests(self, connection: sa.Connection, rows: Sequence[Any]) -> Iterator[str]:
        width = len(ITEM_COLUMNS)
        vectors = embeddings_of(connection, [row[:width] for row in rows])
        open_elements, line_elements = [], []
        for row in rows:
            item = item_of(row[:width], vectors.get(row.version_row))
            statement = statement_of(item, self._scope)
            said = statement.content, statement.element
            if said != (row.said_digest, row.said_element) or self._first_said(row, item) != (
                row.content_digest,
                row.element,
                row.digest,
            ):
                yield f'{row.id}: its content does not have the digest it was stored with'
            end = (
                b'' if row.valid_to_ns is None else b'%d%s' % (row.valid_to_ns, (row.ended_by or '').encode())
            )
            line_elements.append(row.said_element + end)
            if row.valid_to_ns is None:
                open_elements.append(row.said_element)
                self._counts[row.kind] += 1
        self._open_hash = update_state(self._open_hash, open_elements)
        self._line_hash = update_state(self._line_hash, line_elements)

    def _first_said(self, row: Any, item: MemoryItem) -> tuple[bytes, bytes, bytes]:
        """Return content, element and identity of a version's statement as it was asserted."""
        if row.spatial_id != row.first_spatial_id:
            pose = pose_of(row[-_POSE_WIDTH:])
            item = item.model_copy(update={'pose': pose})
        statement = statement_of(item, self._scope)
        return statement.content, statement.element, statement.identity

    def totals(self, files: Sequence[sa.Connection]) -> Iterator[str]:
        """Compare the hashes and counters that are kept up to date with those recomputed."""
        connection = files[0]
        if get_state(connection, 'set_hash', EMPTY_STATE) != self._open_hash:
            yield 'the snapshot hash is not that of the open versions'
        if get_state(connection, 'timeline_hash', EMPTY_STATE) != self._line_hash:
            yield 'the timeline hash is not that of the believed versions'
        kept = {
            kind: count for kind, count in json.loads(get_state(connection, 'counts', b'{}')).items() if count
        }
        if kept != dict(self._counts):
            yield f'the counters {kept} are not those of the open versions {dict(self._counts)}'
        texts = connection.execute(_texts).scalar_one()
        assertions = sum(file.execute(_assertions).scalar_one() for file in files)
        if texts != assertions:
            yield f'the full text has {texts} of {assertions} assertions'


def _in_batch(column: sa.Column[int]) -> sa.ColumnElement[bool]:
    return (column >= sa.bindparam('first', type_=sa.Integer)) & (
        column < sa.bindparam('end', type_=sa.Integer)
    )


_points = sa.select(
    assertion.c.identity_id,
    assertion.c.base_id,
    assertion.c.withdrawn_seq,
    assertion.c.spatial_id,
    assertion.c.valid_from_ns,
    assertion.c.sequence,
    assertion.c.position,
    assertion.c.content_digest,
    assertion.c.assertion_id,
).where(_in_batch(assertion.c.identity_id))
_forgettings = sa.select(
    forgetting.c.identity_id,
    forgetting.c.forgotten_at_ns,
    forgetting.c.sequence,
    forgetting.c.consolidation,
    forgetting.c.is_end,
    forgetting.c.withdrawn_seq,
).where(_in_batch(forgetting.c.identity_id))
_corrected = (
    sa.select(
        corrected.c.assertion_id,
        corrected.c.from_seq,
        corrected.c.to_seq,
        corrected.c.content_digest,
        corrected.c.spatial_id,
    )
    .join(assertion, assertion.c.assertion_id == corrected.c.assertion_id)
    .where(_in_batch(assertion.c.identity_id))
)
_spans = (
    sa.select(
        version.c.identity_id,
        version.c.from_seq,
        version.c.to_seq,
        version.c.spatial_id,
        version.c.valid_from_ns,
        version.c.valid_to_ns,
        version.c.ended_by,
        effective('content_digest'),
        assertion.c.assertion_id,
    )
    .join(assertion, assertion.c.assertion_id == version.c.assertion_id)
    .outerjoin(corrected, said_then)
    .where(_in_batch(version.c.identity_id))
)
_texts = sa.select(
    sa.select(sa.func.count()).select_from(sa.table(f'{FULL_TEXT}_docsize')).scalar_subquery()
    + sa.select(sa.func.count()).select_from(sa.table(f'{SUMMARY_TEXT}_docsize')).scalar_subquery()
)
_assertions = sa.select(sa.func.count()).select_from(assertion)
_stated = spatial.alias('stated')
_POSE = [_stated.c[name] for name in POSE_NAMES]
_POSE_WIDTH = len(_POSE)
_versions = (
    sa.select(
        *ITEM_COLUMNS,
        version.c.spatial_id,
        identity.c.digest,
        assertion.c.content_digest,
        assertion.c.element,
        assertion.c.spatial_id.label('first_spatial_id'),
        effective('content_digest').label('said_digest'),
        effective('element').label('said_element'),
        *_POSE,
    )
    .select_from(
        item_source.outerjoin(corrected, says_now).outerjoin(
            _stated, _stated.c.spatial_id == assertion.c.spatial_id
        )
    )
    .where(_in_batch(version.c.identity_id), version.c.to_seq.is_(None))
    .order_by(version.c.identity_id, version.c.valid_from_ns)
)
