"""What ``ros2 param describe`` shows of a parameter."""

from __future__ import annotations

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor

from hylo_memory_ros.parameters import Entry

__all__ = ['descriptor']

INT_MAX = 2**63 - 1


def descriptor(entry: Entry, *, ranged: bool = True) -> ParameterDescriptor:
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
