"""Embedder plug-ins by name."""

from __future__ import annotations

from importlib.metadata import entry_points

from hylo_memory_ros.embedding.port import Embedder
from hylo_memory_ros.errors import ConfigurationError
from hylo_memory_ros.plugins import made_by_plugin

__all__ = ['GROUP', 'embedder_named', 'embedder_names']

GROUP = 'hylo_memory_ros.embedders'
"""Entry point group of embedders."""


def embedder_names() -> tuple[str, ...]:
    """Return the names of the embedders that are registered."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)} | set(_OURS)))


def embedder_named(name: str) -> Embedder:
    """Load an embedder.

    Raises
    ------
    ConfigurationError
        None is registered under this name, or it cannot be loaded.
    """
    made: Embedder = made_by_plugin(GROUP, name, 'embedder', _OURS, ConfigurationError)
    return made


def _minilm() -> Embedder:
    # Imported when it is asked for: it reads a model.
    from hylo_memory_ros.embedding.minilm import MiniLm  # noqa: PLC0415

    return MiniLm()


# Also where the package was not installed by pip, and so has no entry points.
_OURS = {'minilm': _minilm}
