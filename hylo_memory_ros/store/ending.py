"""Ending what held at a stated world time: a forget that says itself when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.store.removal import Matched, matched_versions
from hylo_memory_ros.store.schema import assertion, forgetting, identity, version
from hylo_memory_ros.store.timeline import Point
from hylo_memory_ros.store.timelines import Timelines
from hylo_memory_ros.store.transaction import Transaction

__all__ = ['Ending', 'end_versions']


class Ending(NamedTuple):
    """The world time at which something ended."""

    key: str
    """Key of the identity."""
    at_ns: int
    """When, nanoseconds: it held before, and holds no more from here on."""
    map_id: str = ''
    """Map of the identity; empty: none."""
    reason: str = ''
    """Why, for the audit."""
    merged_into: str = ''
    """Key of what it proves to be, which the feed tells as a merge; empty: it ended."""


def end_versions(txn: Transaction, endings: Sequence[Ending], kind: str) -> list[Matched]:
    """End the versions that hold at the times of the endings; return them.

    What was said from a later time stays, whichever came first: it is evidence of its own. So
    the order of endings and assertions has no meaning, but at the same time the later one wins.
    """
    found: dict[int, tuple[Matched, Ending]] = {}
    for ending in endings:
        at = {'key': ending.key, 'map_id': ending.map_id, 'at_ns': ending.at_ns}
        txn.cold.held(ending.key, kind, ending.at_ns)
        rows = txn.connection.scalars(_held, {**at, 'kind': kind})
        for matched in matched_versions(txn.connection, rows):
            found[matched.identity_id] = matched, ending
    timelines = Timelines(txn)
    timelines.load({number: ending.at_ns for number, (_, ending) in found.items()})
    for number, (matched, ending) in found.items():
        at_ns = ending.at_ns
        timelines[number].add(Point(at_ns, txn.sequence, 0, None, 0))
        row = {'identity_id': number, 'sequence': txn.sequence, 'forgotten_at_ns': at_ns}
        txn.connection.execute(forgetting.insert(), row)
        txn.note(matched.id, matched.key, 'MERGE' if ending.merged_into else 'END')
    timelines.save()
    return [matched for matched, _ in found.values()]


_at = sa.bindparam('at_ns', type_=sa.BigInteger)
_held = (
    sa.select(version.c.version_row)
    .join(identity, identity.c.identity_id == version.c.identity_id)
    .join(assertion, assertion.c.assertion_id == version.c.assertion_id)
    .where(
        identity.c.key == sa.bindparam('key'),
        version.c.kind == sa.bindparam('kind'),
        assertion.c.map_id == sa.bindparam('map_id'),
        version.c.to_seq.is_(None),
        version.c.valid_from_ns <= _at,
        sa.or_(version.c.valid_to_ns.is_(None), version.c.valid_to_ns > _at),
    )
)
