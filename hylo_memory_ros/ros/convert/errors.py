"""Conversion of errors to ``error_code`` and message, the only place where that is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from hylo_memory_ros import errors
from hylo_memory_ros.msg import ErrorCode

# The first matching class decides, so a subclass stands above its base.
CODES: tuple[tuple[type[Exception], int], ...] = (
    (ValidationError, ErrorCode.INVALID_FIELD),
    (errors.UnsupportedError, ErrorCode.UNSUPPORTED),
    (errors.NotFoundError, ErrorCode.NOT_FOUND),
    (errors.SkillGateError, ErrorCode.NOT_ADMITTED),
    (errors.InvalidRequestError, ErrorCode.INVALID_REQUEST),
    (errors.UnknownFrameError, ErrorCode.FRAME_UNKNOWN),
    (errors.DisconnectedFrameError, ErrorCode.FRAME_DISCONNECTED),
    (errors.TransformTooOldError, ErrorCode.TRANSFORM_TOO_OLD),
    (errors.TransformTooNewError, ErrorCode.TRANSFORM_TOO_NEW),
    (errors.FrameError, ErrorCode.FRAME_UNKNOWN),
    (errors.ClockError, ErrorCode.CLOCK),
    (errors.EpochChangedError, ErrorCode.EPOCH_CHANGED),
    (errors.StoreFullError, ErrorCode.STORE_FULL),
    (errors.IdConflictError, ErrorCode.ID_CONFLICT),
    (errors.ReadOnlyError, ErrorCode.READ_ONLY),
    (errors.DamagedFileError, ErrorCode.DAMAGED),
    (errors.NewerSchemaError, ErrorCode.DAMAGED),
    (errors.FileInUseError, ErrorCode.IN_USE),
    (errors.StoreBusyError, ErrorCode.BUSY),
    # Without a narrower class: a file or folder that is missing, exists already or is not as expected.
    (errors.StoreError, ErrorCode.READ_ONLY),
    (errors.NotActiveError, ErrorCode.NOT_ACTIVE),
    (errors.LoadingError, ErrorCode.LOADING),
    (errors.NotLocalizedError, ErrorCode.NOT_LOCALIZED),
    (errors.NotNowError, ErrorCode.BUSY),
)

# A key in an error's `details` selects a narrower code.
NARROWER = {
    ('map_id', ErrorCode.NOT_FOUND): ErrorCode.MAP_UNKNOWN,
    ('limit', ErrorCode.INVALID_REQUEST): ErrorCode.TOO_LARGE,
    ('field', ErrorCode.INVALID_REQUEST): ErrorCode.INVALID_FIELD,
    ('space', ErrorCode.INVALID_REQUEST): ErrorCode.EMBEDDING_MISMATCH,
}

RETRYABLE = range(400, 500)

# Names in messages of fields that the model names differently, by the end of their path.
RENAMED = {
    ('pose', 'frame_id'): 'header.frame_id',
    ('pose', 'stamp_ns'): 'header.stamp',
    ('pose', 'covariance'): 'covariance',
    ('event_time', 'start_ns'): 'event_start',
    ('event_time', 'end_ns'): 'event_end',
    ('event_time',): 'event_start, event_end',
    ('time_range_ns',): 'time_start, time_end',
    ('filter', 'k'): 'k',
    ('near', 0): 'near',
    ('near', 1): 'radius_m',
    ('valid_from_ns',): 'valid_from',
    ('as_of_ns',): 'as_of',
    ('known_at_ns',): 'known_at',
    ('payload',): 'payload_json',
    ('embeddings',): 'embedding',
}
MAX_MESSAGE = 4000


def describe(error: BaseException) -> tuple[int, str]:
    """Return the code and the message of an error; ``INTERNAL`` for an unknown one.

    Parameters
    ----------
    error : BaseException
        Raised by a handler.
    """
    for kind, code in CODES:
        if isinstance(error, kind):
            text = format_problems(error) if isinstance(error, ValidationError) else str(error)
            return _narrowed(code, getattr(error, 'details', {})), _printable(text)
    return int(ErrorCode.INTERNAL), _printable(f'internal error, logged by the node: {error!r}')


def _narrowed(code: int, details: Mapping[str, Any]) -> int:
    fits = (narrow for (name, of), narrow in NARROWER.items() if of == code and name in details)
    return int(next(fits, code))


def format_problems(error: ValidationError, place: str = '') -> str:
    """Return all problems of a model in one line, with the names of fields in messages.

    Parameters
    ----------
    error : ValidationError
        Raised by the model.
    place : str
        Position in the request, such as ``items[2]``.
    """
    return '; '.join(_problem(problem, place) for problem in error.errors(include_url=False))


def _problem(problem: Any, place: str) -> str:
    name = _path((place, *problem['loc']) if place else tuple(problem['loc']))
    text = str(problem['msg']).removeprefix('Value error, ')
    if problem['type'] == 'value_error':
        # The path has named the field already.
        own = {'name', 'text', str(problem['loc'][-1]) if problem['loc'] else ''}
        first, _, rest = text.partition(': ')
        text = rest if rest and first in own else text
        return f'{name}: {text}' if name else text
    return f'{name}: {problem["input"]!r:.100}: {text}'


def _path(parts: Sequence[Any]) -> str:
    parts, names = list(parts), []
    while parts:
        size = next((size for size in (2, 1) if tuple(parts[:size]) in RENAMED), 0)
        names.append(RENAMED[tuple(parts[:size])] if size else parts[0])
        del parts[: size or 1]
    name = ''
    for part in names:
        name += f'[{part}]' if isinstance(part, int) else ('.' if name else '') + part
    return name


def _printable(text: str) -> str:
    # A reply is UTF-8, and the values quoted in it may not be.
    text = text.encode('utf-8', 'backslashreplace').decode('utf-8').replace('\0', '\\x00')
    return text if len(text) <= MAX_MESSAGE else f'{text[:MAX_MESSAGE]} …'
