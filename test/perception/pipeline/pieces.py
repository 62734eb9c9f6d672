"""The cup that the tests of the pipeline see."""

from __future__ import annotations

from typing import Any

from perception.pieces import a_message

from hylo_memory_ros.perception import InputStatus, LandmarkPipeline, Message

CUP = (1.0, 2.0, 0.5)


def cups(first: float, last: float, step: float = 0.1, **fields: Any) -> list[Message]:
    """Return messages that see the cup, from one time to another."""
    count = round((last - first) / step) + 1
    return [a_message(first + step * index, [CUP], **fields) for index in range(count)]


def the_input(pipeline: LandmarkPipeline) -> InputStatus:
    (status,) = pipeline.status().inputs
    return status
