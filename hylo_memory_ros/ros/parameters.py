"""The ROS parameters: declared once, from the typed configuration.

Names are those of the fields: the node's own and the memory's at the top, perception's below
``landmarks.``, those of an input below ``input.<name>.``; ``inputs`` lists the inputs.

Everything is read at configure. While the node is configured a change is refused, because it
would not act; before that it is checked at once. What a file or the command line gave is only
checked by configure, so that a wrong value fails that, by name, and not the process.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from rcl_interfaces.msg import SetParametersResult
from rclpy.exceptions import InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter

from hylo_memory_ros.errors import ConfigurationError
from hylo_memory_ros.ros.entries import Entry, input_entries, node_entries
from hylo_memory_ros.ros.settings import NodeConfig

__all__ = ['Parameters']

# Declared by rclpy itself, in every node.
FOREIGN = ('use_sim_time', 'start_type_description_service', 'qos_overrides.')


class Parameters:
    """The parameters of one node.

    Parameters
    ----------
    node : Node
        The node that they are declared on, at once. Only its executor's thread may call.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._entries: dict[str, Entry] = {}
        self._declaring = False
        self.in_use = False
        """While true every change is refused."""
        self._declare(node_entries())
        self._declare_inputs()
        node.add_on_set_parameters_callback(self._check)

    def value(self, name: str) -> Any:
        """Return one value as the configuration takes it.

        Raises
        ------
        ConfigurationError
            If it is wrong.
        """
        try:
            return self._entries[name].validated(self._node.get_parameter_or(name).value)
        except ValueError as exc:
            raise ConfigurationError(str(exc), parameter=name) from exc

    def read(self) -> NodeConfig:
        """Return the configuration.

        Raises
        ------
        ConfigurationError
            With every parameter that is wrong, its value and the expected type.
        """
        self._declare_inputs()
        values: dict[str, Any] = {}
        problems: list[str] = []
        for entry in node_entries():
            self._put(values, entry, problems)
        clock = 'sim' if self._node.get_parameter_or('use_sim_time').value is True else 'wall'
        values.setdefault('memory', {})['clock'] = clock
        values['inputs'] = tuple(self._input(name, problems) for name in values.get('inputs', ()))
        if not problems:
            try:
                return NodeConfig.model_validate(values)
            except ValidationError as exc:
                names = [source['settings']['name'] for source in values['inputs']]
                problems += [_told(error, names) for error in exc.errors()]
        raise ConfigurationError('; '.join(problems), problems=tuple(problems))

    def unknown(self) -> tuple[str, ...]:
        """Return the names that a file or the command line gave and nothing declares: misspelt ones."""
        given = getattr(self._node, '_parameter_overrides', {})
        return tuple(
            sorted(name for name in given if name not in self._entries and not name.startswith(FOREIGN))
        )

    def _input(self, name: str, problems: list[str]) -> dict[str, Any]:
        values: dict[str, Any] = {'settings': {'name': name}}
        for entry in input_entries(name):
            self._put(values, entry, problems)
        return values

    def _put(self, values: dict[str, Any], entry: Entry, problems: list[str]) -> None:
        try:
            value = entry.validated(self._node.get_parameter_or(entry.name).value)
        except ValueError as exc:
            problems.append(str(exc))
            return
        for part in entry.path[:-1]:
            values = values.setdefault(part, {})
        values[entry.path[-1]] = value

    def _declare_inputs(self) -> None:
        try:
            names = self.value('inputs')
        except ConfigurationError:
            return  # configure will say so
        for name in names:
            self._declare(input_entries(name))

    def _declare(self, wanted: tuple[Entry, ...]) -> None:
        self._declaring = True
        try:
            for entry in wanted:
                if entry.name not in self._entries:
                    self._entries[entry.name] = entry
                    self._declare_one(entry)
        finally:
            self._declaring = False

    def _declare_one(self, entry: Entry) -> None:
        try:
            self._node.declare_parameter(entry.name, entry.default, entry.descriptor())
        except InvalidParameterValueException:
            # The given value is out of range. Keep it, so that configure can name it.
            self._node.declare_parameter(entry.name, entry.default, entry.descriptor(ranged=False))

    def _check(self, changed: list[Parameter]) -> SetParametersResult:
        if self._declaring:
            return SetParametersResult(successful=True)
        problems = []
        for parameter in changed:
            entry = self._entries.get(parameter.name)
            if entry is None:
                continue
            if self.in_use:
                problems.append(f'{parameter.name}: it is read at configure: clean up, set it, configure')
                continue
            try:
                entry.validated(parameter.value)
            except ValueError as exc:
                problems.append(str(exc))
        return SetParametersResult(successful=not problems, reason='; '.join(problems))


def _told(error: Any, inputs: list[str]) -> str:
    place = [str(part) for part in error['loc'] if part != 'settings']
    if place[:1] == ['inputs']:
        place[:2] = ['input', inputs[int(place[1])]]
    text = str(error['msg']).removeprefix('Value error, ')
    return f'{".".join(place)}: {text}' if place else text
