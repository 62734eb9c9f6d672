"""Texts of others inside a prompt: whatever they hold, they cannot look like its structure."""

from __future__ import annotations

import json
import re

__all__ = ['ESCAPING', 'quoted']

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
