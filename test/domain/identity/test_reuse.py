"""Exact identity permits reuse of a prompt cache; nothing else does."""

from __future__ import annotations

import json

import pytest
from domain.identity.examples import SHA, artifact, codec, embedding, generation, segment, semantic, token_kv

from hylo_memory_ros.domain.identity import (
    AttentionLayout,
    CachedPrefix,
    CacheLayout,
    ModelRevision,
    PositionLayout,
    RenderedSegmentIdentity,
    Tokenizer,
    TokenKvIdentity,
    may_reuse,
    prefix_from_json,
)
from hylo_memory_ros.errors import InvalidRequestError


def kept(segment_changes=None, **changes):
    part = RenderedSegmentIdentity(**{**segment().fields, **(segment_changes or {})})
    compression = changes.pop('codec', codec())
    fields = {**token_kv().fields, 'segment': part.digest, **changes}
    return CachedPrefix(token_kv=TokenKvIdentity(**fields), segment=part, codec=compression)


def test_the_same_in_everything_may_be_reused():
    answer = may_reuse(kept(), kept())
    assert answer
    assert (answer.allowed, answer.reasons) == (True, ())
    assert may_reuse(token_kv(), token_kv())


OTHER = {
    'segment.bytes_digest': {'segment_changes': {'bytes_digest': SHA('other bytes, same meaning')}},
    'segment.renderer': {'segment_changes': {'renderer': 'hylo-prelude@2'}},
    'segment.separator_digest': {'segment_changes': {'separator_digest': SHA('other')}},
    'segment.source_ids': {'segment_changes': {'source_ids': ['spatial/2']}},
    'tokenizer.name': {'tokenizer': Tokenizer(name='wordpiece', version='2', digest=SHA('tokenizer'))},
    'tokenizer.version': {'tokenizer': Tokenizer(name='bpe', version='3', digest=SHA('tokenizer'))},
    'tokenizer.digest': {'tokenizer': Tokenizer(name='bpe', version='2', digest=SHA('other'))},
    'model.revision': {'model': ModelRevision(id='planner-7b', revision='r2', config_digest=SHA('config'))},
    'model.config_digest': {'model': ModelRevision(id='planner-7b', revision='r1', config_digest=SHA('o'))},
    'position.policy_digest': {
        'position': PositionLayout(policy_digest=SHA('yarn'), token_start=0, token_end=3)
    },
    'position.token_start': {
        'position': PositionLayout(policy_digest=SHA('rope'), token_start=1, token_end=4)
    },
    'attention.kv_heads': {'attention': AttentionLayout(layers=32, kv_heads=4, head_dim=128, layout='gqa')},
    'token_ids': {'token_ids': (1, 2, 4)},
    'cache.dtype': {'cache': CacheLayout(dtype='fp8', layout='paged/16')},
    'codec.profile': {'codec': codec(profile='turbo_4bit_batched')},
    'codec.value_codec': {'codec': codec(value_codec='w')},
    'codec': {'codec': None},
}


@pytest.mark.parametrize('path', OTHER)
def test_any_difference_refuses_and_is_named(path):
    answer = may_reuse(kept(), kept(**OTHER[path]))
    assert not answer
    assert any(reason.startswith(f'{path}: ') for reason in answer.reasons), answer.reasons
    told = {reason.partition(':')[0] for reason in answer.reasons}
    # Other bytes are another segment; nothing that is the same is told as different.
    assert told - {path} <= ({'renderer'} if path.startswith('segment') else {'position.token_end'})


def test_all_differences_are_told_at_once():
    changes = (
        OTHER['tokenizer.version'] | OTHER['model.revision'] | OTHER['codec.profile'] | OTHER['token_ids']
    )
    reasons = may_reuse(kept(), kept(**changes)).reasons
    assert [reason.partition(':')[0] for reason in reasons] == [
        'tokenizer.version', 'model.revision', 'token_ids', 'codec.profile',
    ]  # fmt: skip
    assert reasons[0] == "tokenizer.version: kept '2', wanted '3'"
    assert reasons[2] == 'token_ids: the first difference is at 2: kept 3, wanted 4'


