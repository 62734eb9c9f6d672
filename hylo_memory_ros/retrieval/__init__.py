"""Retrieval: ranked hits for a query, with evidence and the counts of what is excluded.

Reading order: `executor`, `sources`, `working_memory`, `ranking`, `probability`,
`explain`, `pagination`, `engine`. Reads the store through `storage.QuerySource`, and writes nothing.
"""

from __future__ import annotations

from hylo_memory_ros.retrieval.engine import RetrievalEngine
from hylo_memory_ros.retrieval.pagination import MAX_SEQUENCE, Cursor
from hylo_memory_ros.retrieval.sources import ResolvedQuery

__all__ = ['MAX_SEQUENCE', 'Cursor', 'ResolvedQuery', 'RetrievalEngine']
