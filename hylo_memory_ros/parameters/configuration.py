"""Conversion of single parameter values into the configuration, with all problems reported together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from hylo_memory_ros.errors import ConfigurationError
from hylo_memory_ros.parameters.declarations import Entry, input_entries, node_entries, space_entries
from hylo_memory_ros.parameters.node_config import NodeConfig

__all__ = ['build_configuration']

ValueOf = Callable[[Entry], Any]


def build_configuration(value_of: ValueOf, *, clock: str) -> NodeConfig:
    """Build the configuration from single values.

    Parameters
    ----------
    value_of : callable
        Return the value of a parameter, as ROS has it.
    clock : str
        Name of the service clock.

    Raises
    ------
    ConfigurationError
        With every parameter that is wrong, its value and the expected type.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    for entry in node_entries():
        _put(values, entry, value_of, problems)
    values.setdefault('memory', {})['clock'] = clock
    values['memory']['embedding_spaces'] = {
        name: _space(name, value_of, problems) for name in values.pop('embedding_spaces', ())
    }
    values['inputs'] = tuple(_input(name, value_of, problems) for name in values.get('inputs', ()))
    if not problems:
        try:
            return NodeConfig.model_validate(values)
        except ValidationError as exc:
            names = [source['name'] for source in values['inputs']]
            problems += [_problem(error, names) for error in exc.errors()]
    raise ConfigurationError('; '.join(problems), problems=tuple(problems))


def _input(name: str, value_of: ValueOf, problems: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {'name': name}
    for entry in input_entries(name):
        _put(values, entry, value_of, problems)
    return values


def _space(name: str, value_of: ValueOf, problems: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for entry in space_entries(name):
        _put(values, entry, value_of, problems)
    return values


def _put(values: dict[str, Any], entry: Entry, value_of: ValueOf, problems: list[str]) -> None:
    try:
        value = entry.validated(value_of(entry))
    except ValueError as exc:
        problems.append(str(exc))
        return
    for part in entry.path[:-1]:
        values = values.setdefault(part, {})
    values[entry.path[-1]] = value


def _problem(error: Any, inputs: list[str]) -> str:
    place = [str(part) for part in error['loc']]
    if place[:1] == ['inputs']:
        place[:2] = ['input', inputs[int(place[1])]]
    if place[:2] == ['memory', 'embedding_spaces']:
        place[:2] = ['space']
    text = str(error['msg']).removeprefix('Value error, ')
    return f'{".".join(place)}: {text}' if place else text
