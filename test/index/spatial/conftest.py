"""A mirror that is loaded and empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hylo_memory_ros.index.spatial import SpatialMirror


@pytest.fixture
def mirror() -> Iterator[SpatialMirror]:
    mirror = SpatialMirror()
    mirror.load((), 0)
    yield mirror
    mirror.close()
