"""One identity of each layer."""

from __future__ import annotations

from hylo_memory_ros.domain.identity import (
    AttentionLayout,
    CacheLayout,
    Codec,
    CompressionArtifactIdentity,
    DerivedGenerationIdentity,
    EmbeddingIdentity,
    ModelRevision,
    Ordering,
    PositionLayout,
    RenderedSegmentIdentity,
    SemanticIdentity,
    Sha256,
    SourceSnapshot,
    Tokenizer,
    TokenKvIdentity,
)


def SHA(text):  # noqa: N802
    return Sha256.of(text.encode())


def semantic():
    return SemanticIdentity(
        namespace={'map_id': 'home'}, record_id='spatial/1', content_digest=SHA('content'), valid_from_ns=5,
        valid_to_ns=None, from_seq=1, to_seq=None, metadata_digest=SHA('meta'), source='camera@1',
    )  # fmt: skip


def embedding(record_id='spatial/1', vector=b'vector'):
    return EmbeddingIdentity(
        record_id=record_id, space='clip@1', model='clip-vit', dimension=4, provider_digest=SHA('provider'),
        vector_digest=Sha256.of(vector),
    )  # fmt: skip


def generation(count=3, dimension=4):
    pairs = [(f'spatial/{i}', embedding(f'spatial/{i}', bytes([i])).digest) for i in range(count)]
    return DerivedGenerationIdentity(
        ordering=Ordering.of(pairs), space='clip@1', dimension=dimension, family='provekv_pool',
        codec='pool_k4', codec_version='1', seed=7, source=SourceSnapshot(epoch='e', sequence=9),
    )  # fmt: skip


def segment():
    return RenderedSegmentIdentity(
        renderer='hylo-prelude@1', segment_type='memory_prelude', source_ids=('spatial/1',),
        bytes_digest=SHA('text'), separator_digest=SHA('separator'),
    )  # fmt: skip


def token_kv():
    return TokenKvIdentity(
        segment=segment().digest,
        tokenizer=Tokenizer(name='bpe', version='2', digest=SHA('tokenizer')),
        model=ModelRevision(id='planner-7b', revision='r1', config_digest=SHA('config')),
        position=PositionLayout(policy_digest=SHA('rope'), token_start=0, token_end=3),
        attention=AttentionLayout(layers=32, kv_heads=8, head_dim=128, layout='gqa'),
        token_ids=(1, 2, 3),
        cache=CacheLayout(dtype='bf16', layout='paged/16'),
    )


def codec(**changes):
    told = {
        'family': 'fib_quant',
        'version': '1',
        'profile': 'fib_k4_n32',
        'key_codec': 'k',
        'value_codec': 'v',
    }
    return Codec(**{**told, **changes})


def artifact(of=None, **changes):
    return CompressionArtifactIdentity(
        source=(of or token_kv()).digest, codec=codec(**changes), bytes_digest=SHA('bytes'),
        manifest_digest=SHA('manifest'), receipt_digest=SHA('receipt'),
    )  # fmt: skip


def every_identity():
    return [semantic(), embedding(), generation(), segment(), token_kv(), artifact()]
