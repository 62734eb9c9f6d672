"""Renderers of one hit as a line of a prompt, each with a name and a version.

A line holds the statement and its identity alone, nothing of the present time, of scores or of statistics, so
that unchanged memory gives unchanged bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from hylo_memory_ros.domain.consolidation import SUMMARIZES
from hylo_memory_ros.domain.identity import Sha256, canonical_bytes
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import Hit, Pose
from hylo_memory_ros.plugins import plugin_named

__all__ = ['DEFAULT_RENDERER', 'ESCAPING', 'Renderer', 'quoted', 'renderer_named', 'utc_text']

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


GROUP = 'hylo_memory_ros.renderers'
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
    renderer = plugin_named(GROUP, name, 'renderer', _RENDERERS, InvalidRequestError)
    if not isinstance(renderer, Renderer) or renderer.name != name:
        raise InvalidRequestError(f'renderer: the entry point {name!r} offers no Renderer of this name')
    return renderer
