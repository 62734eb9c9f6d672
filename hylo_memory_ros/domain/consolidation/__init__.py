"""What becomes of many happenings: which are near duplicates, which belong together, what stands for them.

Nothing here reads or writes a memory: rows and items come in, a plan goes out; the same in, the same out.
Reading order: `wording`, `standing`, `summariser`, `similarity`, `planning`, `summary`.
"""

from __future__ import annotations

from hylo_memory_ros.domain.consolidation.lineage import STANDS_FOR, as_happening
from hylo_memory_ros.domain.consolidation.planner import Chunk, Need, Planner, Rule
from hylo_memory_ros.domain.consolidation.summarizer import GROUP, Extractive, Summariser, summariser_named
from hylo_memory_ros.domain.consolidation.summary import Composer

__all__ = [
    'GROUP',
    'STANDS_FOR',
    'Chunk',
    'Composer',
    'Extractive',
    'Need',
    'Planner',
    'Rule',
    'Summariser',
    'as_happening',
    'summariser_named',
]
