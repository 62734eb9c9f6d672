"""Indexes beside the store: in memory, never authoritative, always rebuildable from it.

`spatial` answers radius and nearest-neighbour queries, `vectors` similarity; `service` keeps both up to
date.
"""

from hylo_memory_ros.index.spatial import (
    OPEN,
    BelievedRow,
    Difference,
    Excluded,
    Hits,
    Nearest,
    RadiusQuery,
    RowBatch,
    SpatialIndex,
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
