"""Every error has one code; only the 4xx may be retried."""

import inspect

import pytest
from pydantic import ValidationError

from hylo_memory_ros import errors
from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.msg import ErrorCode
from hylo_memory_ros.ros.convert.errors import CODES, describe, format_problems

pytestmark = pytest.mark.ros
CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
RETRYABLE = {
    errors.NotNowError, errors.NotActiveError, errors.LoadingError, errors.NotLocalizedError,
    errors.StoreBusyError, errors.TransformTooNewError,
}  # fmt: skip


@pytest.mark.parametrize('kind', CLASSES)
def test_an_error_has_a_code_of_its_class(kind: type[Exception]) -> None:
    code, message = describe(kind('what was wrong'))

    if kind is errors.HyloMemoryError:
        assert code == ErrorCode.INTERNAL
    else:
        assert (400 <= code < 500) == (kind in RETRYABLE)
        assert message == 'what was wrong'


def test_a_subclass_stands_above_its_base() -> None:
    seen: list[type[Exception]] = []
    for kind, _ in CODES:
        assert not any(issubclass(kind, base) for base in seen), kind
        seen.append(kind)


def test_details_say_more_than_the_class() -> None:
    assert describe(errors.NotFoundError('x', map_id='m'))[0] == ErrorCode.MAP_UNKNOWN
    assert describe(errors.InvalidRequestError('x', limit=3))[0] == ErrorCode.TOO_LARGE
    assert describe(errors.InvalidRequestError('x', field='key'))[0] == ErrorCode.INVALID_FIELD
    assert describe(errors.InvalidRequestError('x'))[0] == ErrorCode.INVALID_REQUEST


def test_a_model_tells_all_its_problems() -> None:
    with pytest.raises(ValidationError) as refusal:
        MemoryItem(kind='x', confidence=2.0, event_time={'start_ns': 5, 'end_ns': 1})

    code, message = describe(refusal.value)

    assert code == ErrorCode.INVALID_FIELD
    assert "kind: 'x'" in message
    assert 'confidence: 2.0' in message
    assert 'event_start, event_end: end 1 ns lies before start 5 ns' in message


def test_a_filter_is_told_by_the_names_of_its_message() -> None:
    with pytest.raises(ValidationError) as refusal:
        MemoryQuery(near=({'frame_id': '//map', 'position': (0, 0, 0)}, -1.0), k=1 << 32)

    message = format_problems(refusal.value, 'filter')

    for part in (
        'filter.near.frame_id: expected a frame id',
        "got '//map'",
        'filter.radius_m: -1.0',
        '; k: 4294967296',
    ):
        assert part in message


def test_a_message_is_utf8_and_short_enough() -> None:
    _, message = describe(errors.InvalidRequestError('a\ud800\0' + 'x' * 10_000))

    assert message.startswith('a\\ud800\\x00')
    assert len(message.encode()) < 5000


def test_a_fault_is_no_refusal() -> None:
    code, message = describe(ZeroDivisionError('oops'))

    assert code == ErrorCode.INTERNAL
    assert 'ZeroDivisionError' in message
