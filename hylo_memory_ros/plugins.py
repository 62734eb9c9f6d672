"""Plug-ins by name: built-in ones, and the entry points of installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from hylo_memory_ros.errors import HyloMemoryError


def plugin_named(
    group: str, name: str, field: str, built_in: Mapping[str, Any], error: type[HyloMemoryError]
) -> Any:
    """Look up a plug-in.

    Parameters
    ----------
    group : str
        Entry point group.
    name : str
        Name of the plug-in, mostly ``name@version``.
    field : str
        Field or parameter that holds the name, for messages.
    built_in : mapping
        Plug-ins of this package, by name.
    error : type
        Class of the error to raise.

    Raises
    ------
    HyloMemoryError
        No plug-in has this name, or it cannot be imported.
    """
    if name in built_in:
        return built_in[name]
    points = entry_points(group=group)
    for point in points:
        if point.name == name:
            try:
                return point.load()
            except Exception as exc:
                raise error(f'{field}: {name!r} cannot be loaded: {exc}', field=field) from exc
    known = ', '.join(sorted({*built_in, *(point.name for point in points)}))
    raise error(f'{field}: {name!r} is none of {known} (entry points: {group})', field=field)


def made_by_plugin(
    group: str, name: str, field: str, built_in: Mapping[str, Any], error: type[HyloMemoryError]
) -> Any:
    """Call a plug-in without arguments and return the result; see `plugin_named`."""
    create = plugin_named(group, name, field, built_in, error)
    try:
        return create()
    except Exception as exc:
        raise error(f'{field}: {name!r} cannot be loaded: {exc}', field=field) from exc
