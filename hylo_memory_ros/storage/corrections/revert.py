"""Reversal of corrections by the stored coordinates, never by an inverse motion."""

from __future__ import annotations

import sqlalchemy as sa

from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.corrections.plan import ReversalPlan
from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.schema import assertion, corrected, identity
from hylo_memory_ros.storage.statements.corrected_statements import (
    CorrectedStatement,
    CorrectedVersions,
    restate,
)
from hylo_memory_ros.storage.statements.timeline_repository import Timelines, says_now

__all__ = ['revert_assertions']


def revert_assertions(txn: Changeset, plan: ReversalPlan) -> tuple[int, int]:
    """Restore the coordinates that a correction replaced, unless they were replaced again.

    Returns
    -------
    tuple
        Number of restored versions, and of statements that stay because they were moved again.
    """
    former = plan.former
    txn.archive.restore_corrected(former.sequence)
    found = txn.connection.execute(_made_by, {'seq': former.sequence}).all()
    rows = [row for row in found if row.to_seq is None and row.key not in plan.kept_keys]
    before = {
        row.assertion_id: CorrectedStatement(*row[1:])
        for part in chunks(row.assertion_id for row in rows)
        for row in txn.connection.execute(_said_before, {'ids': part, 'seq': former.sequence})
    }
    changes = [
        CorrectedVersions(
            row.assertion_id,
            row.identity_id,
            row.id,
            True,
            before.get(row.assertion_id)
            or CorrectedStatement(row.content_digest, row.element, row.spatial_id, None),
        )
        for row in rows
    ]
    begun = [
        row
        for row in txn.connection.execute(_begun_by, {'seq': former.sequence})
        if row.key not in plan.kept_keys
    ]
    nothing = CorrectedStatement(None, None, None, txn.sequence)
    changes += [
        CorrectedVersions(row.assertion_id, row.identity_id, row.id, bool(row.was_corrected), nothing)
        for row in begun
    ]
    timelines = Timelines(txn)
    timelines.load({change.identity_id: 0 for change in changes})
    moved = restate(txn, timelines, changes)
    for row in begun:
        txn.note(row.id, row.key, 'RETRACT')
    again = {row.assertion_id for row in found if row.to_seq is None}
    left = len({row.assertion_id for row in found}) - len(again)
    return moved, left


_made_by = (
    sa.select(
        corrected.c.to_seq,
        assertion.c.assertion_id,
        assertion.c.identity_id,
        assertion.c.id,
        assertion.c.content_digest,
        assertion.c.element,
        assertion.c.spatial_id,
        identity.c.key,
    )
    .join(assertion, assertion.c.assertion_id == corrected.c.assertion_id)
    .join(identity, identity.c.identity_id == assertion.c.identity_id)
    .where(
        corrected.c.correction_seq == sa.bindparam('seq'),
        assertion.c.withdrawn_seq.is_(None),
    )
    .order_by(assertion.c.assertion_id)
)
_said_before = sa.select(
    corrected.c.assertion_id,
    corrected.c.content_digest,
    corrected.c.element,
    corrected.c.spatial_id,
    corrected.c.correction_seq,
).where(
    corrected.c.assertion_id.in_(sa.bindparam('ids', expanding=True)),
    corrected.c.to_seq == sa.bindparam('seq'),
)
_begun_by = (
    sa.select(
        assertion.c.assertion_id,
        assertion.c.identity_id,
        assertion.c.id,
        identity.c.key,
        corrected.c.assertion_id.is_not(None).label('was_corrected'),
    )
    .join(identity, identity.c.identity_id == assertion.c.identity_id)
    .outerjoin(corrected, says_now)
    .where(assertion.c.sequence == sa.bindparam('seq'), assertion.c.withdrawn_seq.is_(None))
)
