"""Canonical bytes, typed digests over them, the hash of a set, and the base class of the six identities.

The text form of a digest names its layer (``embedding:sha256:…``), each layer hashes under its own name and
version, and each has its own class: a type checker, a run-time check and the bytes themselves all refuse a
digest of one layer in place of another.

Each element is expanded with SHAKE-256 to 1024 uint16, which are added to or subtracted
from a state of the same shape modulo 2**16. The order of changes does not matter, and
taking out what was put in gives the state before, bit for bit.
Source: Bellare and Micciancio, "A new paradigm for collision-free hashing", 1997; Lewi,
Kim, Maykov and Weis, "Securing update propagation with homomorphic hashing", 2019.
"""

from __future__ import annotations

import json
import re
import unicodedata
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256, shake_256
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, GetCoreSchemaHandler, StringConstraints
from pydantic_core import CoreSchema, core_schema
from typing_extensions import Self

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model.validation import Contract, Text

CANONICAL_FORM = 'hylo-c14n-1'

_encode = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(',', ':'), allow_nan=False, check_circular=False
).encode


def canonical_bytes(value: Mapping[str, Any]) -> bytes:
    r"""Return the canonical bytes of a JSON object.

    UTF-8, keys sorted by code point, no spaces, strings in NFC, floats in Python's shortest
    form (1.0 is ``1.0``), -0.0 as ``0.0``, integers in plain decimal of any size. RFC 8785
    will not do: it refuses integers over 2**53 and turns 1.0 into 1.

    Raises
    ------
    ValueError
        For NaN and the infinities.

    Examples
    --------
    >>> canonical_bytes({'b': 1.0, 'a': [2**60, -0.0]})
    b'{"a":[1152921504606846976,0.0],"b":1.0}'
    """
    text = _encode(value)
    # ASCII is in NFC whatever it says, so only other text, and a minus zero, needs the walk.
    if not text.isascii() or '-0.0' in text:
        text = _encode(_normal(value))
    return text.encode('utf-8')


