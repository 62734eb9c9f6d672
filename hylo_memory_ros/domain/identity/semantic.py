"""The identity of what is remembered: it finds memories, and proves nothing about prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hylo_memory_ros.domain.identity.canonical import canonical_bytes
from hylo_memory_ros.domain.identity.digest import SemanticDigest, Sha256
from hylo_memory_ros.domain.identity.layer import Identity, Named, Number
from hylo_memory_ros.domain.identity.statement import statement_of
from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.model._text import Key, Name, Text

__all__ = ['SemanticIdentity']


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
    """Digest of what is told beside it: confidence, evidence, provenance."""
    source: Text
    """What said so, ``component@version``."""

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