def test_the_digest_of_the_bytes_decides_when_one_side_does_not_show_them():
    other = kept(**OTHER['segment.bytes_digest']).token_kv
    assert may_reuse(kept(codec=None), kept().token_kv)
    assert [reason[:9] for reason in may_reuse(kept(codec=None), other).reasons] == ['renderer:']


def test_a_compressed_cache_is_known_by_its_artifact():
    compressed = CachedPrefix(token_kv=token_kv(), artifact=artifact())
    assert may_reuse(compressed, CachedPrefix(token_kv=token_kv(), codec=codec()))
    assert may_reuse(compressed, token_kv()).reasons == ('codec: kept fib_k4_n32, wanted none',)


@pytest.mark.parametrize('evidence', [semantic(), embedding(), generation(), segment(), artifact()])
def test_another_identity_is_no_evidence(evidence):
    with pytest.raises(InvalidRequestError, match=f'have: a {type(evidence).__name__} is no evidence'):
        may_reuse(evidence, token_kv())
    with pytest.raises(InvalidRequestError, match='want: '):
        may_reuse(token_kv(), evidence)


@pytest.mark.parametrize('evidence', [0.9999, 1, 'the same meaning', None, token_kv().digest, {}])
def test_similarity_and_bare_digests_are_no_evidence(evidence):
    with pytest.raises(InvalidRequestError, match='only exact identity permits reuse'):
        may_reuse(evidence, token_kv())


def test_a_cache_of_other_bytes_than_it_shows_is_refused():
    other = RenderedSegmentIdentity(**{**segment().fields, 'renderer': 'x@1'})
    with pytest.raises(ValueError, match='is not the one that was tokenized'):
        CachedPrefix(token_kv=token_kv(), segment=other)
    with pytest.raises(ValueError, match='not of these tokens'):
        CachedPrefix(token_kv=kept(token_ids=(1, 2, 4)).token_kv, artifact=artifact())
    with pytest.raises(ValueError, match='not that of the artifact'):
        CachedPrefix(token_kv=token_kv(), artifact=artifact(), codec=codec(profile='other'))


def test_json_gives_back_the_same_cache():
    text = kept().model_dump_json()
    assert prefix_from_json(text, 'have_json') == kept()
    compressed = CachedPrefix(token_kv=token_kv(), artifact=artifact())
    assert prefix_from_json(compressed.model_dump_json(), 'have_json') == compressed


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (lambda told: told.pop('token_kv'), r'have_json\.token_kv: it is missing'),
        (lambda told: told['token_kv'].pop('tokenizer'), r'have_json\.token_kv\.tokenizer: it is missing'),
        (
            lambda told: told['token_kv']['position'].pop('policy_digest'),
            r'policy_digest: it is missing',
        ),
        (lambda told: told.update(similarity=0.99), r'have_json\.similarity: no such field'),
        (lambda told: told['token_kv'].update(meaning='same'), r'token_kv\.meaning: no such field'),
        (lambda told: told['token_kv'].update(segment=semantic().digest), "layer 'semantic' proves nothing"),
        (lambda told: told['token_kv'].update(token_ids=[]), r'token_kv\.token_ids'),
        (lambda told: told['token_kv'].update(token_ids=[1.5, 2, 3]), r'token_kv\.token_ids\.0'),
        (lambda told: told['token_kv']['model'].update(id=''), r'token_kv\.model\.id'),
        (lambda told: told['token_kv']['attention'].update(layers=True), r'attention\.layers'),
        (lambda told: told['token_kv']['position'].update(token_end=9), 'do not fill the range'),
        (lambda told: told['token_kv']['position'].update(token_end=0), 'holds no token'),
    ],
)
def test_a_wrong_field_is_refused_by_name(change, message):
    told = json.loads(CachedPrefix(token_kv=token_kv()).model_dump_json())
    change(told)
    with pytest.raises(InvalidRequestError, match=message):
        prefix_from_json(json.dumps(told), 'have_json')


@pytest.mark.parametrize(
    'text',
    [
        '',
        '{',
        '[]',
        'null',
        '7',
        '{"token_kv": 1, "token_kv": 2}',
        '{"a": NaN}',
        '[' * 5000,
        '{"a": "\ud800"}',
    ],
)
def test_what_is_no_json_object_is_refused(text):
    with pytest.raises(InvalidRequestError, match='want_json'):
        prefix_from_json(text, 'want_json')
