"""Rendering of hits into the memory prelude of a prompt, deterministic, with token counters.

Ranks decide what is in it, never where: segments stand in the order of their identities, so that a
changed item changes its own bytes only, and a planner's prefix cache survives up to there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hylo_memory_ros.domain.identity import RenderedSegmentIdentity, SegmentDigest, SegmentType, Sha256
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.evidence.prompts.renderers import Renderer
from hylo_memory_ros.model import Hit, QueryResult
from hylo_memory_ros.plugins import plugin_named

__all__ = [
    'DEFAULT_COUNTER',
    'PromptSegment',
    'Rendering',
    'TokenCounter',
    'counter_named',
    'half_of_ascii',
    'rendered',
    'utf8_bytes',
]

TokenCounter = Callable[[str], int]
"""Returns the tokens of a text; a longer text never has fewer."""

GROUP = 'hylo_memory_ros.token_counters'


def half_of_ascii(text: str) -> int:
    """Count a token for two ASCII bytes and one for any other byte of UTF-8, rounded up.

    On the careful side: byte-pair tokenizers take three to four bytes of English in one token, and
    two to three digits of an id. No tokenizer is asked, so it is no bound; `utf8_bytes` is one.

    Examples
    --------
    >>> half_of_ascii('red mug'), half_of_ascii('赤')
    (4, 3)
    """
    if text.isascii():
        return (len(text) + 1) // 2
    ascii_bytes = sum(map(str.isascii, text))
    return (ascii_bytes + 1) // 2 + len(text.encode('utf-8')) - ascii_bytes


def utf8_bytes(text: str) -> int:
    """Count the bytes: no byte-level tokenizer makes more tokens of a text than it has bytes."""
    return len(text.encode('utf-8'))


DEFAULT_COUNTER = 'half_of_ascii@1'

_COUNTERS: dict[str, TokenCounter] = {DEFAULT_COUNTER: half_of_ascii, 'utf8_bytes@1': utf8_bytes}


def counter_named(name: str) -> TokenCounter:
    """Return a counter by its name: one of ours, or an installed entry point.

    Raises
    ------
    InvalidRequestError
        There is none of this name.
    """
    counter: TokenCounter = plugin_named(GROUP, name, 'token_counter', _COUNTERS, InvalidRequestError)
    return counter


@dataclass(frozen=True, slots=True)
class PromptSegment:
    """One part of a prompt, with its exact bytes."""

    text: str
    """Its text, line end included."""
    source_ids: tuple[str, ...]
    """Ids of the items in it."""
    renderer: str
    """Renderer and version."""
    policy_digest: Sha256
    """Digest of what frames and separates segments."""
    segment_type: SegmentType
    """Its role in a prompt."""

    @property
    def bytes_digest(self) -> Sha256:
        """Digest of its text in UTF-8."""
        return Sha256.of(self.text.encode('utf-8'))

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of its identity, as plain JSON values."""
        return {
            'renderer': self.renderer,
            'segment_type': self.segment_type,
            'source_ids': list(self.source_ids),
            'bytes_digest': self.bytes_digest,
            'separator_digest': self.policy_digest,
        }

    @property
    def digest(self) -> SegmentDigest:
        """The digest of its identity."""
        return SegmentDigest.of(self.fields)

    @property
    def identity(self) -> RenderedSegmentIdentity:
        """Its identity."""
        return RenderedSegmentIdentity(**self.fields)


@dataclass(frozen=True, slots=True)
class Rendering:
    """A memory prelude, and what it was made of."""

    text: str
    """The text: its segments, one after another."""
    ids: tuple[str, ...]
    """Items in it, in the order of their segments."""
    segments: tuple[PromptSegment, ...]
    """Head, one for each item, foot."""
    tokens: int
    """Tokens by the counter that was used."""
    left_out: tuple[str, ...]
    """Ids of hits that did not fit into the budget, best first."""
    result: QueryResult
    """The answer that it shows."""
    receipt_id: str = ''
    """Receipt of the retrieval; empty: none was kept."""

    @property
    def digest(self) -> str:
        """``sha256:`` over the UTF-8 of the text."""
        return Sha256.of(self.text.encode('utf-8'))

    @property
    def whole(self) -> PromptSegment:
        """All of it as one segment, as it is tokenized."""
        head = self.segments[0]
        return PromptSegment(self.text, self.ids, head.renderer, head.policy_digest, 'memory_prelude')


def rendered(
    result: QueryResult, renderer: Renderer, count: TokenCounter, max_tokens: int | None = None
) -> Rendering:
    """Return the prelude of an answer.

    Parameters
    ----------
    result : QueryResult
        The hits, best first.
    renderer : Renderer
        Makes their lines.
    count : callable
        Counts tokens, segment by segment.
    max_tokens : int, optional
        Most tokens of the whole text. A hit that does not fit is left out whole, and the foot says so.

    Raises
    ------
    InvalidRequestError
        Not even an empty prelude fits.
    """
    hits = {hit.item.id or '': hit for hit in result}
    ranked = [_segment(renderer, renderer.line(hit), 'retrieved_doc', name) for name, hit in hits.items()]
    head = _segment(renderer, renderer.head, 'memory_prelude')
    frame = count(head.text) + _longest_foot(renderer, count, len(hits), result.total)
    if max_tokens is not None and frame > max_tokens:
        raise InvalidRequestError(
            f'max_tokens: {max_tokens} is below the {frame} tokens of an empty prelude', limit=max_tokens
        )
    kept, left_out = _fitting(ranked, count, None if max_tokens is None else max_tokens - frame)
    kept.sort(key=lambda segment: _place(hits[segment.source_ids[0]]))
    segments = (head, *kept, _foot(renderer, result, len(kept)))
    return Rendering(
        ''.join(segment.text for segment in segments),
        tuple(segment.source_ids[0] for segment in kept),
        segments,
        sum(count(segment.text) for segment in segments),
        tuple(segment.source_ids[0] for segment in left_out),
        result,
    )


def _segment(renderer: Renderer, line: str, segment_type: SegmentType, *ids: str) -> PromptSegment:
    return PromptSegment(line + renderer.separator, ids, renderer.name, renderer.policy_digest, segment_type)


def _longest_foot(renderer: Renderer, count: TokenCounter, shown: int, total: int) -> int:
    # The foot with the largest numbers is the longest, so what fits with it fits with any.
    feet = (renderer.foot(shown, total, at_least) for at_least in (False, True))
    return max(count(foot + renderer.separator) for foot in feet)


def _foot(renderer: Renderer, result: QueryResult, shown: int) -> PromptSegment:
    left_out = max(result.total - shown, 0)
    return _segment(renderer, renderer.foot(shown, left_out, result.total_is_lower_bound), 'memory_prelude')


def _fitting(
    ranked: Sequence[PromptSegment], count: TokenCounter, budget: int | None
) -> tuple[list[PromptSegment], list[PromptSegment]]:
    if budget is None:
        return list(ranked), []
    kept, left_out = [], []
    for segment in ranked:
        size = count(segment.text)
        if size <= budget:
            budget -= size
            kept.append(segment)
        else:
            left_out.append(segment)
    return kept, left_out


def _place(hit: Hit) -> tuple[str, str, str, int, str]:
    item = hit.item
    name = item.key if item.key is not None else item.id or ''
    return (item.scope.get('map_id', ''), item.kind.value, name, item.valid_from_ns or 0, item.id or '')
