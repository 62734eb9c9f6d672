"""The recorded drive through Victoria Park, replayed without ROS: how much faster than it was driven."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench._figure import at_least
from demo.bag import bag_of
from demo.drive import Drive
from hylo_memory_ros.parameters import ParameterFile
from hylo_memory_ros.replay import Bag, replay

ROOT = Path(__file__).resolve().parents[1]


def speed() -> Iterator[dict[str, Any]]:
    """Seconds of the recording per second of the replay, into a file; and whether a loop changes nothing."""
    given = ParameterFile()
    given.read(ROOT / 'demo' / 'params.yaml')
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Bag([bag_of(Drive.load(), folder)]) as bag:
            database = f'sqlite:///{folder}/memory.db'
            once = replay(bag, given.configuration(), database=database)
            again = replay(bag, given.configuration(), database=database)
    more = {'messages': once.messages, 'seconds': round(once.seconds, 2), 'snapshot': once.snapshot}
    yield at_least('replay_factor', once.recorded_s / once.seconds, 10, **more)
    yield at_least('replay_again_is_the_same', float(once.snapshot == again.snapshot), 1)


FIGURES = {'speed': speed}
