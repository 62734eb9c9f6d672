"""The full names of topics, as a node of a name would subscribe to them."""

from __future__ import annotations

from collections.abc import Iterable

from hylo_memory_ros.errors import ConfigurationError

__all__ = ['Names']


class Names:
    """Resolves and remaps the names of topics.

    Parameters
    ----------
    node : str
        Full name of the node.
    remaps : iterable of str
        ``from:=to`` each, as ROS takes them.

    Raises
    ------
    ConfigurationError
        A remap is none.

    Examples
    --------
    >>> names = Names('/robot/hylo_memory', ['/robot/tf:=/tf'])
    >>> [names.full(name) for name in ('detections', '/scan', '~/seen', 'tf')]
    ['/robot/detections', '/scan', '/robot/hylo_memory/seen', '/tf']
    """

    def __init__(self, node: str = '/hylo_memory', remaps: Iterable[str] = ()) -> None:
        if not node.startswith('/') or node.endswith('/'):
            raise ConfigurationError(f'node: {node!r} is no full name, such as /hylo_memory', node=node)
        self._node = node
        self._remaps: dict[str, str] = {}
        for remap in remaps:
            old, found, new = remap.partition(':=')
            if not (found and old and new):
                raise ConfigurationError(f'remap: {remap!r} is no from:=to', remap=remap)
            self._remaps[self._resolved(old)] = self._resolved(new)

    def full(self, name: str) -> str:
        """Return the full name of a topic."""
        full = self._resolved(name)
        return self._remaps.get(full, full)

    def _resolved(self, name: str) -> str:
        if name.startswith('/'):
            return name
        if name.startswith('~'):
            return f'{self._node}/{name[1:].lstrip("/")}'
        return f'{self._node.rpartition("/")[0]}/{name}'
