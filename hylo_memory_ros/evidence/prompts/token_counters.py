"""Token counters: callables that estimate the tokens of a text.

A counter is any callable from text to a number. One that belongs to a model's tokenizer comes from
the caller, or from the entry point group ``hylo_memory_ros.token_counters``.
"""

from __future__ import annotations

from collections.abc import Callable

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.plugins import plugin_named

__all__ = ['DEFAULT_COUNTER', 'TokenCounter', 'counter_named', 'half_of_ascii', 'utf8_bytes']

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
