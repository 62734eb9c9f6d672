"""What an embedder plug-in is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ['Embedder']


class Embedder(Protocol):
    """Turns texts into vectors; the same text always into the same.

    A plug-in registers a callable without arguments that returns one, as an entry point of the group
    ``hylo_memory_ros.embedders``. `embed` may be called from any thread.
    """

    model: str
    """Name of the model."""
    digest: str
    """``sha256:…`` over model file and configuration: another one makes other vectors."""
    dimension: int
    """Components of each vector."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector for each text, shape (n, d), finite and not of length zero."""
