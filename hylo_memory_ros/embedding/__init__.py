"""Embedders: their port, their lookup by name, and one over an ONNX model that works offline.

Imports `errors` and `plugins` only; the libraries of the extra `[embed]` are imported when an embedder is
created.
"""

from __future__ import annotations

from hylo_memory_ros.embedding.embedder import GROUP, Embedder, embedder_named, embedder_names

__all__ = ['GROUP', 'Embedder', 'embedder_named', 'embedder_names']
