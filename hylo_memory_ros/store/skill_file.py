"""One file of a skill: its name, which holds the digest of its bytes, and the item that it says."""

from __future__ import annotations

import re
from hashlib import sha256

from pydantic import ValidationError

from hylo_memory_ros.identity import content_bytes
from hylo_memory_ros.model import MemoryItem, MemoryKind, parse_object
from hylo_memory_ros.skills import problems_of_skill_item

__all__ = ['SKILL_FILE', 'file_name', 'item_of_file', 'printable']

SKILL_FILE = re.compile(r'[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}-(?P<digest>[0-9a-f]{64})\.json')
"""What the name of one looks like."""


def file_name(key: str, digest: bytes) -> str:
    """Return the name of the file of a version.

    Examples
    --------
    >>> file_name('open door/2', bytes(32))[:20]
    'open_door_2-00000000'
    """
    slug = re.sub(r'[^A-Za-z0-9._-]+', '_', key)[:64]
    return f'{"_" + slug[1:] if slug.startswith(".") else slug}-{digest.hex()}.json'


def printable(name: str) -> str:
    """Return the name of a file, which may be any bytes, as a text that can be sent and shown."""
    return name.encode('utf-8', 'backslashreplace').decode('utf-8')


def item_of_file(name: str, data: bytes) -> MemoryItem:
    """Return the skill that a file holds.

    Raises
    ------
    ValueError
        With what is wrong with it.
    """
    match = SKILL_FILE.fullmatch(name)
    if match is None:
        raise ValueError('its name is not that of a skill file: key, 64 hex digits, .json')
    if (digest := sha256(data).hexdigest()) != match['digest']:
        raise ValueError(f'its SHA-256 is {digest[:12]}…, not the one in its name')
    try:
        fields = parse_object(data.decode('utf-8'), 'file')
    except UnicodeDecodeError as exc:
        raise ValueError(f'it is no UTF-8 at byte {exc.start}') from exc
    if fields.get('kind') != MemoryKind.SKILL.value:
        raise ValueError(f'$.kind: {fields.get("kind")!r:.50} is not {MemoryKind.SKILL.value!r}')
    try:
        item = MemoryItem(**fields)
    except (ValidationError, TypeError) as exc:
        raise ValueError(f'it is no item: {_told(exc)}') from exc
    if problems := problems_of_skill_item(item):
        raise ValueError('; '.join(problems))
    if content_bytes(item) != data:
        raise ValueError('it is not in canonical form, or says more than a skill does')
    if name != file_name(item.key or '', bytes.fromhex(digest)):
        raise ValueError(f'its name is not that of the key {item.key!r:.100}')
    return item


def _told(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    return f'{".".join(map(str, first["loc"]))}: {first["msg"]}'
