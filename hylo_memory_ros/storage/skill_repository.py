"""Repository of skills: gate at each write, and the record of transitions.

The payload of a skill stands in its statement like any other; its status is also a tag, to be found by.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.domain.skills import Thresholds, problems_at_gate, skill_of
from hylo_memory_ros.domain.timeline import Span, span_at
from hylo_memory_ros.errors import SkillGateError
from hylo_memory_ros.model import MemoryItem, MemoryKind
from hylo_memory_ros.model.feedback import VERDICTS
from hylo_memory_ros.model.skill import SkillPayload, SkillTransition, Verdicts
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.schema import (
    assertion,
    helpfulness,
    identity,
    skill_transition,
    tag,
    txn,
    version,
)
from hylo_memory_ros.storage.statements.mapper import STATUS


class Gate:
    """The gate in one transaction: each skill passes it as the timeline stands when its turn comes.

    Parameters
    ----------
    transaction : Changeset
    thresholds : Thresholds
        What a verified skill needs.
    """

    def __init__(self, transaction: Changeset, thresholds: Thresholds) -> None:
        self._txn, self._thresholds = transaction, thresholds
        self._payloads: dict[int, Mapping[str, Any]] = {}
        self._passed: list[dict[str, Any]] = []

    def admit(
        self, index: int, item: MemoryItem, assertion_id: int, before: Sequence[Span], after: Sequence[Span]
    ) -> None:
        """Let a skill pass, or refuse it.

        Parameters
        ----------
        index : int
            Its place in the call.
        item : MemoryItem
            Resolved and sound.
        assertion_id : int
            Its number.
        before, after : sequence of Span
            The timeline without it, and with it.

        Raises
        ------
        SkillGateError
            With each thing that is missing, by name.
        """
        at_ns = item.valid_from_ns
        assert at_ns is not None
        self._payloads[assertion_id] = item.payload
        held, holds = span_at(before, at_ns), span_at(after, at_ns)
        if before == after or holds is None or (held is not None and held.content == holds.content):
            return
        skill, known = skill_of(item.payload), self._skill_of(held)
        problems = problems_at_gate(known, skill, self._thresholds)
        following = self._skill_of(span_at(after, holds.valid_to_ns) if holds.valid_to_ns else None)
        if following is not None and not problems:
            problems = [
                f'{problem}, which it is from later on'
                for problem in problems_at_gate(skill, following, self._thresholds)
            ]
        if problems:
            raise SkillGateError(
                '; '.join(f'items[{index}].payload: {problem}' for problem in problems),
                key=item.key,
                problems=problems,
            )
        self._passed.append(
            {
                'sequence': self._txn.sequence,
                'position': index,
                'key': item.key,
                'from_status': None if known is None else known.status,
                'to_status': skill.status,
                'evidence': _evidence_of(skill),
            }
        )

    def _skill_of(self, span: Span | None) -> SkillPayload | None:
        if span is None:
            return None
        payload = self._payloads.get(span.assertion_id)
        if payload is None:
            detail = self._txn.connection.execute(_detail, {'number': span.assertion_id}).scalar_one()
            payload = json.loads(detail)['payload']
        return skill_of(payload)

    def record(self, names: Sequence[tuple[int, str]]) -> None:
        """Keep what has passed, by identity and id of each item of the call."""
        for row in self._passed:
            row['identity_id'], row['id'] = names[row['position']]
        if self._passed:
            self._txn.connection.execute(skill_transition.insert(), self._passed)


def _evidence_of(skill: SkillPayload) -> str:
    told = {'traces': skill.evidence, 'verdicts': skill.verdicts.model_dump()}
    return json.dumps(told, ensure_ascii=False, separators=(',', ':'))


_stated_skills = sa.select(tag.c.assertion_id).where(tag.c.field == STATUS)
_detail = sa.select(assertion.c.detail).where(assertion.c.assertion_id == sa.bindparam('number'))
_payloads = (
    sa.select(assertion.c.assertion_id, assertion.c.detail)
    .where(assertion.c.assertion_id.in_(_stated_skills))
    .order_by(assertion.c.assertion_id)
)
_stated = (
    sa.select(
        assertion.c.content_digest,
        assertion.c.map_id,
        assertion.c.label,
        assertion.c.content,
        assertion.c.detail,
        identity.c.key,
    )
    .join(identity, identity.c.identity_id == assertion.c.identity_id)
    .where(assertion.c.assertion_id.in_(_stated_skills))
    .order_by(assertion.c.assertion_id)
)
_judged = (
    sa.select(assertion.c.detail, *(helpfulness.c[name] for name in VERDICTS))
    .join(version, version.c.assertion_id == assertion.c.assertion_id)
    .join(identity, identity.c.identity_id == version.c.identity_id)
    .outerjoin(helpfulness, helpfulness.c.subject == assertion.c.id)
    .where(
        identity.c.digest == sa.bindparam('digest'),
        version.c.to_seq.is_(None),
        version.c.valid_to_ns.is_(None),
    )
)
_keys = (
    sa.select(identity.c.key, assertion.c.content_digest)
    .join(identity, identity.c.identity_id == assertion.c.identity_id)
    .where(assertion.c.assertion_id.in_(_stated_skills))
)
_stated_of = (
    sa.select(identity.c.key, assertion.c.content_digest)
    .join(identity, identity.c.identity_id == assertion.c.identity_id)
    .join(version, version.c.identity_id == assertion.c.identity_id)
    .where(
        version.c.version_row.in_(sa.bindparam('rows', expanding=True)),
        version.c.kind == MemoryKind.SKILL.value,
    )
)
_transitions = (
    sa.select(skill_transition, txn.c.recorded_at_ns, txn.c.actor)
    .join(txn, txn.c.sequence == skill_transition.c.sequence)
    .order_by(skill_transition.c.sequence.desc(), skill_transition.c.position.desc())
    .limit(sa.bindparam('most'))
)
_transitions_of_key = _transitions.where(skill_transition.c.key == sa.bindparam('key'))


class SkillRepository:
    """Skills, what was ever stated of them, and their transitions."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def transitions(self, key: str | None, limit: int) -> list[SkillTransition]:
        """Return the latest transitions of one skill, or of all, oldest first."""
        asked = _transitions if key is None else _transitions_of_key
        rows = self._connection.execute(asked, {'key': key, 'most': limit})
        return [
            SkillTransition(
                row.sequence,
                row.recorded_at_ns,
                row.actor,
                row.id,
                row.key,
                row.from_status,
                row.to_status,
                json.loads(row.evidence or '{}'),
            )
            for row in reversed(rows.all())
        ]

    def payloads(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield number and payload of every skill that was ever stated, in order of their numbers."""
        for number, detail in self._connection.execute(_payloads):
            yield number, json.loads(detail)['payload']

    def judged(self, identity_digest: bytes) -> tuple[SkillPayload, Verdicts] | None:
        """Return the payload of a skill that holds now and the verdicts on it; None: nothing holds.

        Parameters
        ----------
        identity_digest : bytes
            Of the skill.
        """
        row = self._connection.execute(_judged, {'digest': identity_digest}).one_or_none()
        if row is None:
            return None
        counted = {name: getattr(row, name) or 0 for name in VERDICTS}
        return skill_of(json.loads(row.detail)['payload']), Verdicts(**counted)

    def stated(self) -> set[tuple[str, bytes]]:
        """Return key and content digest of every skill that was ever stated."""
        return {(row[0], row[1]) for row in self._connection.execute(_keys)}

    def stated_of(self, version_rows: Iterable[int]) -> set[tuple[str, bytes]]:
        """Return key and content digest of all that was ever stated of the skills of some versions."""
        return {
            (row[0], row[1])
            for part in chunks(version_rows)
            for row in self._connection.execute(_stated_of, {'rows': part})
        }

    def items(self, digests: Container[bytes]) -> Iterator[tuple[bytes, MemoryItem]]:
        """Yield content digest and item of skills, each once; an item has no more than its digest covers."""
        seen: set[bytes] = set()
        for row in self._connection.execute(_stated):
            if row.content_digest in seen or row.content_digest not in digests:
                continue
            seen.add(row.content_digest)
            detail = json.loads(row.detail)
            scope = detail.get('scope', {'map_id': row.map_id} if row.map_id else {})
            said = {name: detail[name] for name in ('entities', 'object_ids', 'links') if name in detail}
            item = MemoryItem(
                kind=MemoryKind.SKILL,
                key=row.key,
                label=row.label,
                content=row.content,
                payload=detail['payload'],
                scope=scope,
                **said,
            )
            yield row.content_digest, item
