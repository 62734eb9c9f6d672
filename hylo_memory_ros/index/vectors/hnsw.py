"""HNSW index over usearch: build, save, load and search (Malkov and Yashunin, 2018, arXiv 1603.09320).

The package is optional: ``pip install 'hylo-memory-ros[usearch]'``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.model.embedding import Metric

_METRICS = {'cosine': 'cos', 'dot': 'ip', 'l2': 'l2sq'}
_CONNECTIVITY = 16
_EXPANSION_ADD = 128
# A query wants at least a hundred vectors, and a graph never searches fewer than a query wants.
_EXPANSION_SEARCH = 64


def usearch_installed() -> bool:
    """Test whether the optional package is installed."""
    try:
        import usearch.index  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True


class HnswCodec:
    """Codec of a graph over vectors in f32, f16 or i8."""

    family = 'usearch'
    version = '2'

    def __init__(self, dimension: int, metric: Metric, quantization: str) -> None:
        self.dimension = dimension
        self.seed = 0
        self.profile = f'hnsw_{quantization}'
        self._options: dict[str, Any] = {
            'ndim': dimension,
            'metric': _METRICS[metric],
            'dtype': quantization,
            'connectivity': _CONNECTIVITY,
            'expansion_add': _EXPANSION_ADD,
            'expansion_search': _EXPANSION_SEARCH,
        }
        self._unit = metric == 'cosine'

    def empty(self) -> Any:
        """Return an index without vectors."""
        from usearch.index import Index  # noqa: PLC0415

        return Index(**self._options)

    def add(self, index: Any, first: int, vectors: NDArray[np.float32]) -> None:
        """Add vectors to an index, numbered from `first` on, in one thread: the other cores are busy."""
        index.add(np.arange(first, first + len(vectors)), self._fitting(vectors), threads=1, copy=True)

    def parts(self, index: Any) -> dict[str, NDArray[np.generic]]:
        """Return the saved form of an index."""
        return {'graph': np.frombuffer(bytes(index.save()), np.uint8)}

    def codes(self, parts: Mapping[str, NDArray[np.generic]]) -> HnswCodes:
        """Return a saved index ready for search."""
        index = self.empty()
        index.load(bytearray(parts['graph'].tobytes()))
        # Loading resets the setting to the default of the library.
        index.expansion_search = _EXPANSION_SEARCH
        return HnswCodes(self, index)

    def _fitting(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        # 8 bits hold [-1, 1]: they need vectors of length one.
        if not self._unit:
            return vectors
        lengths = np.sqrt(np.einsum('ij,ij->i', vectors, vectors))
        return np.asarray(vectors / lengths[:, None], np.float32)


class HnswCodes:
    """Graph ready for search."""

    def __init__(self, codec: HnswCodec, index: Any) -> None:
        self._codec = codec
        self.index = index

    def nearest(self, query: NDArray[np.float32], count: int) -> NDArray[np.int64]:
        """Return about `count` vectors; an answer with fewer must not be trusted."""
        wanted = min(count, len(self.index))
        if not wanted:
            return np.empty(0, np.int64)
        found = self.index.search(query, wanted, threads=1)
        return np.asarray(found.keys, np.int64)
