"""From texts to vectors: what an embedder is, how one is found, and one that works offline."""

from __future__ import annotations

from hylo_memory_ros.embedding.plugins import GROUP, embedder_named, embedder_names
from hylo_memory_ros.embedding.port import Embedder

__all__ = ['GROUP', 'Embedder', 'embedder_named', 'embedder_names']
