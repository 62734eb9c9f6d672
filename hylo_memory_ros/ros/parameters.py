"""ROS parameters, declared once from the typed configuration.

Names are those of the fields: the node's own and the memory's at the top, perception's below
``landmarks.``, those of an input below ``input.<name>.``, those of an embedding space below
``space.<name>.``; ``inputs`` and ``embedding_spaces`` list their names.

Everything is read at configure. While the node is configured a change is refused, because it would have
no effect; before that it is checked at once. Values from files and the command line are only checked
by configure, so that a wrong value fails the transition, by name, and not the process.
"""

from __future__ import annotations

from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import InvalidParameterValueException, NameValidationException
from rclpy.expand_topic_name import expand_topic_name
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.validate_full_topic_name import validate_full_topic_name
from rclpy.validate_topic_name import validate_topic_name

from hylo_memory_ros.errors import ConfigurationError
from hylo_memory_ros.parameters import (
    NodeConfig,
    ParameterSpec,
    build_configuration,
    input_entries,
    node_entries,
    space_entries,
)
from hylo_memory_ros.ros.rclpy_compat import given_parameters

INT_MAX = 2**63 - 1


def descriptor(entry: ParameterSpec, *, ranged: bool = True) -> ParameterDescriptor:
    """Return the descriptor of a parameter; without the range, ROS takes any value."""
    text = ParameterDescriptor(
        name=entry.name,
        description=' '.join((entry.field.description or '').split()),
        additional_constraints=entry.expected,
        read_only=entry.read_only,
        dynamic_typing=True,
    )
    low, high = entry.range
    if not ranged or (low is None and high is None):
        return text
    if isinstance(entry.default, float):
        span = FloatingPointRange(from_value=float('-inf'), to_value=float('inf'))
        text.floating_point_range = [span]
    elif isinstance(entry.default, int):
        span = IntegerRange(from_value=-INT_MAX, to_value=INT_MAX)
        text.integer_range = [span]
    else:
        return text
    span.from_value = span.from_value if low is None else type(span.from_value)(low)
    span.to_value = span.to_value if high is None else type(span.to_value)(high)
    return text


class Parameters:
    """The parameters of one node.

    Parameters
    ----------
    node : Node
        Owner of the parameters, which are declared at once. Threads: its executor's only.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._entries: dict[str, ParameterSpec] = {}
        self._declaring = False
        self.in_use = False
        """True while changes are refused."""
        self._declare(node_entries())
        self._declare_named()
        node.add_on_set_parameters_callback(self._check)

    def value(self, name: str) -> Any:
        """Return one value as the configuration takes it.

        Raises
        ------
        ConfigurationError
            If it is wrong.
        """
        try:
            return self._entries[name].validated(self._given(self._entries[name]))
        except ValueError as exc:
            raise ConfigurationError(str(exc), parameter=name) from exc

    def read(self) -> NodeConfig:
        """Return the configuration.

        Raises
        ------
        ConfigurationError
            With every parameter that is wrong, its value and the expected type.
        """
        self._declare_named()
        clock = 'sim' if self._node.get_parameter_or('use_sim_time').value is True else 'wall'
        return build_configuration(self._given, given_parameters(self._node), clock=clock)

    def _given(self, entry: ParameterSpec) -> Any:
        value = self._node.get_parameter_or(entry.name).value
        self._check_topic(entry, value)
        return value

    def _check_topic(self, entry: ParameterSpec, value: Any) -> None:
        """Raise a ValueError if the value should name a topic and does not."""
        if not entry.is_topic or not value or not isinstance(value, str):
            return
        try:
            validate_topic_name(value)
            full = expand_topic_name(value, self._node.get_name(), self._node.get_namespace())
            validate_full_topic_name(full)
        except (NameValidationException, ValueError) as exc:
            # One draws an arrow below the name, the other ends with a place in the sources of rcl.
            reason = str(exc).splitlines()[0].partition(', at ')[0]
            reason = reason.removeprefix('Invalid topic name: ').rstrip(':')
            raise ValueError(f'{entry.name}: {value!r} is not the name of a topic: {reason}') from exc

    def _declare_named(self) -> None:
        for listed, entries in (('inputs', input_entries), ('embedding_spaces', space_entries)):
            try:
                names = self.value(listed)
            except ConfigurationError:
                continue  # configure will report it
            for name in names:
                self._declare(entries(name))

    def _declare(self, wanted: tuple[ParameterSpec, ...]) -> None:
        self._declaring = True
        try:
            for entry in wanted:
                if entry.name not in self._entries:
                    self._entries[entry.name] = entry
                    self._declare_one(entry)
        finally:
            self._declaring = False

    def _declare_one(self, entry: ParameterSpec) -> None:
        try:
            self._node.declare_parameter(entry.name, entry.default, descriptor(entry))
        except InvalidParameterValueException:
            # The given value is out of range. Keep it, so that configure can name it.
            self._node.declare_parameter(entry.name, entry.default, descriptor(entry, ranged=False))

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
                self._check_topic(entry, parameter.value)
            except ValueError as exc:
                problems.append(str(exc))
        return SetParametersResult(successful=not problems, reason='; '.join(problems))
