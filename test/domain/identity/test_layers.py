"""Six identities, each with a digest that nothing else can stand for."""

from __future__ import annotations

import pytest
from domain.identity.examples import SHA, artifact, embedding, every_identity, generation, semantic, token_kv
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hylo_memory_ros.domain.identity import (
    ArtifactDigest,
    CompressionArtifactIdentity,
    EmbeddingDigest,
    GenerationDigest,
    Ordering,
    SegmentDigest,
    SemanticDigest,
    SemanticIdentity,
    Sha256,
    TokenKvDigest,
    TokenKvIdentity,
)
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MemoryItem

DIGESTS = (SemanticDigest, EmbeddingDigest, GenerationDigest, SegmentDigest, TokenKvDigest, ArtifactDigest)


def test_each_layer_has_its_own_digest():
    told = {type(one): one.digest for one in every_identity()}
    assert [type(digest) for digest in told.values()] == list(DIGESTS)
    assert len({digest.rpartition(':')[2] for digest in told.values()}) == 6
    assert all(digest.startswith(type(digest).layer + ':sha256:') for digest in told.values())


@pytest.mark.parametrize('of', DIGESTS)
def test_the_same_fields_hash_differently_in_each_layer(of):
    others = [other.of({'a': 1}).raw for other in DIGESTS if other is not of]
    assert of.of({'a': 1}).raw not in others


@pytest.mark.parametrize('meant', DIGESTS)
@pytest.mark.parametrize('given_', DIGESTS)
def test_no_digest_passes_for_one_of_another_layer(meant, given_):
    digest = given_.of({'a': 1})
    if meant is given_:
        assert meant.require(digest, 'it') is digest
        assert meant(str(digest)) == digest
        return
    with pytest.raises(InvalidRequestError, match=f'expected a {meant.__name__}, got .* a {given_.__name__}'):
        meant.require(digest, 'it')
    with pytest.raises(ValueError, match=f"layer '{given_.layer}' proves nothing here"):
        meant(digest)


def test_a_plain_text_is_no_digest_until_it_was_read():
    text = str.__str__(EmbeddingDigest.of({}))
    with pytest.raises(InvalidRequestError, match=r'expected a EmbeddingDigest, got .*, a str'):
        EmbeddingDigest.require(f'{text}', 'it')
    assert EmbeddingDigest.require(EmbeddingDigest(text), 'it') == text


@pytest.mark.parametrize(
    'text', ['', 'sha256:', 'sha256:' + 'A' * 64, 'sha256:' + 'a' * 63, 'a' * 64, 7, None]
)
def test_what_is_no_digest_is_refused(text):
    with pytest.raises(ValueError, match='64 hex digits'):
        Sha256(text)


@pytest.mark.parametrize('wrong', [semantic, embedding, generation, artifact, None])
def test_a_segment_takes_the_digest_of_its_layer_only(wrong):
    digest = wrong().digest if wrong else SHA('x')
    with pytest.raises(ValidationError, match='segment'):
        TokenKvIdentity(**{**token_kv().fields, 'segment': digest})


@pytest.mark.parametrize('wrong', [semantic, embedding, None])
def test_a_source_takes_the_digest_of_its_layer_only(wrong):
    digest = wrong().digest if wrong else SHA('x')
    with pytest.raises(ValidationError, match='source'):
        CompressionArtifactIdentity(**{**artifact().fields, 'source': digest})


@pytest.mark.parametrize('identity', every_identity(), ids=lambda one: type(one).__name__)
def test_every_field_decides_and_none_may_be_missing_or_unknown(identity):
    fields = identity.fields
    assert type(identity)(**fields).digest == identity.digest
    with pytest.raises(ValidationError, match='similarity'):
        type(identity)(**fields, similarity=0.99)
    for name in fields:
        with pytest.raises(ValidationError, match=name):
            type(identity)(**{other: value for other, value in fields.items() if other != name})


@pytest.mark.parametrize('identity', every_identity(), ids=lambda one: type(one).__name__)
def test_an_identity_cannot_be_changed(identity):
    name = next(iter(identity.fields))
    with pytest.raises(ValidationError, match='frozen'):
        setattr(identity, name, 'other')


def _changed(value):
    if value is None:
        return 12
    if value == 'memory_prelude':
        return 'system'
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value[:-1] + ('0' if value[-1] != '0' else '1')
    if isinstance(value, list):
        return [*value[:-1], _changed(value[-1])]
    name = next(iter(value))
    return {**value, name: _changed(value[name])}


@pytest.mark.parametrize('identity', every_identity(), ids=lambda one: type(one).__name__)
def test_a_change_of_any_field_is_another_identity(identity):
    # Tokens and their range belong together, so neither can change alone.
    fields = {name: value for name, value in identity.fields.items() if name != 'token_ids'}
    for name, value in fields.items():
        changed = type(identity)(**{**identity.fields, name: _changed(value)})
        assert changed.digest != identity.digest, name


def test_a_statement_believed_again_is_another_semantic_identity():
    item = MemoryItem(kind='semantic', key='door', content='open', valid_from=5)
    first = SemanticIdentity.of(item, ['map_id'], valid_to_ns=None, from_seq=1)
    later = SemanticIdentity.of(item, ['map_id'], valid_to_ns=None, from_seq=2)
    assert first.content_digest == later.content_digest
    assert first.digest != later.digest


@pytest.mark.parametrize(
    'change',
    [
        pytest.param(lambda pairs: pairs[::-1], id='reversed'),
        pytest.param(lambda pairs: pairs[:-1], id='one less'),
        pytest.param(lambda pairs: [*pairs, pairs[0]], id='one twice'),
        pytest.param(lambda pairs: [(name, pairs[0][1]) for name, _ in pairs], id='one digest'),
    ],
)
def test_an_ordering_tells_every_exchange(change):
    pairs = [(f'item/{i}', EmbeddingDigest.of({'i': i})) for i in range(5)]
    ordering = Ordering.of(pairs)
    ordering.check(pairs)
    with pytest.raises(InvalidRequestError, match='ordering'):
        ordering.check(change(pairs))


@given(st.lists(st.text(max_size=8), min_size=2, max_size=2, unique=True))
def test_ids_that_run_together_are_told_apart(names):
    digest = EmbeddingDigest.of({})
    one, two = names
    assert Ordering.of([(one + two, digest)]) != Ordering.of([(one, digest), (two, digest)])
    assert Ordering.of([(one, digest)]) != Ordering.of([(two, digest)])


def test_an_ordering_takes_embeddings_only():
    with pytest.raises(InvalidRequestError, match=r'ordering\[0\].*SemanticDigest'):
        Ordering.of([('a', SemanticDigest.of({}))])
    with pytest.raises(InvalidRequestError, match='at least one vector'):
        Ordering.of([])
