"""Path of a Detection3DArray from its bytes to a stored landmark, for a trace of the calls on it.

`second_message` prepares a memory and a pipeline, has one message processed and committed, and
returns a callable that decodes, processes and commits the next one, which confirms the landmark.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

from hylo_memory_ros.perception import InputSettings, LandmarkPipeline, LandmarkSettings
from hylo_memory_ros.perception.ingestion.decoders import DECODERS
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.transforms import TransformBuffer

__all__ = ['detection_array', 'second_message']

NS = 1_000_000_000
START_NS = 1_000 * NS
TYPE = 'vision_msgs/msg/Detection3DArray'


def detection_array(stamp_ns: int, position: tuple[float, float, float], label: str = 'cup') -> bytes:
    """Return a Detection3DArray with one detection in the frame ``camera`` as little-endian CDR."""
    header = struct.pack('<iI', *divmod(stamp_ns, NS))
    data = b''
    for part, align in (
        (header + _text('camera'), 4),
        (struct.pack('<I', 1), 4),
        (header + _text('camera'), 4),
        (struct.pack('<I', 1), 4),
        (_text(label), 4),
        (struct.pack('<44d', 0.9, *position, 0.0, 0.0, 0.0, 1.0, *36 * (0.0,)), 8),
        (struct.pack('<10d', *position, 0.0, 0.0, 0.0, 1.0, 0.1, 0.1, 0.1), 8),
        (_text(''), 4),
    ):
        data += b'\0' * (-len(data) % align) + part
    return b'\0\1\0\0' + data


def _text(value: str) -> bytes:
    encoded = value.encode() + b'\0'
    return struct.pack('<I', len(encoded)) + encoded


def second_message() -> Callable[[], None]:
    """Return a callable that processes a message after which a landmark is written."""
    path = Path(tempfile.mkdtemp()) / 'memory.db'
    memory = MemoryService.open(f'sqlite:///{path}', clock=lambda: 2 * START_NS)
    transforms = TransformBuffer()
    transforms.set_transform('map', 'base_link', 0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), static=True)
    transforms.set_transform('base_link', 'camera', 0, (0.2, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0), static=True)
    source = InputSettings(name='camera', topic='camera', type=TYPE)
    settings = LandmarkSettings(inputs=(source,), confirm_n=2, reorder_window_s=0.0)
    pipeline = LandmarkPipeline(memory, transforms, settings)
    decode = DECODERS[TYPE]()

    def process(stamp_ns: int) -> int:
        for message in decode(detection_array(stamp_ns, (1.0, 2.0, 0.0)), 'camera').messages:
            pipeline.offer(message)
        pipeline.poll()
        return pipeline.commit(force=True)

    process(START_NS)

    def process_second() -> None:
        if process(START_NS + NS // 10) != 1:
            raise RuntimeError('the second message did not confirm a landmark')

    return process_second
