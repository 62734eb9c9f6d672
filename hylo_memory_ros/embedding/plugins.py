"""Embedder plug-ins by name."""

from __future__ import annotations

from importlib.metadata import entry_points

from hylo_memory_ros.embedding.port import Embedder
from hylo_memory_ros.errors import ConfigurationError

__all__ = ['GROUP', 'embedder_named', 'embedder_names']

GROUP = 'hylo_memory_ros.embedders'
"""Entry point group of embedders."""


def embedder_names() -> tuple[str, ...]:
    """Return the names of the embedders that are registered."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)} | {'minilm'}))


def embedder_named(name: str) -> Embedder:
    """Load an embedder.

    Raises
    ------
    ConfigurationError
        None is registered under this name, or it cannot be loaded.
    """
    try:
        for point in entry_points(group=GROUP):
            if point.name == name:
                made: Embedder = point.load()()
                return made
        if name == 'minilm':
            # Also where the package was not installed by pip, and so has no entry points.
            from hylo_memory_ros.embedding.minilm import MiniLm  # noqa: PLC0415

            return MiniLm()
    except Exception as exc:
        raise ConfigurationError(f'embedder: {name!r} cannot be loaded: {exc}', embedder=name) from exc
    known = ', '.join(embedder_names())
    raise ConfigurationError(f'embedder: {name!r} is not installed; there are {known}', embedder=name)
