"""An index that is loaded and empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hylo_memory_ros.index.spatial import SpatialIndex


@pytest.fixture
def index() -> Iterator[SpatialIndex]:
    index = SpatialIndex()
    index.load((), 0)
    yield index
    index.close()
