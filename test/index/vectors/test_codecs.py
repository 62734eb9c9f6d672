"""Codes stay within the published bounds, are the same for the same seed, and take the bytes they claim."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hylo_memory_ros.index.vectors.provekv_pool import PoolCodec, spiral
from hylo_memory_ros.index.vectors.sign_codes import _BIT_COUNTS, SignCodes, rotation
from hylo_memory_ros.index.vectors.turbo_quant import TurboQuant, levels

RNG = np.random.default_rng(5)


def unit(count: int, dimension: int) -> NDArray[np.float32]:
    vectors = RNG.normal(size=(count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize('dimension', [64, 100, 384])
def test_a_rotation_is_orthogonal_and_the_same_for_the_same_seed(dimension: int) -> None:
    turned = rotation(dimension, 3)

    assert np.allclose(turned @ turned.T, np.eye(dimension), atol=1e-5)
    assert not np.allclose(turned, rotation(dimension, 4))
    rotation.cache_clear()
    assert (turned == rotation(dimension, 3)).all()


def test_levels_are_those_of_a_gaussian_in_many_dimensions() -> None:
    # Max (1960), table I: the levels of least error for a Gaussian.
    assert levels(2, 4096) * 64 == pytest.approx([-0.7979, 0.7979], abs=2e-3)
    assert levels(4, 4096) * 64 == pytest.approx([-1.510, -0.4528, 0.4528, 1.510], abs=3e-3)


@pytest.mark.parametrize('bits', [2, 4, 8])
@pytest.mark.parametrize('dimension', [96, 384])
def test_the_error_of_the_levels_is_within_the_published_bound(bits: int, dimension: int) -> None:
    vectors = unit(2000, dimension)
    codec = TurboQuant(dimension, bits, seed=1)
    decoded = codec.codes(codec.encode(vectors)).decoded(np.arange(2000))

    error = ((decoded - codec.rotated(vectors)) ** 2).sum(axis=1).mean()

    # Zandieh et al. (2025), theorem 1, for the bits that the levels have.
    assert error <= np.sqrt(3) * np.pi / 2 / 4 ** (bits - 1)


@pytest.mark.parametrize('bits', [2, 4, 8])
@pytest.mark.parametrize('dimension', [96, 384])
def test_inner_products_are_unbiased_and_within_the_published_bound(bits: int, dimension: int) -> None:
    vectors = unit(4000, dimension)
    question = unit(1, dimension)[0]
    errors = []
    for seed in range(4):
        codec = TurboQuant(dimension, bits, seed)
        codes = codec.codes(codec.encode(vectors))
        found = codes.products(codes.components(question), np.arange(4000))
        errors.append(found - vectors @ question)

    # Theorem 2: the expected squared error; four rotations stand for the expectation.
    assert np.mean(np.square(errors)) <= np.sqrt(3) * np.pi**2 / dimension / 4**bits
    deviation = np.std(errors) / np.sqrt(np.size(errors))
    assert abs(np.mean(errors)) <= 6 * deviation


def test_a_length_scales_the_estimate() -> None:
    vectors, question = unit(10, 64), unit(1, 64)[0]
    for codec in (TurboQuant(64, 4), PoolCodec(64)):
        parts = dict(codec.train(vectors))
        plain = codec.codes(parts | codec.encode(vectors))
        longer = codec.codes(parts | codec.encode(7 * vectors))
        components = plain.components(question)

        assert longer.products(components, np.arange(10)) == pytest.approx(
            7 * plain.products(components, np.arange(10)), rel=1e-3, abs=1e-4
        )


@pytest.mark.parametrize('dimension', [63, 384])
def test_the_pool_is_near_zadors_bound_for_its_codewords(dimension: int) -> None:
    vectors = unit(4000, dimension)
    codec = PoolCodec(dimension, seed=2)
    parts = dict(codec.train(vectors)) | codec.encode(vectors)
    codes = codec.codes(parts)
    turned = codec.rotated(vectors)[:, :dimension] / np.sqrt(dimension)

    error = ((codes.decoded(np.arange(4000)) - turned) ** 2).sum(axis=1).mean()

    bound = 5 / (18 * np.sqrt(3)) * 4 * np.pi / 256
    assert bound * 0.8 <= error <= bound * 1.25


def test_a_codebook_that_was_fitted_is_no_worse_than_the_spiral() -> None:
    vectors = unit(2000, 128)
    errors = []
    for fitted in (True, False):
        codec = PoolCodec(128)
        parts = dict(codec.train(vectors)) if fitted else {'codebook': spiral()}
        if not fitted:
            codec.codebook = spiral()
        codes = codec.codes(parts | codec.encode(vectors))
        turned = codec.rotated(vectors) / np.sqrt(128)
        errors.append(((codes.decoded(np.arange(2000)) - turned) ** 2).sum())

    assert errors[0] <= errors[1]


@pytest.mark.parametrize(('codec', 'most'), [(TurboQuant(384, 4), 0.135), (PoolCodec(384), 0.135)])
def test_codes_and_radii_take_the_bytes_that_they_claim(codec: TurboQuant | PoolCodec, most: float) -> None:
    vectors = unit(3000, 384)

    parts = dict(codec.train(vectors)) | codec.encode(vectors)

    assert sum(part.nbytes for part in parts.values()) <= most * vectors.nbytes


def test_codes_are_the_same_for_the_same_seed() -> None:
    vectors = unit(100, 50)
    for make in (lambda: TurboQuant(50, 5, 9), lambda: PoolCodec(50, 9)):
        first, second = make(), make()
        first.train(vectors), second.train(vectors)
        one, other = first.encode(vectors), second.encode(vectors)
        assert all((one[name] == other[name]).all() for name in one)


@pytest.mark.parametrize('bits', [1, 9])
def test_other_numbers_of_bits_are_refused(bits: int) -> None:
    with pytest.raises(ValueError, match='2 to 8'):
        TurboQuant(64, bits)


def test_signs_are_counted_and_nothing_that_is_not_allowed_is_chosen() -> None:
    vectors = RNG.normal(size=(500, 70)).astype(np.float32)
    signs = SignCodes(np.packbits(vectors > 0, axis=1), 70)
    question = RNG.normal(size=70).astype(np.float32)
    right = ((vectors > 0) != (question > 0)).sum(axis=1)

    assert (signs.differing(question) == right).all()

    allowed = np.zeros(500, np.bool_)
    allowed[::7] = True
    chosen = signs.nearest(question, 20, allowed)
    assert allowed[chosen].all()
    assert len(chosen) >= 20
    assert right[chosen].max() <= np.sort(right[allowed])[len(chosen) - 1]
    assert len(signs.nearest(question, 100, allowed)) == allowed.sum()
    assert not len(signs.nearest(question, 100, np.zeros(500, np.bool_)))


def test_bits_are_counted_the_same_without_the_instruction() -> None:
    words = RNG.integers(0, 2**63, size=(4, 9)).astype(np.uint64)

    counted = _BIT_COUNTS[words.view(np.uint16)].reshape(4, 9, 4).sum(axis=-1)

    assert counted.tolist() == [[bin(int(word)).count('1') for word in row] for row in words]
