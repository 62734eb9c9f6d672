"""Validation of the texts and times of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MAX_STAMP_NS, normalize_key, validate_text

MAX_NAME_BYTES = 512
MAX_REASON_BYTES = 4096


def validate_fields(normal: Callable[[str, str], str], **texts: str | None) -> list[str | None]:
    """Return texts in their stored form, by a validator of the model."""
    return [text if text is None else validate_field(normal, text, field) for field, text in texts.items()]


def validate_names(**texts: str | None) -> None:
    """Refuse the name of a request or of an actor that has more than `MAX_NAME_BYTES` bytes in UTF-8."""
    for field, text in texts.items():
        if text:
            _refuse_long(field, text, MAX_NAME_BYTES)


def validate_reason(reason: str) -> None:
    """Refuse the reason of a change that has more than `MAX_REASON_BYTES` bytes in UTF-8."""
    _refuse_long('reason', reason, MAX_REASON_BYTES)


def _refuse_long(field: str, text: str, most: int) -> None:
    size = len(validate_field(validate_text, text, field).encode())
    if size > most:
        raise InvalidRequestError(
            f'{field}: {text[:32]!r}… has {size} bytes, at most {most} are allowed', field=field
        )


def validate_note(note: str, most: int) -> str:
    """Return a note, or raise if it is not a text or has more than ``most`` bytes in UTF-8."""
    size = len(validate_field(validate_text, note, 'note').encode())
    if size > most:
        raise InvalidRequestError(f'note: {size} bytes, at most {most}', field='note', limit=most)
    return note


def validate_stamp(at_ns: int) -> int:
    """Return a time, nanoseconds, within the range of stamps."""
    if not 0 <= at_ns <= MAX_STAMP_NS:
        raise InvalidRequestError(
            f'at_ns: expected a time from 0 to {MAX_STAMP_NS} ns, got {at_ns}', field='at_ns'
        )
    return int(at_ns)


def validate_field(normal: Callable[[str, str], str], text: str, field: str) -> str:
    """Return a text in its stored form."""
    if not isinstance(text, str):
        raise InvalidRequestError(f'{field}: expected a text, got {text!r}', field=field)
    try:
        return normal(text, field)
    except ValueError as exc:
        raise InvalidRequestError(str(exc), field=field) from exc


# The key of an episode item holds the name and more, within 512 bytes.
_MOST_ID_BYTES = 256
_MOST_NOTE_BYTES = 16_384
_MOST_SCOPE = 64


def validate_episode_id(id: str) -> str:
    """Return a name in its stored form."""
    name = validate_field(normalize_key, id, 'id')
    if (size := len(name.encode())) > _MOST_ID_BYTES:
        raise InvalidRequestError(
            f'id: {name[:32]!r}… has {size} bytes, at most {_MOST_ID_BYTES}', field='id'
        )
    return name


def validate_scope(scope: Mapping[str, str]) -> dict[str, str]:
    """Return a scope in its stored form."""
    if len(scope) > _MOST_SCOPE:
        raise InvalidRequestError(
            f'scope: {len(scope)} pairs, at most {_MOST_SCOPE}', field='scope', limit=_MOST_SCOPE
        )
    where = {
        validate_field(normalize_key, name, 'scope'): validate_field(normalize_key, value, f'scope[{name!r}]')
        for name, value in scope.items()
    }
    if len(where) < len(scope):
        raise InvalidRequestError(f'scope: a name is given twice in {sorted(scope)}', field='scope')
    if 'episode_id' in where:
        where['episode_id'] = validate_episode_id(where['episode_id'])
    return where


def validate_note_and_actor(note: str, actor: str) -> None:
    """Validate the types and lengths of a note and an actor."""
    validate_note(note, _MOST_NOTE_BYTES)
    validate_names(actor=actor)
