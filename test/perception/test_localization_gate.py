"""Nothing is admitted before localization is good enough, if that is asked for."""

from __future__ import annotations

import math
from typing import Any

import pytest
from perception.pieces import (
    NS,
    START_NS,
    a_message,
    a_pipeline,
    an_input,
    feed,
    is_complete,
    open_memory,
    some_settings,
)

from hylo_memory_ros.perception.ingestion.ingestion_pipeline import LocalizationGate


def covariance(sigma_m: float, sigma_rad: float = 0.1) -> list[float]:
    parts = [0.0] * 36
    parts[0] = parts[7] = sigma_m**2
    parts[35] = sigma_rad**2
    return parts


def gated(**fields: Any) -> Any:
    return some_settings(an_input(), localization_gate=True, **fields)


def seen(start: int, count: int) -> list[Any]:
    return [a_message(start + step, [(1.0, 0.0, 0.5)]) for step in range(count)]


def test_what_is_seen_before_is_dropped_and_counted() -> None:
    with open_memory(map_id='hall') as memory:
        pipeline = a_pipeline(memory, gated())
        assert pipeline.note_localization(START_NS + 10 * NS, covariance(0.1))
        feed(pipeline, seen(0, 20))
        pipeline.close()
        (source,) = pipeline.status().inputs
        assert source.lost == {'not_localized': 10}
        assert source.consumed == 10
        assert not is_complete(memory)


def test_it_may_be_lost_again() -> None:
    with open_memory(map_id='hall') as memory:
        pipeline = a_pipeline(memory, gated())
        assert pipeline.note_localization(START_NS, covariance(0.1))
        assert not pipeline.note_localization(START_NS + 5 * NS, covariance(2.0))
        assert pipeline.note_localization(START_NS + 8 * NS, covariance(0.2))
        feed(pipeline, seen(0, 12))
        pipeline.close()
        assert pipeline.status().inputs[0].consumed == 9


def test_without_the_gate_nothing_is_asked_for() -> None:
    with open_memory(map_id='hall') as memory:
        pipeline = a_pipeline(memory)
        assert not pipeline.note_localization(START_NS, covariance(5.0))
        feed(pipeline, seen(0, 5))
        pipeline.close()
        assert pipeline.status().inputs[0].consumed == 5


@pytest.mark.parametrize(
    ('given', 'good'),
    [
        (covariance(0.5, 0.35), True),
        (covariance(0.51), False),
        (covariance(0.1, 0.36), False),
        ([0.0] * 36, False),
        ([math.nan] * 36, False),
        ([-1.0, *[0.0] * 35], False),
        ([0.2, 0.19, 0, 0, 0, 0, 0.19, 0.2, *[0.0] * 28], False),
    ],
)
def test_sure_enough_is_the_widest_direction_and_the_heading(given: list[float], good: bool) -> None:
    assert LocalizationGate(some_settings()).report(START_NS, given) is good


def test_reports_may_come_out_of_order() -> None:
    known = LocalizationGate(some_settings())
    known.report(20, covariance(0.1))
    known.report(10, covariance(5.0))
    assert [known.holds(stamp) for stamp in (9, 10, 19, 20)] == [False, False, False, True]
