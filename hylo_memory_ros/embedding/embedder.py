"""Port of embedders, and their lookup by name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.errors import ConfigurationError
from hylo_memory_ros.plugins import made_by_plugin

GROUP = 'hylo_memory_ros.embedders'
"""Entry point group of embedders."""


class Embedder(Protocol):
    """Deterministic map from texts to vectors.

    A plug-in registers a callable without arguments that returns an embedder, as an entry point of the group
    ``hylo_memory_ros.embedders``. `embed` may be called from any thread.
    """

    model: str
    """Name of the model."""
    digest: str
    """``sha256:…`` over model file and configuration; another digest means other vectors."""
    dimension: int
    """Components of each vector."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector for each text, shape (n, d), finite and not of length zero."""


def embedder_names() -> tuple[str, ...]:
    """Return the names of all registered embedders."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)} | set(_BUILT_IN)))


def embedder_named(name: str) -> Embedder:
    """Create an embedder.

    Raises
    ------
    ConfigurationError
        No embedder has this name, or it cannot be loaded.
    """
    embedder: Embedder = made_by_plugin(GROUP, name, 'embedder', _BUILT_IN, ConfigurationError)
    return embedder


def _create_minilm() -> Embedder:
    from hylo_memory_ros.embedding.onnx_embedder import create_minilm  # noqa: PLC0415 - optional dependencies

    return create_minilm()


def _create_onnx() -> Embedder:
    from hylo_memory_ros.embedding.onnx_embedder import create_from_environment  # noqa: PLC0415

    return create_from_environment()


# Entry points are missing where the package was not installed by pip.
_BUILT_IN = {'minilm': _create_minilm, 'onnx': _create_onnx}
