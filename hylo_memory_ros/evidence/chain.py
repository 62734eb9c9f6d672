"""The chain of identities of one answer, from records to compressed bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hylo_memory_ros.domain.identity import LayerDigest


class RerankDigest(LayerDigest, layer='rerank'):
    """Of an exact order of candidates: a link of the chain, no identity of anything stored."""


@dataclass(frozen=True, slots=True)
class Link:
    """One identity of a chain."""

    step: str
    """``record``, ``embedding``, ``generation``, ``candidates``, ``rerank``, ``segment``, ``token_kv`` …"""
    digest: str
    """The identity; empty: this answer has none."""
    about: str
    """Its subject in words."""


@dataclass(frozen=True, slots=True)
class Chain:
    """All identities behind one answer, up to caches and compressed bytes made of it."""

    receipt_id: str
    """The receipt that it is of."""
    links: tuple[Link, ...]
    """In order of the chain; within a step in order of the answer."""
    complete: bool
    """False when a purge took hits out of the receipt."""

    def step(self, name: str) -> tuple[Link, ...]:
        """Return the links of one step."""
        return tuple(link for link in self.links if link.step == name)


def chain_of(body: Mapping[str, Any], registered: Mapping[str, Mapping[str, Any]]) -> Chain:
    """Return the chain of the receipt of a retrieval.

    Parameters
    ----------
    body : mapping
        The receipt.
    registered : mapping
        What callers made of the answer, by digest.
    """
    links = [
        *_records(body['hits']),
        *_searches(body['sources']),
        _rerank(body),
        *_segments(body.get('render')),
        *_made(registered),
    ]
    return Chain(body['id'], tuple(links), not body['purged'])


def _records(hits: Sequence[Mapping[str, Any]]) -> Iterator[Link]:
    for hit in hits:
        yield Link('record', hit['record'] or '', hit['id'])
    for hit in hits:
        for space, digest in hit['embeddings'].items():
            yield Link('embedding', digest, f'{hit["id"]}, {space}')


def _searches(sources: Sequence[Mapping[str, Any]]) -> Iterator[Link]:
    for source in sources:
        if source['generation_id']:
            yield Link('generation', source['generation_id'], source['backend'])
    for source in sources:
        text = f'{source["backend"]}: {source["returned"]} found, {source["after_filter"]} after filters'
        yield Link('candidates', source['digest'], text)


def _rerank(body: Mapping[str, Any]) -> Link:
    order = {
        'candidates': [source['digest'] for source in body['sources']],
        'exactness': body['exactness'],
        'hits': [[hit['id'], hit['score']] for hit in body['hits']],
    }
    reranked = body['candidates']['reranked']
    text = f'{body["exactness"]}, {reranked} compared in float32' if reranked else body['exactness']
    return Link('rerank', RerankDigest.of(order), text)


def _segments(render: Mapping[str, Any] | None) -> Iterator[Link]:
    if render is None:
        return
    for segment in render['segments']:
        yield Link('segment', segment['digest'], ', '.join(segment['source_ids']) or segment['segment_type'])
    yield Link('segment', render['digest'], f'the whole text, {render["renderer"]}')


def _made(registered: Mapping[str, Mapping[str, Any]]) -> Iterator[Link]:
    for step, of in (('token_kv', 'segment'), ('artifact', 'source')):
        for digest in sorted(registered):
            if digest.startswith(f'{step}:'):
                yield Link(step, digest, f'of {registered[digest][of]}')
