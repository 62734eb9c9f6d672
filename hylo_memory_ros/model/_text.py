"""Rules for short texts: keys, frames, names. One validator serves every door."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator

__all__ = ['FrameId', 'Key', 'Label', 'Name', 'Text', 'floats_of', 'normal_frame', 'normal_key', 'sound_text']

MAX_KEY_BYTES = 512


def sound_text(text: str, field: str) -> str:
    """Return a text as given, or say that it is none.

    Raises
    ------
    ValueError
        For a lone surrogate, which has no UTF-8.
    """
    try:
        text.encode('utf-8')
    except UnicodeEncodeError as exc:
        raise ValueError(f'{field}: {text!r} holds a lone surrogate, which is no text') from exc
    return text


def normal_key(text: str, field: str = 'key') -> str:
    r"""Return a key in its stored form (NFC), or say what is wrong with it.

    Keys are case-sensitive, 1 to 512 bytes of UTF-8, without control characters and not
    blank. ``%``, ``_`` and ``*`` are ordinary characters; nothing is trimmed.

    Raises
    ------
    ValueError
        With the field, the value and the rule.

    Examples
    --------
    >>> normal_key('cup_1')
    'cup_1'
    >>> normal_key(' ')
    Traceback (most recent call last):
    ...
    ValueError: key: ' ' is blank
    """
    text = unicodedata.normalize('NFC', sound_text(text, field))
    if not text.strip():
        raise ValueError(f'{field}: {text!r} is blank')
    size = len(text.encode('utf-8'))
    if size > MAX_KEY_BYTES:
        raise ValueError(f'{field}: {text[:32]!r}… has {size} bytes, at most {MAX_KEY_BYTES} are allowed')
    if not text.isprintable() and any(unicodedata.category(char) == 'Cc' for char in text):
        raise ValueError(f'{field}: {text!r} holds a control character')
    return text


def normal_frame(text: str, field: str = 'frame_id') -> str:
    """Return a frame id in its stored form: exactly one leading slash is stripped.

    Raises
    ------
    ValueError
        If the id is empty, holds white space, or has a second leading slash.

    Examples
    --------
    >>> normal_frame('/map'), normal_frame('robot1/base_link')
    ('map', 'robot1/base_link')
    """
    bare = unicodedata.normalize('NFC', sound_text(text, field))
    bare = bare.removeprefix('/')
    if not bare or bare.startswith('/') or any(char.isspace() for char in bare):
        raise ValueError(f"{field}: {text!r} is no frame id (one leading '/' is allowed, white space is not)")
    return normal_key(bare, field)


Text = Annotated[str, AfterValidator(lambda text: sound_text(text, 'text'))]
"""Any text; returned as given."""

Key = Annotated[str, AfterValidator(normal_key)]
"""A key: case-sensitive, NFC, 1 to 512 bytes, no control characters, not blank."""

Name = Annotated[str, AfterValidator(lambda text: normal_key(text, 'name'))]
"""A name inside a list or mapping (entity, object id, scope); same rule as a key."""

Label = Annotated[str, AfterValidator(lambda text: normal_key(text, 'label') if text else '')]
"""The class of a thing, or the empty text."""

FrameId = Annotated[str, AfterValidator(normal_frame)]
"""A coordinate frame (REP-105), without leading slash."""


def floats_of(value: object) -> list[float]:
    """Return the numbers of a list, an array or another iterable as floats.

    Raises
    ------
    ValueError
        It is no list of numbers, or one is too large for float64.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ValueError(f'{type(value).__name__} is no list of numbers')
    try:
        return [float(part) for part in value]
    except (TypeError, ValueError, OverflowError) as exc:
        raise ValueError(f'no list of numbers: {exc}') from exc
