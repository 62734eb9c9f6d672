"""The gates refuse what tries to get past them."""

from __future__ import annotations

import pytest
from domain.identity.examples import SHA, artifact, embedding, generation

from hylo_memory_ros.domain.identity import (
    Codec,
    CompressionArtifactIdentity,
    CompressionFigure,
    DerivedGenerationIdentity,
    Sha256,
    require_exact_rerank,
    require_ordering,
)
from hylo_memory_ros.errors import ConfigurationError, InvalidRequestError


@pytest.mark.parametrize('backend', ['usearch', 'turbo_quant', 'provekv_pool', 'something_new'])
def test_a_derived_backend_needs_exact_rerank(backend):
    require_exact_rerank(backend, exact_rerank=True)
    with pytest.raises(ConfigurationError, match=f"exact_rerank: false with the derived backend '{backend}'"):
        require_exact_rerank(backend, exact_rerank=False)


def test_the_exact_backend_needs_none():
    require_exact_rerank('exact', exact_rerank=False)


def pairs(count=3):
    return [(f'spatial/{i}', embedding(f'spatial/{i}', bytes([i])).digest) for i in range(count)]


def test_a_generation_records_its_ordering():
    require_ordering(generation(), pairs())
    with pytest.raises(InvalidRequestError, match='missing, so search results'):
        require_ordering(generation(), None)
    with pytest.raises(InvalidRequestError, match=r'expected the \d+ recorded vectors'):
        require_ordering(generation(), pairs()[::-1])
    with pytest.raises(InvalidRequestError, match='at least one vector'):
        require_ordering(generation(), [])
    with pytest.raises(ValueError, match='ordering'):
        DerivedGenerationIdentity(**{**generation().fields, 'ordering': None})


def of_vectors(data, source=None):
    return CompressionArtifactIdentity(
        source=(source or generation()).digest, codec=Codec(family='provekv_pool', version='1', profile='k4'),
        bytes_digest=Sha256.of(data), manifest_digest=SHA('m'), receipt_digest=SHA('r'),
    )  # fmt: skip


def test_a_figure_is_counted_on_our_own_bytes():
    figure = CompressionFigure.measure(generation(), of_vectors(b'abcdef'), b'abcdef')
    assert (figure.artifact_bytes, figure.raw_bytes, figure.ratio) == (6, 3 * 4 * 4, 0.125)


def test_a_figure_of_something_else_is_refused():
    with pytest.raises(InvalidRequestError, match='says nothing about vectors'):
        CompressionFigure.measure(generation(), artifact(), b'bytes')
    with pytest.raises(InvalidRequestError, match='it is of generation:sha256'):
        CompressionFigure.measure(generation(), of_vectors(b'a', generation(count=2)), b'a')
    with pytest.raises(InvalidRequestError, match='are not the artifact'):
        CompressionFigure.measure(generation(), of_vectors(b'abcdef'), b'abc')
    with pytest.raises(InvalidRequestError, match='expected a DerivedGenerationIdentity, got'):
        CompressionFigure.measure(0.17, of_vectors(b'abcdef'), b'abcdef')


def test_an_artifact_of_vectors_has_no_keys_and_values_and_one_of_a_cache_both():
    with pytest.raises(ValueError, match='value_codec: a compressed cache has both'):
        artifact(value_codec=None)
    with pytest.raises(ValueError, match='key_codec, value_codec: a candidate index has no keys'):
        artifact(of=generation())
