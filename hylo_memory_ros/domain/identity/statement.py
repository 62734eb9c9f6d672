"""Statements in canonical form: content, details, computed id, identity digest and semantic identity.

The content of a statement is what makes two of them the same. Its details are what an answer shows beside:
confidence, source, covariance, evidence, provenance and vectors.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from hylo_memory_ros.domain.identity.digest import (
    Identity,
    Named,
    Number,
    SemanticDigest,
    Sha256,
    canonical_bytes,
)
from hylo_memory_ros.model import MemoryItem, Pose
from hylo_memory_ros.model.validation import Key, Name, Text


@dataclass(frozen=True, slots=True)
class Statement:
    """The digests of one resolved item; each is SHA-256, 32 bytes."""

    content: bytes
    """Equal for two items that say the same."""
    identity: bytes
    """Equal for two items of which the later may supersede the earlier."""
    element: bytes
    """What the snapshot hash counts: content and details, stamps and, unless assumed, ``valid_from``."""
    id: str
    """``kind/`` and 32 hex digits, from content, identity and ``valid_from``; or the id given."""


def statement_of(item: MemoryItem, identity_scope: Sequence[str]) -> Statement:
    """Return the digests of an item whose ``valid_from`` is resolved.

    Parameters
    ----------
    item : MemoryItem
        With `valid_from_ns` set.
    identity_scope : sequence of str
        Scope names whose values belong to the identity of a keyed item.

    Examples
    --------
    >>> mug = MemoryItem(kind='spatial', key='mug', content='red', valid_from=1)
    >>> again = MemoryItem(kind='spatial', key='mug', content='red', valid_from=2, confidence=0.5)
    >>> a, b = statement_of(mug, ['map_id']), statement_of(again, ['map_id'])
    >>> a.content == b.content, a.identity == b.identity, a.id == b.id
    (True, True, False)
    """
    stamp_ns = item.valid_from_ns
    if stamp_ns is None:
        raise ValueError('valid_from is not resolved')
    text = canonical_bytes(_content_fields(item))
    # valid_from_ns sorts behind every other field, so its canonical form is a splice.
    dated = text if item.valid_from_assumed else text[:-1] + b',"valid_from_ns":%d}' % stamp_ns
    content = sha256(text if item.key is not None else dated).digest()
    element = sha256(dated + canonical_bytes(_shown_fields(item))).digest()
    if item.key is None:
        identity = sha256(b'keyless\0' + content).digest()
    else:
        identity = identity_digest(item, identity_scope)
    named = item.id or computed_id(item.kind.value, content, identity, stamp_ns)
    return Statement(content, identity, element, named)


def computed_id(kind: str, content: bytes, identity: bytes, valid_from_ns: int) -> str:
    """Return what a statement is called to which no id was given."""
    digest = sha256(content + identity + valid_from_ns.to_bytes(8, 'big'))
    return f'{kind}/{digest.hexdigest()[:32]}'


def content_bytes(item: MemoryItem) -> bytes:
    """Return the canonical bytes that the content digest of an item with a key is of.

    Examples
    --------
    >>> mug = MemoryItem(kind='spatial', key='mug', content='red', valid_from=1)
    >>> content_bytes(mug), sha256(content_bytes(mug)).digest() == statement_of(mug, []).content
    (b'{"content":"red","key":"mug","kind":"spatial"}', True)
    """
    return canonical_bytes(_content_fields(item))


def identity_digest(item: MemoryItem, identity_scope: Sequence[str]) -> bytes:
    """Return the digest of what an item with a key may supersede; it depends on no time and no content.

    Examples
    --------
    >>> mug = MemoryItem(kind='spatial', key='mug', content='red', valid_from=1)
    >>> identity_digest(mug, ['map_id']) == statement_of(mug, ['map_id']).identity
    True
    """
    scope = {name: item.scope[name] for name in identity_scope if name in item.scope}
    return sha256(canonical_bytes({'key': item.key, 'kind': item.kind.value, 'scope': scope})).digest()


def _content_fields(item: MemoryItem) -> dict[str, Any]:
    """Return what makes two statements the same; empty fields are left out."""
    fields: dict[str, Any] = {
        'content': item.content,
        'entities': sorted(set(item.entities)),
        'extent': item.extent,
        'key': item.key,
        'label': item.label,
        'links': sorted(set(item.links)),
        'object_ids': sorted(set(item.object_ids)),
        'payload': item.payload,
        'pose': item.pose and _pose_fields(item.pose),
        'scope': item.scope,
    }
    fields = {name: value for name, value in fields.items() if value}
    fields['kind'] = item.kind.value
    if item.key is None and (span := item.event_time):
        fields['event_time'] = {'clock': span.clock, 'end_ns': span.end_ns, 'start_ns': span.start_ns}
    return fields


def _shown_fields(item: MemoryItem) -> dict[str, Any]:
    """Return what an answer shows beside content and ``valid_from``; empty fields are left out."""
    fields: dict[str, Any] = {
        'source': item.source,
        'evidence': item.evidence,
        'provenance': item.provenance,
        'embeddings': {
            space: sha256(struct.pack(f'<{len(vector)}f', *vector)).hexdigest()
            for space, vector in item.embeddings.items()
        },
    }
    if item.pose is not None:
        fields |= {'covariance': item.pose.covariance, 'stamp_ns': item.pose.stamp_ns}
    if item.event_time is not None:
        span = item.event_time
        fields['event_time'] = {'clock': span.clock, 'end_ns': span.end_ns, 'start_ns': span.start_ns}
    # A stamp of 0 is a time.
    fields = {name: value for name, value in fields.items() if value not in (None, '', (), {})}
    fields['confidence'] = item.confidence
    return fields


MOST_EVIDENCE = 64
"""References that a merged statement keeps, the newest; one statement alone may bring more."""


def details_of(item: MemoryItem) -> dict[str, Any]:
    """Return the fields of an item that a repetition of its content may change."""
    return {
        'confidence': item.confidence,
        'source': item.source,
        'evidence': item.evidence,
        'provenance': item.provenance,
        'embeddings': item.embeddings,
        'covariance': item.pose and item.pose.covariance,
    }


def with_details(item: MemoryItem, other: MemoryItem) -> MemoryItem:
    """Return an item with the details of another that says the same; a covariance comes with its stamp."""
    details = details_of(other)
    del details['covariance']
    result = item.model_copy(update=details)
    return (
        result if other.pose is None else _with_covariance(result, other.pose.covariance, other.pose.stamp_ns)
    )


def is_moved(confidence: float, newer: float, step: float) -> bool:
    """Return whether a confidence differs from another by at least a step."""
    # 0.7 - 0.5 is less than 0.2 in binary.
    return abs(newer - confidence) > step - 1e-9


def merged(held: MemoryItem, newer: MemoryItem, confidence_step: float) -> MemoryItem:
    """Return a statement with what a repetition of its content adds; itself if that adds nothing.

    Confidence (if it moved by the step), source and covariance are those of the newer where it has any,
    vectors too, by space; evidence and provenance are united.

    Examples
    --------
    >>> mug = MemoryItem(kind='spatial', key='mug', confidence=0.5, evidence=['a'])
    >>> again = MemoryItem(kind='spatial', key='mug', confidence=0.9, evidence=['b'])
    >>> merged(mug, again, 0.05).confidence, merged(mug, again, 0.05).evidence
    (0.9, ('a', 'b'))
    >>> merged(mug, mug, 0.05) is mug
    True
    """
    most = max(MOST_EVIDENCE, len(newer.evidence))
    details: dict[str, Any] = {
        'source': newer.source or held.source,
        'evidence': tuple(dict.fromkeys((*held.evidence, *newer.evidence)))[-most:],
        'provenance': {**held.provenance, **newer.provenance},
        'embeddings': {**held.embeddings, **newer.embeddings},
    }
    if is_moved(held.confidence, newer.confidence, confidence_step):
        details['confidence'] = newer.confidence
    result = held.model_copy(update=details)
    if newer.pose is not None and newer.pose.covariance is not None:
        of_newer = newer.pose.covariance, newer.pose.stamp_ns
        result = _with_covariance(result, *of_newer)
    return held if details_of(result) == details_of(held) else result


def _with_covariance(
    item: MemoryItem, covariance: tuple[float, ...] | None, stamp_ns: int | None
) -> MemoryItem:
    if item.pose is None or item.pose.covariance == covariance:
        return item
    measured = {'covariance': covariance, 'stamp_ns': stamp_ns}
    return item.model_copy(update={'pose': item.pose.model_copy(update=measured)})


def _pose_fields(pose: Pose) -> dict[str, Any]:
    fields: dict[str, Any] = {'frame_id': pose.frame_id, 'position': pose.position}
    if (q := pose.orientation) is not None:
        # q and -q are one rotation: the last component that is not zero is made positive.
        sign = next(part for part in reversed(q) if part) < 0.0
        fields['orientation'] = [-part + 0.0 for part in q] if sign else q
    return fields


class SemanticIdentity(Identity):
    """Identity of a statement with its valid and believed intervals."""

    namespace: Mapping[Name, Name]
    """Values of the identity scope, such as ``map_id``."""
    record_id: Key
    """Id of the item."""
    content_digest: Sha256
    """Digest of what it says."""
    valid_from_ns: Number
    """When it became true."""
    valid_to_ns: Number | None
    """When it ceased to be true; None: open."""
    from_seq: Number
    """The transaction since which it is believed."""
    to_seq: Number | None
    """The transaction since which it is no longer believed; None: it still is."""
    metadata_digest: Sha256
    """Digest of its metadata: confidence, evidence, provenance."""
    source: Text
    """Producer, ``component@version``."""

    @property
    def digest(self) -> SemanticDigest:
        """The digest over every field."""
        return SemanticDigest.of(self.fields)

    @classmethod
    def of(
        cls,
        item: MemoryItem,
        identity_scope: Sequence[Named],
        *,
        valid_to_ns: int | None,
        from_seq: int,
        to_seq: int | None = None,
    ) -> SemanticIdentity:
        """Return the identity of a stored item and its two intervals."""
        if item.valid_from_ns is None:
            raise ValueError('valid_from is not resolved')
        statement = statement_of(item, identity_scope)
        beside = {
            'confidence': item.confidence,
            'evidence': list(item.evidence),
            'provenance': dict(item.provenance),
        }
        return cls(
            namespace={name: item.scope[name] for name in sorted(identity_scope) if name in item.scope},
            record_id=statement.id,
            content_digest=Sha256(f'sha256:{statement.content.hex()}'),
            valid_from_ns=item.valid_from_ns,
            valid_to_ns=valid_to_ns,
            from_seq=from_seq,
            to_seq=to_seq,
            metadata_digest=Sha256.of(canonical_bytes(beside)),
            source=item.source,
        )
