"""Indexes beside the store: in memory, never authoritative, always rebuildable from it."""

from hylo_memory_ros.index._rows import OPEN, BelievedRow, Difference, RowBatch
from hylo_memory_ros.index.spatial import Excluded, Hits, Nearest, SpatialMirror

__all__ = ['OPEN', 'BelievedRow', 'Difference', 'Excluded', 'Hits', 'Nearest', 'RowBatch', 'SpatialMirror']
