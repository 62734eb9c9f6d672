"""Indexes beside the store: in memory, never authoritative, always rebuildable from it."""

from hylo_memory_ros.index._answers import Excluded, Hits, Nearest
from hylo_memory_ros.index._rows import OPEN, BelievedRow, Difference, RowBatch
from hylo_memory_ros.index.spatial import SpatialMirror

__all__ = ['OPEN', 'BelievedRow', 'Difference', 'Excluded', 'Hits', 'Nearest', 'RowBatch', 'SpatialMirror']
