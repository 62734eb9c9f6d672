"""What is exchanged by name: ours, or what an installed package offers as an entry point."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from hylo_memory_ros.errors import HyloMemoryError

__all__ = ['made_by_plugin', 'plugin_named']


def plugin_named(
    group: str, name: str, field: str, ours: Mapping[str, Any], refusal: type[HyloMemoryError]
) -> Any:
    """Return what has a name.

    Parameters
    ----------
    group : str
        Entry point group.
    name : str
        Name, mostly ``name@version``.
    field : str
        What the name was given as.
    ours : mapping
        What needs no package.
    refusal : type
        What is raised.

    Raises
    ------
    HyloMemoryError
        None has this name, or it cannot be imported.
    """
    if name in ours:
        return ours[name]
    points = entry_points(group=group)
    for point in points:
        if point.name == name:
            try:
                return point.load()
            except Exception as exc:
                raise refusal(f'{field}: {name!r} cannot be loaded: {exc}', field=field) from exc
    known = ', '.join(sorted({*ours, *(point.name for point in points)}))
    raise refusal(f'{field}: {name!r} is none of {known} (entry points: {group})', field=field)


def made_by_plugin(
    group: str, name: str, field: str, ours: Mapping[str, Any], refusal: type[HyloMemoryError]
) -> Any:
    """Return what the callable that has a name makes, called without arguments; see `plugin_named`."""
    make = plugin_named(group, name, field, ours, refusal)
    try:
        return make()
    except Exception as exc:
        raise refusal(f'{field}: {name!r} cannot be loaded: {exc}', field=field) from exc
