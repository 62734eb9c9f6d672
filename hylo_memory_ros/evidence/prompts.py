"""Rendering of hits into the memory prelude of a prompt: renderers and token counters.

Ranks decide what is in it, never where: segments stand in the order of their identities, so that a
changed item changes its own bytes only, and a planner's prefix cache survives up to there.

A line holds the statement and its identity alone, nothing of the present time, of scores or of statistics, so
that unchanged memory gives unchanged bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from hylo_memory_ros.domain.consolidation import SUMMARIZES
from hylo_memory_ros.domain.identity import (
    RenderedSegmentIdentity,
    SegmentDigest,
    SegmentType,
    Sha256,
    canonical_bytes,
)
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import Hit, Pose, QueryResult
from hylo_memory_ros.plugins import plugin_named

ESCAPING = 'hylo-escape-1'
"""Name of these rules, part of the separator policy."""

_quote = json.encoder.encode_basestring
# Most texts need no escape at all: visible ASCII without quotes, backslashes and what is in `_MARKS`.
_is_plain = re.compile(r"[ !#-%'-;=?-\[\]-_a-z{-~]*").fullmatch
# What begins a tag, an entity or a fence; the quotes and line ends are JSON's to escape.
_MARKS = re.compile('[<>&`\x7f]')


def quoted(text: str) -> str:
    r"""Return a text as one JSON string that is a single line of visible characters.

    Whatever is not printable (line ends, terminal sequences, text that runs backwards, zero widths,
    spaces that are none), ``<``, ``>``, ``&`` and the backtick become ``\u`` escapes, so no fence, tag or
    line of the prompt can be forged; any JSON parser gives the text back as it was.

    Examples
    --------
    >>> print(quoted('mug\n</memory> ```'))
    "mug\n\u003c/memory\u003e \u0060\u0060\u0060"
    """
    if _is_plain(text):
        return f'"{text}"'
    line = _MARKS.sub(_escaped, _quote(text))
    if line.isascii():
        return line
    return ''.join(char if char.isprintable() else _escape(char) for char in line)


def _escaped(match: re.Match[str]) -> str:
    return _escape(match.group())


def _escape(char: str) -> str:
    units = char.encode('utf-16-be', 'surrogatepass')
    return ''.join(f'\\u{units[i]:02x}{units[i + 1]:02x}' for i in range(0, len(units), 2))


RENDERERS_GROUP = 'hylo_memory_ros.renderers'
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC throughout; a zone would be printed
_compact = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(',', ':')).encode


@dataclass(frozen=True)
class Renderer:
    """A deterministic way from hits to text.

    The text is ``head``, one line for each hit, and ``foot``, each closed by the separator.
    """

    name: str
    """``name@version``; other bytes for the same memory are another version."""
    head: str
    """First line."""
    line: Callable[[Hit], str]
    """Returns the line of a hit, without a line end."""
    foot: Callable[[int, int, bool], str]
    """Returns the last line, given how many are shown, how many are not, and whether that is the least."""
    separator: str = '\n'
    """Closes every line."""

    @cached_property
    def policy_digest(self) -> Sha256:
        """Digest of what frames and separates segments."""
        policy = {
            'renderer': self.name, 'head': self.head, 'separator': self.separator, 'placed': 'after each',
            'escaping': ESCAPING, 'order': ORDER,
        }  # fmt: skip
        return Sha256.of(canonical_bytes(policy))


ORDER = 'map_id, kind, key or id, valid_from, id'
"""Lines stand in an order that no score decides: a changed item stays where it is."""


def utc_text(stamp_ns: int) -> str:
    """Return a stamp as ISO 8601 in UTC, exact to the nanosecond, without needless zeros.

    Examples
    --------
    >>> utc_text(1_000_000_000_500_000_000), utc_text(0)
    ('2001-09-09T01:46:40.5Z', '1970-01-01T00:00:00Z')
    """
    seconds, rest = divmod(stamp_ns, 1_000_000_000)
    part = f'.{rest:09d}'.rstrip('0') if rest else ''
    return f'{(_EPOCH + timedelta(seconds=seconds)).isoformat()}{part}Z'


def _facts(hit: Hit) -> dict[str, Any]:
    """Return the facts of a hit in the order of a line, without those that are not set."""
    item = hit.item
    facts: dict[str, Any] = {'id': item.id or '', 'kind': item.kind.value}
    if item.key is not None:
        facts['key'] = item.key
    if item.label:
        facts['label'] = item.label
    if (map_id := item.scope.get('map_id')) is not None:
        facts['map'] = map_id
    if item.pose is not None:
        facts |= _whereabouts(item.pose)
    if item.valid_from_ns is not None:
        facts['since'] = utc_text(item.valid_from_ns)
    if hit.valid_to_ns is not None:
        facts['until'] = utc_text(hit.valid_to_ns)
    facts['certainty'] = item.confidence
    if hit.status == 'stale':
        facts['stale'] = True
    if item.entities:
        facts['entities'] = item.entities
    # How many a summary stands for is in its payload; the names of all would fill the prompt.
    if links := [link for link in item.links if link[0] != SUMMARIZES]:
        facts['links'] = [':'.join(link) for link in links]
    facts |= {name: value for name, value in (('payload', item.payload), ('says', item.content)) if value}
    return facts


def _whereabouts(pose: Pose) -> dict[str, Any]:
    facts: dict[str, Any] = {'frame': pose.frame_id, 'at': pose.position}
    if pose.orientation is not None:
        facts['facing'] = pose.orientation
    return facts


def _worded(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f'[{", ".join(map(_worded, value))}]'
    return 'true' if value is True else quoted(_compact(value))


def _prelude_line(hit: Hit) -> str:
    return '- ' + ' '.join([f'{name}={_worded(value)}' for name, value in _facts(hit).items()])


def _prelude_foot(shown: int, left_out: int, at_least: bool) -> str:
    more = f'{"at least " if at_least else ""}{left_out}'
    return f'</memory shown={shown} left_out="{more}">'


def _json_value(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        return '{' + ','.join(f'{quoted(name)}:{_json_value(value[name])}' for name in sorted(value)) + '}'
    if isinstance(value, (list, tuple)):
        return '[' + ','.join(map(_json_value, value)) + ']'
    return _compact(value)


def _json_line(hit: Hit) -> str:
    return '{' + ','.join(f'"{name}":{_json_value(value)}' for name, value in _facts(hit).items()) + '}'


def _json_foot(shown: int, left_out: int, at_least: bool) -> str:
    foot = {'memory': 'end', 'shown': shown, 'left_out': left_out, 'at_least': at_least}
    return json.dumps(foot, separators=(',', ':'))


DEFAULT_RENDERER = 'hylo-prelude@1'

_RENDERERS = {
    DEFAULT_RENDERER: Renderer(
        DEFAULT_RENDERER, f'<memory renderer="{DEFAULT_RENDERER}">', _prelude_line, _prelude_foot
    ),
    'hylo-jsonl@1': Renderer(
        'hylo-jsonl@1', '{"memory":"begin","renderer":"hylo-jsonl@1"}', _json_line, _json_foot
    ),
}


def renderer_named(name: str) -> Renderer:
    """Return a renderer by its name: one of ours, or an installed entry point; empty: the default.

    Raises
    ------
    InvalidRequestError
        There is none of this name, or the entry point offers something else.
    """
    name = name or DEFAULT_RENDERER
    renderer = plugin_named(RENDERERS_GROUP, name, 'renderer', _RENDERERS, InvalidRequestError)
    if not isinstance(renderer, Renderer) or renderer.name != name:
        raise InvalidRequestError(f'renderer: the entry point {name!r} offers no Renderer of this name')
    return renderer


TokenCounter = Callable[[str], int]
"""Returns the tokens of a text; a longer text never has fewer."""

COUNTERS_GROUP = 'hylo_memory_ros.token_counters'


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
    counter: TokenCounter = plugin_named(
        COUNTERS_GROUP, name, 'token_counter', _COUNTERS, InvalidRequestError
    )
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
