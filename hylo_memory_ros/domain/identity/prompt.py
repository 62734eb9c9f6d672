"""Identities (digests) of prompt segments and KV-cache entries, and the rules of their reuse.

Equal meaning is not evidence. Each difference is named by its path, the renderer's bytes, the tokenizer,
the model, the positions and the codec alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from hylo_memory_ros.domain.identity.artifact import Codec, CompressionArtifactIdentity
from hylo_memory_ros.domain.identity.digest import (
    Count,
    Identity,
    Named,
    Number,
    SegmentDigest,
    Sha256,
    TokenKvDigest,
)
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import parse_object
from hylo_memory_ros.model.validation import Contract

SegmentType = Literal['system', 'tool_schema', 'memory_prelude', 'retrieved_doc', 'user_turn', 'agent_tail']


class RenderedSegmentIdentity(Identity):
    """Identity of the bytes given to a tokenizer: other bytes of the same meaning are another segment."""

    renderer: Named
    """Renderer and its version, ``name@version``."""
    segment_type: SegmentType
    """What the segment is for."""
    source_ids: tuple[Named, ...]
    """Ids of the items in it, in order."""
    bytes_digest: Sha256
    """Digest of its text in UTF-8."""
    separator_digest: Sha256
    """Digest of the policy that separates and frames segments."""

    @property
    def digest(self) -> SegmentDigest:
        """The digest over every field."""
        return SegmentDigest.of(self.fields)


class Tokenizer(Contract):
    """Tokenizer and its configuration."""

    name: Named
    """Its name."""
    version: Named
    """Its version."""
    digest: Sha256
    """Digest of its files."""


class ModelRevision(Contract):
    """Model whose cache it is."""

    id: Named
    """Name of the model."""
    revision: Named
    """Its revision, such as a commit."""
    config_digest: Sha256
    """Digest of its configuration."""


class PositionLayout(Contract):
    """Position of the tokens in the prompt, and the encoding of positions."""

    policy_digest: Sha256
    """Digest of the position policy, such as RoPE with its base and scaling."""
    token_start: Number
    """Position of the first token."""
    token_end: Number
    """Position behind the last token."""

    @model_validator(mode='after')
    def _validate_range(self) -> PositionLayout:
        if self.token_end <= self.token_start:
            raise ValueError(f'position: the range [{self.token_start}, {self.token_end}) holds no token')
        return self


class AttentionLayout(Contract):
    """The shape of the cache."""

    layers: Count
    """Layers of the model."""
    kv_heads: Count
    """Key and value heads of a layer."""
    head_dim: Count
    """Components of a head."""
    layout: Named
    """How attention is laid out, such as ``gqa``."""


class CacheLayout(Contract):
    """Memory layout of the cache."""

    dtype: Named
    """Type of its numbers, such as ``bf16``."""
    layout: Named
    """Order of its axes, such as ``paged/16``."""


class TokenKvIdentity(Identity):
    """Identity of cached tokens: tokens, positions and model, as exact reuse needs."""

    segment: SegmentDigest
    """The rendered segment that was tokenized."""
    tokenizer: Tokenizer
    """What tokenized it."""
    model: ModelRevision
    """Model whose cache it is."""
    position: PositionLayout
    """Where its tokens stand."""
    attention: AttentionLayout
    """The shape of the cache."""
    token_ids: Annotated[tuple[Number, ...], Field(min_length=1, max_length=2**20)]
    """The tokens."""
    cache: CacheLayout
    """Memory layout of the cache."""

    @model_validator(mode='after')
    def _validate_tokens(self) -> TokenKvIdentity:
        span = self.position.token_end - self.position.token_start
        if span != len(self.token_ids):
            raise ValueError(
                f'token_ids: {len(self.token_ids)} tokens do not fill the range '
                f'[{self.position.token_start}, {self.position.token_end})'
            )
        return self

    @property
    def digest(self) -> TokenKvDigest:
        """The digest over every field."""
        return TokenKvDigest.of(self.fields)


_MOST = 40


@dataclass(frozen=True, slots=True)
class Reuse:
    """The answer to whether a cache may be used."""

    allowed: bool
    """Whether everything is the same."""
    reasons: tuple[str, ...]
    """Each difference; empty when allowed."""

    def __bool__(self) -> bool:
        """Return True if reuse is allowed."""
        return self.allowed


class CachedPrefix(Contract):
    """A kept or wanted prompt cache: its tokens, and what they may be compressed with."""

    token_kv: TokenKvIdentity
    """The tokens, positions and model."""
    segment: RenderedSegmentIdentity | None = None
    """The bytes that were tokenized, to name a difference in detail."""
    codec: Codec | None = None
    """How it is compressed; None: it is not."""
    artifact: CompressionArtifactIdentity | None = None
    """The compressed bytes, which name their codec."""

    @model_validator(mode='after')
    def _one_chain(self) -> CachedPrefix:
        if self.segment is not None and self.segment.digest != self.token_kv.segment:
            raise ValueError(
                f'segment: its digest {self.segment.digest} is not the one that was tokenized, '
                f'{self.token_kv.segment}'
            )
        if self.artifact is not None:
            if self.artifact.source != self.token_kv.digest:
                raise ValueError(
                    f'artifact: it is of {self.artifact.source}, not of these tokens, {self.token_kv.digest}'
                )
            if self.codec is not None and self.codec != self.artifact.codec:
                raise ValueError('codec: it is not that of the artifact')
        return self

    @property
    def compression(self) -> Codec | None:
        """Compression of the cache."""
        return self.codec if self.artifact is None else self.artifact.codec


def prefix_from_json(text: str, field: str) -> CachedPrefix:
    """Read a cache from JSON: an object with ``token_kv``, and perhaps segment, codec, artifact.

    Raises
    ------
    InvalidRequestError
        It is not a JSON object, or a field is unknown, missing or wrong; all of them by name.
    """
    try:
        fields = parse_object(text, field)
    except ValueError as exc:
        raise InvalidRequestError(str(exc), field=field) from exc
    try:
        return CachedPrefix(**fields)
    except ValidationError as exc:
        raise InvalidRequestError('; '.join(_problems(exc, field)), field=field) from exc


def _problems(error: ValidationError, field: str) -> Iterator[str]:
    for problem in error.errors(include_url=False):
        path = '.'.join(map(str, (field, *problem['loc'])))
        if problem['type'] == 'extra_forbidden':
            yield f'{path}: no such field; only exact identity permits reuse'
        elif problem['type'] == 'missing':
            yield f'{path}: it is missing'
        else:
            yield f'{path}: {problem["msg"].removeprefix("Value error, ")}'


def may_reuse(have: CachedPrefix | TokenKvIdentity, want: CachedPrefix | TokenKvIdentity) -> Reuse:
    """Tell whether a kept cache may be used for what is wanted, and every difference if not.

    Parameters
    ----------
    have, want : CachedPrefix or TokenKvIdentity
        What is kept, and what is needed.

    Raises
    ------
    InvalidRequestError
        Something else is given, such as a semantic identity or a similarity: it is no evidence.
    """
    kept, wanted = _prefix(have, 'have'), _prefix(want, 'want')
    reasons = list(_differences('', _comparable_fields(kept), _comparable_fields(wanted)))
    if len(reasons) > _MOST:
        reasons[_MOST:] = [f'{len(reasons) - _MOST} more differences']
    return Reuse(not reasons, tuple(reasons))


def _prefix(value: object, field: str) -> CachedPrefix:
    if isinstance(value, CachedPrefix):
        return value
    if isinstance(value, TokenKvIdentity):
        return CachedPrefix(token_kv=value)
    kind = type(value).__name__
    if isinstance(value, Identity):
        kind = f'a {kind} is no evidence for the reuse of a cache'
    elif isinstance(value, float):
        kind = f'a similarity of {value} is no evidence for the reuse of a cache'
    raise InvalidRequestError(
        f'{field}: {kind}: give a TokenKvIdentity or a CachedPrefix; only exact identity permits reuse',
        field=field,
    )


def _comparable_fields(prefix: CachedPrefix) -> dict[str, Any]:
    token_kv = prefix.token_kv.fields
    compared: dict[str, Any] = {'renderer': token_kv.pop('segment')}
    compared |= token_kv
    compared['codec'] = None if prefix.compression is None else prefix.compression.model_dump(mode='json')
    if prefix.segment is not None:
        compared['segment'] = prefix.segment.fields
    return compared


def _differences(path: str, have: Any, want: Any) -> Iterator[str]:
    if have == want:
        return
    if isinstance(have, Mapping) and isinstance(want, Mapping):
        for name in {**have, **want}:
            if not path and name == 'segment' and not (name in have and name in want):
                continue  # known to one side only: the digest under `renderer` decides
            yield from _differences(f'{path}.{name}' if path else name, have.get(name), want.get(name))
    elif isinstance(have, list) and isinstance(want, list):
        yield f'{path}: {_first_difference(have, want)}'
    else:
        yield f'{path}: kept {_format_value(have)}, wanted {_format_value(want)}'


def _first_difference(have: list[Any], want: list[Any]) -> str:
    for place, (kept, wanted) in enumerate(zip(have, want, strict=False)):
        if kept != wanted:
            values = f'kept {_format_value(kept)}, wanted {_format_value(wanted)}'
            return f'the first difference is at {place}: {values}'
    return f'kept {len(have)}, wanted {len(want)}'


def _format_value(value: Any) -> str:
    if value is None:
        return 'none'
    if isinstance(value, Mapping):
        return str(value.get('profile', 'some'))
    return f'{value!r:.90}'
