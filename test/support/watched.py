"""Small bags of a thing that is seen, and then is not, with what tells that it could have been seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from support.bags import NS, START_NS, Sent, Types

_ALWAYS = {
    '/clock': 'rosgraph_msgs/msg/Clock',
    '/tf': 'tf2_msgs/msg/TFMessage',
    '/tf_static': 'tf2_msgs/msg/TFMessage',
    '/boxes': 'vision_msgs/msg/Detection3DArray',
}
_WITNESSES = {
    'depth': {'/depth': 'sensor_msgs/msg/Image', '/info': 'sensor_msgs/msg/CameraInfo'},
    'grid': {'/grid': 'nav_msgs/msg/OccupancyGrid'},
}
TOPICS = {witness: {**_ALWAYS, **topics} for witness, topics in _WITNESSES.items()}


def parameters(witness: str) -> dict[str, Any]:
    """Return the parameters of a node that hears one of these bags."""
    names = ['boxes', *(topic[1:] for topic in _WITNESSES[witness])]
    topics = TOPICS[witness]
    view = {'fov_horizontal_rad': 1.2, 'fov_vertical_rad': 1.0, 'max_range_m': 5.0, 'view_axis': 'x'}
    found: dict[str, Any] = {
        'map_id': 'hall',
        'use_sim_time': True,
        'inputs': names,
        **{f'input.{name}.topic': name for name in names},
        **{f'input.{name}.type': topics[f'/{name}'] for name in names},
        **{f'input.{name}.reliability': 'reliable' for name in names},
        **{f'input.boxes.{name}': value for name, value in view.items()},
        'input.boxes.visibility': witness,
    }
    return {**found, 'input.depth.camera_info': 'info'} if witness == 'depth' else found


def a_watch(types: Types, witness: str, seconds: float = 12.0) -> Iterator[Sent]:
    """Yield what a robot records that sees a cup for three seconds, then looks through its place."""

    def sent(topic: str, stamp_ns: int, message: Any) -> Sent:
        return Sent(topic, stamp_ns, types.cdr(message))

    forward = types.transform(START_NS, 'camera', 'optical', 0.0, 0.0)
    turn = forward.transform.rotation
    turn.x, turn.y, turn.z, turn.w = -0.5, 0.5, -0.5, 0.5
    mounted = types.transform(START_NS, 'base_link', 'camera', 0.2, 0.0)
    yield sent('/tf_static', START_NS, types.tf(mounted, forward))
    if witness == 'grid':
        yield sent('/grid', START_NS, _grid(types))
    for step in range(round(10 * seconds)):
        now = START_NS + step * NS // 10
        aside = 0.6 * (step // 10 % 2) if step >= 30 else 0.0
        yield sent('/clock', now, types.new('rosgraph_msgs/Clock', clock=types.time(now)))
        if witness == 'depth':
            yield sent('/info', now, _info(types, now))
            yield sent('/depth', now, _depth(types, now))
        cups = [types.box('cup', 2.8, 0.0)] if step < 30 else []
        yield sent('/boxes', now, types.boxes(now, 'camera', *cups))
        yield sent('/tf', now, types.tf(types.transform(now, 'map', 'base_link', 0.0, aside)))


def _grid(types: Types) -> Any:
    info = types.new(
        'nav_msgs/MapMetaData', resolution=0.25, width=40, height=40, origin=types.pose(-5.0, -5.0)
    )
    cells = np.zeros(1600, dtype=np.int8)
    header = types.header(START_NS, 'map')
    return types.new('nav_msgs/OccupancyGrid', header=header, info=info, data=cells)


def _depth(types: Types, now: int) -> Any:
    data = np.full((30, 40), 6.0, dtype='<f4').view(np.uint8).reshape(-1)
    return types.new(
        'sensor_msgs/Image', header=types.header(now, 'optical'), height=30, width=40, encoding='32FC1',
        step=160, data=data,
    )  # fmt: skip


def _info(types: Types, now: int) -> Any:
    k = np.array([25.0, 0.0, 20.0, 0.0, 25.0, 15.0, 0.0, 0.0, 1.0])
    return types.new('sensor_msgs/CameraInfo', header=types.header(now, 'optical'), height=30, width=40, k=k)
