"""Statements in canonical form: content, computed id, identity digest and semantic identity."""

from __future__ import annotations

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
    """What the snapshot hash counts: the content and, unless assumed, ``valid_from``."""
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
    element = sha256(dated).digest()
    content = sha256(text).digest() if item.key is not None else element
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
