"""Embedding vectors of an item, and the declaration of embedding spaces."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from typing_extensions import Self

from hylo_memory_ros.model.validation import NOT_A_PARAMETER, Contract, Text, floats_of

SPACE = re.compile(r'[^\s@]+@[^\s@]+')
MIN_NORM = 1e-12


def _space(name: object) -> str:
    if not isinstance(name, str) or not SPACE.fullmatch(name):
        raise ValueError(f'expected an embedding space as name@version, got {name!r}')
    return name


def validate_vector(value: object) -> tuple[float, ...]:
    """Return a vector rounded to float32, the precision in which vectors are kept.

    Raises
    ------
    ValueError
        If it is empty, not finite in float32, or shorter than 1e-12 (it has no direction).
    """
    parts = floats_of(value)
    try:
        # struct rounds to float32 as NumPy does, without an array for each vector.
        vector = struct.unpack(f'<{len(parts)}f', struct.pack(f'<{len(parts)}f', *parts))
    except OverflowError as exc:
        raise ValueError('a vector component does not fit into float32') from exc
    if not vector or not all(map(math.isfinite, vector)):
        raise ValueError('a vector needs at least one component, all finite')
    if math.hypot(*vector) < MIN_NORM:
        raise ValueError(f'a vector shorter than {MIN_NORM:g} has no direction')
    return tuple(part + 0.0 for part in vector)


def _embeddings(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f'expected a mapping of space to vector, got {type(value).__name__}')
    return {_space(name): validate_vector(vector) for name, vector in value.items()}


SpaceName = Annotated[str, AfterValidator(_space)]
"""An embedding space, ``name@version``."""

Vector = Annotated[tuple[float, ...], BeforeValidator(validate_vector)]
"""Components in float32."""

Embeddings = Annotated[Mapping[str, tuple[float, ...]], BeforeValidator(_embeddings)]
"""Vectors by space."""

Metric = Literal['cosine', 'dot', 'l2']
"""How vectors are compared; see `hylo_memory_ros.index.vectors.metric` for the direction of each."""

Backend = Literal['exact', 'usearch', 'turbo_quant', 'provekv_pool']
"""Index that finds the candidates of a query by vector."""

_DIGEST = re.compile(r'sha256:[0-9a-f]{64}')


def _digest(value: str) -> str:
    if value and not _DIGEST.fullmatch(value):
        raise ValueError(f'expected a digest as sha256: and 64 hexadecimal digits, got {value!r}')
    return value


class EmbeddingSpace(Contract):
    """One embedding space: dimension, metric and model are kept in the file and may not change."""

    dimension: Annotated[int, Field(ge=1, le=65_536)]
    """Number of components of each vector."""
    metric: Metric = 'cosine'
    """How vectors are compared: cosine, dot or l2; more similar is always higher."""
    model: Text = ''
    """Name of the model that makes the vectors."""
    provider_digest: Annotated[str, AfterValidator(_digest)] = ''
    """Digest of model file and configuration, sha256:…; empty: of the embedder, or not known."""
    embedder: Text = ''
    """Embedder plug-in that turns texts into vectors of this space; empty: vectors come with the items."""
    backend: Backend = 'exact'
    """Index that finds candidates once there are more vectors than `exact_up_to`."""
    exact_up_to: Annotated[int, Field(ge=0, le=2**31), NOT_A_PARAMETER] = 20_000
    """Up to this many vectors every query is answered by an exact scan, whatever the backend."""
    exact_rerank: Annotated[bool, NOT_A_PARAMETER] = True
    """Compare candidates again in exact float32; a derived backend without it is refused."""
    pool_factor: Annotated[int, Field(ge=10, le=1000), NOT_A_PARAMETER] = 10
    """Candidates that are compared again in exact float32, for each requested hit."""
    quantization: Literal['f32', 'f16', 'i8'] = 'f16'
    """Scalar type of the vectors in the graph of usearch; i8 for cosine only."""
    bits: Annotated[int, Field(ge=2, le=8), NOT_A_PARAMETER] = 4
    """Bits for each component in turbo_quant, the sketch of the residual included."""
    mean_of_summaries: bool = False
    """A summary gets the mean of the vectors it stands for; else its text is embedded, where it can be."""
    seed: Annotated[int, Field(ge=0, lt=2**63), NOT_A_PARAMETER] = 0
    """Seed of the random rotation and sketch of turbo_quant and provekv_pool."""

    @model_validator(mode='after')
    def _validate_backend(self) -> Self:
        if self.backend != 'exact' and not self.exact_rerank:
            raise ValueError(
                f'exact_rerank: false with the derived backend {self.backend!r}: candidates of a derived '
                'index are never an answer before exact float32 compared them'
            )
        if self.backend == 'usearch' and self.quantization == 'i8' and self.metric != 'cosine':
            raise ValueError(
                f'quantization: i8 with the metric {self.metric!r}: 8 bits hold vectors of length one, which '
                'only cosine compares'
            )
        return self

    @property
    def lasting(self) -> dict[str, Any]:
        """Fields kept in the file, which make vectors comparable and may not change."""
        return {
            'dimension': self.dimension,
            'metric': self.metric,
            'model': self.model,
            'provider_digest': self.provider_digest,
        }


def _names(spaces: Mapping[str, EmbeddingSpace]) -> Mapping[str, EmbeddingSpace]:
    for name in spaces:
        if not SPACE.fullmatch(name):
            raise ValueError(f'expected an embedding space as name@version, got {name!r}')
    return spaces


Spaces = Annotated[Mapping[str, EmbeddingSpace], AfterValidator(_names)]
"""Embedding spaces by name, ``name@version``."""

_IN_PARAMETERS = re.compile(r'[A-Za-z][A-Za-z0-9_-]{0,63}@[A-Za-z0-9_-]{1,32}')


def _name(value: str) -> str:
    if not _IN_PARAMETERS.fullmatch(value):
        raise ValueError(
            'expected the name of a space as name@version, of letters, digits, _ and -, beginning with a '
            f'letter, got {value!r}'
        )
    return value


SpaceNames = tuple[Annotated[str, AfterValidator(_name)], ...]
"""Names as they can be part of a parameter's name."""


def undeclared_space(dimension: int) -> EmbeddingSpace:
    """Return the settings of an undeclared space: cosine, exact, of its first vector's dimension."""
    return EmbeddingSpace(dimension=dimension)
