"""Spatial index: radius and nearest-neighbour queries over the believed rows of the store.

Reading order: `rows`, `segments`, `partition`, `audit`, `index`.
"""

from hylo_memory_ros.index.spatial.index import SpatialIndex
from hylo_memory_ros.index.spatial.rows import (
    OPEN,
    BelievedRow,
    Difference,
    Excluded,
    Hits,
    Nearest,
    RadiusQuery,
    RowBatch,
)

__all__ = [
    'OPEN',
    'BelievedRow',
    'Difference',
    'Excluded',
    'Hits',
    'Nearest',
    'RadiusQuery',
    'RowBatch',
    'SpatialIndex',
]
