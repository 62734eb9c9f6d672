"""Messages and settings: what is taken, and what is refused when it is built."""

from __future__ import annotations

import numpy as np
import pytest
from perception.pieces import DETECTIONS, a_message, an_input, some_settings
from pydantic import ValidationError

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.perception import Detections, InputSettings, Message, digest32


@pytest.mark.parametrize(
    'columns',
    [
        {'positions': np.zeros((2, 3))},
        {'positions': np.zeros((1, 2))},
        {'positions': np.zeros((1, 3)), 'scores': np.zeros(2)},
        {'positions': np.zeros((1, 3)), 'covariances': np.zeros((1, 6, 6))},
        {'positions': np.zeros((1, 3)), 'extents': np.zeros((3,))},
        {'positions': np.zeros((1, 3)), 'instances': ['a', 'b']},
    ],
)
def test_columns_of_another_length_are_refused(columns: dict[str, object]) -> None:
    with pytest.raises(InvalidRequestError, match=next(reversed(columns))):
        Detections(['cup'], **columns)  # type: ignore[arg-type]


def test_an_empty_array_is_a_message() -> None:
    assert len(a_message(1.0, []).detections) == 0


def test_the_digest_is_that_of_the_bytes() -> None:
    assert digest32(b'ab') == digest32(bytearray(b'ab')) != digest32(b'ba')


@pytest.mark.parametrize(
    ('fields', 'rule'),
    [
        ({'gate_m': 0.0}, 'gate_m'),
        ({'sigma_m': -0.1}, 'sigma_m'),
        ({'min_score': 1.5}, 'min_score'),
        ({'min_range_m': 2.0, 'max_range_m': 1.0}, 'max_range_m'),
        ({'reliability': 'often'}, 'reliability'),
        ({'label': 'cup', 'labels': {'1': 'cup'}}, 'label and labels'),
        ({'type': 'geometry_msgs/msg/PoseStamped'}, 'carries no class'),
        ({'instance': ' '}, 'blank'),
        ({'depth': 0}, 'depth'),
    ],
)
def test_a_wrong_input_is_refused_by_name(fields: dict[str, object], rule: str) -> None:
    with pytest.raises(ValidationError, match=rule):
        InputSettings(**{'name': 'camera', 'topic': 'camera', 'type': DETECTIONS, **fields})


def test_two_inputs_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="'camera' is given twice"):
        some_settings(an_input(), an_input())


def test_labels() -> None:
    assert an_input().label_of('cup') == 'cup'
    assert an_input(label='mug').label_of('cup') == 'mug'
    mapped = an_input(labels={'41': 'cup', '0': ''})
    assert [mapped.label_of(name) for name in ('41', '0', '7')] == ['cup', '', '']


@pytest.mark.parametrize('digest', [-1, 2**32])
def test_a_digest_of_more_bits_is_refused(digest: int) -> None:
    with pytest.raises(InvalidRequestError, match='32 bits'):
        Message('camera', 1, 'map', digest, Detections([], np.empty((0, 3))))


def test_numbers_of_numpy_become_plain_ones() -> None:
    message = Message('camera', np.int64(5), 'map', np.uint32(7), Detections([], np.empty((0, 3))))  # type: ignore[arg-type]
    assert [type(part) for part in message.order] == [int, str, int]
