"""The canonical form ``hylo-c14n-1``: one text for one value, on every machine."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

__all__ = ['CANONICAL_FORM', 'canonical_bytes']

CANONICAL_FORM = 'hylo-c14n-1'

_encode = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(',', ':'), allow_nan=False, check_circular=False
).encode


def canonical_bytes(value: Mapping[str, Any]) -> bytes:
    r"""Return the canonical bytes of a JSON object.

    UTF-8, keys sorted by code point, no spaces, strings in NFC, floats in Python's shortest
    form (1.0 is ``1.0``), -0.0 as ``0.0``, integers in plain decimal of any size. RFC 8785
    will not do: it refuses integers over 2**53 and turns 1.0 into 1.

    Raises
    ------
    ValueError
        For NaN and the infinities.

    Examples
    --------
    >>> canonical_bytes({'b': 1.0, 'a': [2**60, -0.0]})
    b'{"a":[1152921504606846976,0.0],"b":1.0}'
    """
    text = _encode(value)
    # ASCII is in NFC whatever it says, so only other text, and a minus zero, needs the walk.
    if not text.isascii() or '-0.0' in text:
        text = _encode(_normal(value))
    return text.encode('utf-8')


def _normal(value: Any) -> Any:
    if isinstance(value, str):
        return unicodedata.normalize('NFC', value)
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, Mapping):
        return {unicodedata.normalize('NFC', key): _normal(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_normal(part) for part in value]
    return value
