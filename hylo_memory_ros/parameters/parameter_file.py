"""ROS parameter files, read without ROS in the same way as its own parser.

PyYAML finds the structure; what a plain scalar means is decided by the rules of `rcl`, which differ
from YAML 1.1 (``1e9`` is a number, ``0x10`` an integer, ``2020-01-01`` a text).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hylo_memory_ros.errors import ConfigurationError, NotFoundError, UnsupportedError
from hylo_memory_ros.parameters.declarations import (
    ParameterSpec,
    build_configuration,
)
from hylo_memory_ros.parameters.node_config import NodeConfig

_TRUE = frozenset({'Y', 'y', 'yes', 'Yes', 'YES', 'true', 'True', 'TRUE', 'on', 'On', 'ON'})
_FALSE = frozenset({'N', 'n', 'no', 'No', 'NO', 'false', 'False', 'FALSE', 'off', 'Off', 'OFF'})
_SPECIAL = {'.nan': math.nan, '.NaN': math.nan, '.NAN': math.nan, '.inf': math.inf, '.Inf': math.inf}
_NUMBER = re.compile(r'[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$')
_INTEGER = re.compile(r'[-+]?(0[xX][0-9a-fA-F]+|\d+)$')


class ParameterFile:
    """Parameters that files and single values give to one node; later ones win.

    Parameters
    ----------
    node : str
        Full name of the node, such as ``/hylo_memory``.

    Examples
    --------
    >>> given = ParameterFile('/hylo_memory')
    >>> given.read_text('/**: {ros__parameters: {tf_timeout_s: 2, landmarks: {confirm_n: 1}}}')
    >>> given.put('map_id:=hall')
    >>> config = given.configuration()
    >>> config.tf_timeout_s, config.landmarks.confirm_n, config.map_id
    (2.0, 1, 'hall')
    """

    def __init__(self, node: str = '/hylo_memory') -> None:
        self._node = node
        self.values: dict[str, Any] = {}
        """Value of each parameter that was given, by its full name."""

    def read(self, path: Path) -> None:
        """Take what a file gives to this node.

        Raises
        ------
        NotFoundError
            There is no such file.
        ConfigurationError
            It is not a parameter file.
        """
        try:
            text = path.read_text(encoding='utf-8')
        except FileNotFoundError:
            raise NotFoundError(f'{path}: no such parameter file', path=str(path)) from None
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigurationError(f'{path}: cannot be read: {exc}', path=str(path)) from exc
        self.read_text(text, str(path))

    def read_text(self, text: str, where: str = 'the parameters') -> None:
        """Take what the text of a file gives to this node."""
        tree = _parsed(text, where)
        if not isinstance(tree, Mapping):
            raise ConfigurationError(
                f'{where}: expected a mapping of node names to ros__parameters', path=where
            )
        for name, below in tree.items():
            for full, given in _nodes(str(name), below, where):
                if _matches(full, self._node):
                    self.values.update(_flat(given))

    def put(self, assignment: str) -> None:
        """Take one value, as ROS does after ``-p``.

        Raises
        ------
        ConfigurationError
            It does not read ``name:=value``.
        """
        name, found, text = assignment.partition(':=')
        if not found or not name:
            raise ConfigurationError(f'expected name:=value, got {assignment!r}', parameter=name)
        self.values.update(_flat({name: _parsed(text, assignment)}))

    def configuration(self) -> NodeConfig:
        """Return the configuration of the node.

        Raises
        ------
        ConfigurationError
            With every parameter that is wrong, its value and the expected type.
        """
        clock = 'sim' if self.values.get('use_sim_time') is True else 'wall'
        return build_configuration(self._value_of, self.values, clock=clock)

    def _value_of(self, entry: ParameterSpec) -> Any:
        return self.values.get(entry.name, entry.default)


def _parsed(text: str, where: str) -> Any:
    try:
        import yaml  # noqa: PLC0415 - only who reads such files needs it
    except ImportError:
        raise UnsupportedError(
            "reading a parameter file needs PyYAML: pip install 'hylo-memory-ros[replay]'"
        ) from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as exc:
        raise ConfigurationError(f'{where}: invalid YAML: {" ".join(str(exc).split())}', path=where) from exc
    return '' if node is None else _value(node, where)


def _value(node: Any, where: str) -> Any:
    """Return the value of a YAML node in ROS."""
    if node.id == 'scalar':
        return node.value if node.style in {"'", '"'} else _scalar(node.value)
    if node.id == 'sequence':
        return [_value(part, where) for part in node.value]
    values: dict[str, Any] = {}
    for key, value in node.value:
        if key.id != 'scalar' or key.value in values:
            line = key.start_mark.line + 1
            raise ConfigurationError(f'{where}: line {line}: a name is missing or given twice', path=where)
        values[key.value] = _value(value, where)
    return values


def _scalar(text: str) -> Any:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INTEGER.match(text):
        digits = text.lstrip('+-')
        base = 16 if digits[:2] in {'0x', '0X'} else 8 if digits[0] == '0' and len(digits) > 1 else 10
        try:
            return int(text, base)
        except ValueError:
            return float(text)
    if _NUMBER.match(text):
        return float(text)
    special = _SPECIAL.get(text.lstrip('+-'))
    return text if special is None else (-special if text.startswith('-') else special)


def _nodes(name: str, below: Any, where: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Yield the full node names in a file, with their parameters."""
    if not isinstance(below, Mapping):
        raise ConfigurationError(f'{where}: {name}: expected ros__parameters', path=where)
    for part, given in below.items():
        if part != 'ros__parameters':
            yield from _nodes(f'{name}/{part}', given, where)
        elif isinstance(given, Mapping):
            yield name if name.startswith('/') else f'/{name}', given
        elif given != '':
            raise ConfigurationError(f'{where}: {name}: ros__parameters: expected a mapping', path=where)


def _matches(pattern: str, node: str) -> bool:
    """Return whether a name in a file, where ``*`` is one part and ``**`` any number, is this node's."""
    wild = {'**': '(/[^/]+)*', '*': '/[^/]+'}
    parts = [wild.get(part, f'/{re.escape(part)}') for part in pattern.split('/') if part]
    return re.fullmatch(''.join(parts), node) is not None


def _flat(tree: Mapping[str, Any], prefix: str = '') -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in tree.items():
        below = isinstance(value, Mapping)
        values.update(_flat(value, f'{prefix}{name}.') if below else {f'{prefix}{name}': value})
    return values
