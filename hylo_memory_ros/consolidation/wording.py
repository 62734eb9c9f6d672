"""The words of a text, as near duplicates and summaries see them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

__all__ = ['normal_words', 'numbers', 'sentences']

_WORD = re.compile(r'\w+')
# A number is whole, with its sign, point and colon; what is neither letter nor punctuation is a word too.
_SAID = re.compile(r'(?<!\w)[-+\u2212]?\d+(?:[.,:/-]\d+)*\w*|\w+|[^\w\s.,;:!"\'()\u2026]')
_BETWEEN_SENTENCES = re.compile(r'(?<=[.!?])\s+|\s*\n\s*')


def normal_words(text: str) -> list[str]:
    """Return the words of a text without case and punctuation, in Unicode's compatible form.

    Numbers and signs are words.

    Examples
    --------
    >>> normal_words('Saw the MUG, at 12:03!') == normal_words('saw the mug at 12:03')
    True
    >>> normal_words('O12 is at -3.5 °C')
    ['o12', 'is', 'at', '-3.5', '°', 'c']
    """
    if not text.isascii():
        text = unicodedata.normalize('NFKC', text)
    return _SAID.findall(text.casefold())


def numbers(words: Iterable[str]) -> tuple[str, ...]:
    """Return those of words that hold a digit.

    Examples
    --------
    >>> numbers(normal_words('took O12 to room 7'))
    ('o12', '7')
    """
    return tuple(word for word in words if any(map(str.isdigit, word)))


def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text, those without a word left out.

    Examples
    --------
    >>> sentences('Left the dock. Battery 3.5 V!')
    ['Left the dock.', 'Battery 3.5 V!']
    """
    parts = (part.strip() for part in _BETWEEN_SENTENCES.split(text))
    return [part for part in parts if _WORD.search(part)]
