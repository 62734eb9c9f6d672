"""The words of a text, as near duplicates and summaries see them."""

from __future__ import annotations

import re
import unicodedata

__all__ = ['normal_words', 'sentences']

_WORD = re.compile(r'\w+')
_BETWEEN_SENTENCES = re.compile(r'(?<=[.!?])\s+|\s*\n\s*')


def normal_words(text: str) -> list[str]:
    """Return the words of a text without case, in Unicode's compatible form; a number is ``#``.

    Examples
    --------
    >>> normal_words('Saw the MUG at 12:03') == normal_words('saw the mug, at 9:41')
    True
    >>> normal_words('picked O12')
    ['picked', 'o12']
    """
    if not text.isascii():
        text = unicodedata.normalize('NFKC', text)
    return ['#' if word.isdigit() else word for word in _WORD.findall(text.casefold())]


def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text, those without a word left out.

    Examples
    --------
    >>> sentences('Left the dock. Battery 3.5 V!')
    ['Left the dock.', 'Battery 3.5 V!']
    """
    parts = (part.strip() for part in _BETWEEN_SENTENCES.split(text))
    return [part for part in parts if _WORD.search(part)]