def _normal(value: Any) -> Any:
    if isinstance(value, str):
        return unicodedata.normalize('NFC', value)
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, Mapping):
        return {unicodedata.normalize('NFC', key): _normal(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_normal(part) for part in value]
    return value


_HEX = re.compile(r'[0-9a-f]{64}')
_DOMAIN = b'hylo-identity\0'
_LAYERS: set[str] = set()


class _Digest(str):
    """Text of a fixed form: a prefix and 64 hex digits."""

    __slots__ = ()
    prefix: ClassVar[str]

    def __new__(cls, text: object) -> Self:
        """Take a digest from its text form.

        Raises
        ------
        ValueError
            It is not a digest, or one of another layer.
        """
        # Not isinstance: a digest of a subclass would be one of another layer.
        if type(text) is cls:
            return text
        if not isinstance(text, str) or not text.startswith(cls.prefix):
            raise ValueError(f'expected {cls.prefix}… of 64 hex digits, got {text!r:.90}: {_mismatch(text)}')
        if not _HEX.fullmatch(text, len(cls.prefix)):
            raise ValueError(f'expected {cls.prefix}… of 64 hex digits in lower case, got {text!r:.90}')
        return super().__new__(cls, text)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def _create(cls, digits: str) -> Self:
        return super().__new__(cls, cls.prefix + digits)

    @property
    def raw(self) -> bytes:
        """The 32 bytes."""
        return bytes.fromhex(self[len(self.prefix) :])


def _mismatch(value: object) -> str:
    if not isinstance(value, str):
        return f'it is a {type(value).__name__}'
    layer = value.partition(':')[0]
    return f'a digest of the layer {layer!r} proves nothing here' if layer in _LAYERS else 'it names no layer'


class Sha256(_Digest):
    """SHA-256 of plain bytes, ``sha256:`` and 64 hex digits: of a file, a vector, a text.

    Examples
    --------
    >>> Sha256.of(b'abc')[:16]
    'sha256:ba7816bf8'
    """

    __slots__ = ()
    prefix = 'sha256:'

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return the digest of bytes."""
        return cls._create(sha256(data).hexdigest())


class LayerDigest(_Digest):
    """The digest of one identity; its text form begins with the name of the layer."""

    __slots__ = ()
    layer: ClassVar[str]
    version: ClassVar[int] = 1

    def __init_subclass__(cls, *, layer: str) -> None:
        cls.layer, cls.prefix = layer, f'{layer}:sha256:'
        _LAYERS.add(layer)

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the digest of an identity's fields in canonical form, under this layer's name."""
        # The layer and its version are hashed too: equal fields of two layers differ in every digest.
        domain = _DOMAIN + f'{cls.layer}\0{cls.version}\0'.encode()
        return cls._create(sha256(domain + canonical_bytes(fields)).hexdigest())

    @classmethod
    def require(cls, value: object, field: str) -> Self:
        """Return a value that is this digest already; the check at run time.

        Raises
        ------
        InvalidRequestError
            It is anything else, such as a digest of another layer or a plain text.
        """
        if type(value) is not cls:
            raise InvalidRequestError(
                f'{field}: expected a {cls.__name__}, got {value!r:.90}, a {type(value).__name__}; '
                'no identity stands for another',
                field=field,
            )
        return value


class SemanticDigest(LayerDigest, layer='semantic'):
    """Digest of a remembered statement: what it says, and when that was so and was believed."""


class EmbeddingDigest(LayerDigest, layer='embedding'):
    """Digest of an authoritative vector of a statement."""


class GenerationDigest(LayerDigest, layer='generation'):
    """Digest of an approximate index: derived and rebuildable."""


class SegmentDigest(LayerDigest, layer='segment'):
    """Digest of the exact bytes of one part of a prompt."""


class TokenKvDigest(LayerDigest, layer='token_kv'):
    """Digest of tokens at their positions in one model's cache."""


class ArtifactDigest(LayerDigest, layer='artifact'):
    """Digest of the bytes that a compression emitted."""


Named = Annotated[Text, StringConstraints(min_length=1, max_length=1024, strict=True)]
"""A name or version that is not empty."""

Count = Annotated[int, Field(ge=1, le=2**53, strict=True)]
"""A number of things, at least one."""

Number = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
"""A sequence, a seed, a position or a stamp."""


class Identity(Contract):
    """Base of the identities: two things are the same when their digests are equal.

    Each of the six layers is a subclass with a digest of its own class, made of exactly the inputs
    that decide; an unknown or missing input is refused by name.
    """

    @property
    @abstractmethod
    def digest(self) -> LayerDigest:
        """The digest over every field."""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return self.model_dump(mode='json')


SNAPSHOT_FORMAT = b'hylo-snapshot-2'
WORDS = 1024
EMPTY_STATE = bytes(2 * WORDS)


def update_state(state: bytes, added: Iterable[bytes] = (), removed: Iterable[bytes] = ()) -> bytes:
    """Return the state after elements (digests of 32 bytes) came in and went out.

    Examples
    --------
    >>> one = update_state(EMPTY_STATE, added=[b'a'])
    >>> update_state(one, added=[b'b'], removed=[b'a', b'b']) == EMPTY_STATE
    True
    """
    # Unsigned numbers wrap modulo 2**16, which is the group of the hash.
    words = np.frombuffer(state, dtype='<u2') + _sum(added) - _sum(removed)
    return words.astype('<u2').tobytes()


def _sum(elements: Iterable[bytes]) -> NDArray[np.uint16]:
    # Bounded pieces: a bulk load must not hold 2 KiB for each of a million elements.
    total = np.zeros(WORDS, dtype='<u2')
    batch: list[bytes] = []
    for element in elements:
        batch.append(_expand(element))
        if len(batch) == 1024:
            total += _block_sum(batch)
            batch.clear()
    return total + _block_sum(batch) if batch else total


# One transaction takes the same elements out of several sets.
@lru_cache(maxsize=256)
def _expand(element: bytes) -> bytes:
    return shake_256(element).digest(2 * WORDS)


def _block_sum(batch: list[bytes]) -> NDArray[np.uint16]:
    block = np.frombuffer(b''.join(batch), dtype='<u2').reshape(-1, WORDS)
    summed: NDArray[np.uint16] = block.sum(axis=0, dtype='<u2')
    return summed


def digest_of_state(state: bytes) -> str:
    """Return ``sha256:`` and the hex digest of format version and state."""
    return 'sha256:' + sha256(SNAPSHOT_FORMAT + state).hexdigest()
