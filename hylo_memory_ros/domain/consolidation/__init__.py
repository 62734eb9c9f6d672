"""Consolidation of events: near duplicates are merged, related events summarized.

Pure and deterministic: rows and items come in, a plan goes out; nothing here reads or writes a memory.
Imports the model, the configuration and `domain.identity`.
"""

from __future__ import annotations

from hylo_memory_ros.domain.consolidation.planner import Chunk, Need, Planner, Rule
from hylo_memory_ros.domain.consolidation.summarizer import (
    GROUP,
    SUMMARIZES,
    Extractive,
    Summarizer,
    load_summarizer,
    without_lineage,
)
from hylo_memory_ros.domain.consolidation.summary import Composer

__all__ = [
    'GROUP',
    'SUMMARIZES',
    'Chunk',
    'Composer',
    'Extractive',
    'Need',
    'Planner',
    'Rule',
    'Summarizer',
    'load_summarizer',
    'without_lineage',
]
