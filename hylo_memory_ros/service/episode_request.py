"""What a request may say of an episode: its name, scope and note in their stored form, or refused by name."""

from __future__ import annotations

from collections.abc import Mapping

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import normal_key
from hylo_memory_ros.service.sound import refuse_unsound, sound, sound_name, sound_note

__all__ = ['refuse_long', 'sound_id', 'sound_scope']

# Its key must have room beside a name as long as this.
_MOST_ID_BYTES = 256
_MOST_NOTE_BYTES = 16_384
_MOST_SCOPE = 64


def sound_id(id: str) -> str:
    """Return a name in its stored form."""
    name = sound(normal_key, id, 'id')
    if (size := len(name.encode())) > _MOST_ID_BYTES:
        raise InvalidRequestError(
            f'id: {name[:32]!r}… has {size} bytes, at most {_MOST_ID_BYTES}', field='id'
        )
    return name


def sound_scope(scope: Mapping[str, str]) -> dict[str, str]:
    """Return a scope in its stored form."""
    if len(scope) > _MOST_SCOPE:
        raise InvalidRequestError(
            f'scope: {len(scope)} pairs, at most {_MOST_SCOPE}', field='scope', limit=_MOST_SCOPE
        )
    where = {
        sound(normal_key, name, 'scope'): sound(normal_key, value, f'scope[{name!r}]')
        for name, value in scope.items()
    }
    if len(where) < len(scope):
        raise InvalidRequestError(f'scope: a name is given twice in {sorted(scope)}', field='scope')
    if 'episode_id' in where:
        where['episode_id'] = sound_id(where['episode_id'])
    return where


def refuse_long(note: str, actor: str) -> None:
    """Refuse a note or an actor that is no text, or too long."""
    sound_note(note, _MOST_NOTE_BYTES)
    refuse_unsound(sound_name, actor=actor)
