"""The words, numbers, texts and marks of a predicate, each with its place."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import NamedTuple

__all__ = ['Token', 'number_of', 'string_of', 'tokens_of']

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>(?:\d+\.\d+|\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<mark>\|\||&&|==|!=|<=|>=|[!<>+\-*/().,\[\]])
    |(?P<end>$)
    )""",
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|.)', re.DOTALL)
_ESCAPED = {'n': '\n', 't': '\t', 'r': '\r', '"': '"', "'": "'", '\\': '\\'}
_INT64 = 2**63


class Token(NamedTuple):
    """One of them."""

    kind: str
    """``number``, ``name``, ``string``, ``mark`` or ``end``."""
    text: str
    """As it is written."""
    at: int
    """Its place, counted from 1."""


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text; the last is its end.

    Raises
    ------
    ValueError
        With the place of what is none.
    """
    tokens: list[Token] = []
    at = 0
    while not tokens or tokens[-1].kind != 'end':
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            at = len(text) - len(text[at:].lstrip())
            raise ValueError(f'at {at + 1}: {text[at : at + 20]!r} is nothing that a predicate can hold')
        tokens.append(Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1))
        at = match.end()
    return tokens


def number_of(token: Token) -> int | float:
    """Return the value of a number.

    Raises
    ------
    ValueError
        It has more than 64 bits, or is beyond every float.
    """
    if token.text.isdigit():
        # 64 bits have 19 digits; a longer one is not even read.
        if len(token.text) <= 19 and (whole := int(token.text)) < _INT64:
            return whole
        raise ValueError(f'at {token.at}: a whole number of more than 64 bits')
    value = float(token.text)
    if math.isinf(value):
        raise ValueError(f'at {token.at}: {token.text} is beyond every number')
    return value


def string_of(token: Token) -> str:
    """Return the text between its quotes, in NFC.

    Raises
    ------
    ValueError
        An escape means nothing, or it is no text.
    """

    def escaped(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) == 5:
            return chr(int(code[1:], 16))
        if code not in _ESCAPED:
            raise ValueError(f'at {token.at}: \\{code} in a text means nothing')
        return _ESCAPED[code]

    text = _ESCAPE.sub(escaped, token.text[1:-1])
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f'at {token.at}: a lone surrogate is no text') from None
    return unicodedata.normalize('NFC', text)
