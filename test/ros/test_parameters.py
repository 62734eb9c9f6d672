"""The parameters are declared once, shown whole in config/memory.yaml, and refused by name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rcl_interfaces.msg import ParameterType
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import Parameter

from hylo_memory_ros.errors import ConfigurationError
from hylo_memory_ros.parameters import NodeConfig, input_entries, node_entries
from hylo_memory_ros.ros.parameters import Parameters

pytestmark = pytest.mark.ros
ROOT = Path(__file__).resolve().parents[2]
INPUT = {
    'inputs': ['front'],
    'input.front.topic': 'boxes',
    'input.front.type': 'vision_msgs/msg/Detection3DArray',
}


def flat(tree: dict[str, Any], prefix: str = '') -> dict[str, Any]:
    values = {}
    for name, value in tree.items():
        values.update(flat(value, f'{prefix}{name}.') if isinstance(value, dict) else {prefix + name: value})
    return values


def shipped() -> dict[str, Any]:
    return flat(yaml.safe_load((ROOT / 'config' / 'memory.yaml').read_text())['/**']['ros__parameters'])


@pytest.fixture
def context(ros_domain: int) -> Iterator[Context]:
    context = Context()
    context.init(domain_id=ros_domain)
    yield context
    context.try_shutdown()


@pytest.fixture
def declare(context: Context) -> Iterator[Any]:
    nodes = []

    def build(**given: Any) -> tuple[Node, Parameters]:
        overrides = [Parameter(name, value=value) for name, value in given.items()]
        node = Node('n', context=context, parameter_overrides=overrides)
        nodes.append(node)
        return node, Parameters(node)

    yield build
    for node in nodes:
        node.destroy_node()


def test_the_shipped_file_shows_every_parameter_and_no_other() -> None:
    names = {entry.name for entry in (*node_entries(), *input_entries('detections'))}

    assert set(shipped()) == names


def test_the_shipped_file_holds_the_defaults_where_it_does_not_say_otherwise() -> None:
    otherwise = {
        'min_valid_stamp_s',
        'inputs',
        'input.detections.topic',
        'input.detections.type',
        'input.detections.optional',
    }
    entries = {entry.name: entry for entry in (*node_entries(), *input_entries('detections'))}
    differing = {
        name for name, value in shipped().items() if (value if value != [''] else []) != entries[name].default
    }

    assert differing == otherwise
    assert shipped()['min_valid_stamp_s'] == 1577836800.0


def test_the_shipped_file_is_a_configuration(declare: Any) -> None:
    _, parameters = declare(**shipped())

    config = parameters.read()

    assert [source.name for source in config.inputs] == ['detections']
    assert config.perception.inputs[0].topic == 'detections'
    assert config.perception.min_valid_stamp_s == 1577836800.0


def test_defaults_are_those_of_the_typed_configuration(declare: Any) -> None:
    _, parameters = declare()

    assert parameters.read() == NodeConfig()


def test_every_parameter_is_described(declare: Any) -> None:
    node, _ = declare(**INPUT)
    for entry in (*node_entries(), *input_entries('front')):
        descriptor = node.describe_parameter(entry.name)
        assert len(descriptor.description) > 10, entry.name
        assert descriptor.additional_constraints == entry.expected
        assert descriptor.type != ParameterType.PARAMETER_NOT_SET

    interval = node.describe_parameter('commit_interval_s')
    assert '(s)' in interval.additional_constraints
    assert interval.floating_point_range[0].to_value == 60.0
    assert node.describe_parameter('receipt_retention').integer_range[0].from_value == 1
    assert node.describe_parameter('autostart').read_only


def test_use_sim_time_is_not_declared_here() -> None:
    assert 'use_sim_time' not in {entry.name for entry in node_entries()}


@pytest.mark.parametrize(
    ('name', 'value', 'expected'),
    [
        ('input.front.gate_m', 1, 1.0),
        ('tf_timeout_s', 0, 0.0),
        ('identity_scope', ['map_id', 'robot_id'], ('map_id', 'robot_id')),
        ('inputs', [''], ()),
        ('untransformable', 'keep_frame', 'keep_frame'),
    ],
)
def test_what_fits_is_taken(declare: Any, name: str, value: Any, expected: Any) -> None:
    _, parameters = declare(**{**INPUT, name: value})

    assert parameters.value(name) == expected


@pytest.mark.parametrize(
    ('name', 'value', 'expected'),
    [
        ('input.front.gate_m', '0.5', 'a number'),
        ('input.front.gate_m', -0.1, '> 0'),
        ('input.front.gate_m', float('nan'), 'a number'),
        ('input.front.gate_m', float('inf'), 'a number'),
        ('input.front.gate_m', True, 'a number'),
        ('input.front.gate_m', [0, 0], 'a number'),
        ('receipt_retention', 1.5, 'an integer'),
        ('receipt_retention', '5', 'an integer'),
        ('receipt_retention', 0, '>= 1'),
        ('autostart', 1, 'true or false'),
        ('map_id', 5, 'a string'),
        ('untransformable', 'maybe', "one of 'reject', 'keep_frame'"),
        ('identity_scope', 'map_id', 'a list of strings'),
        ('identity_scope', [1, 2], 'a list of strings'),
        ('input.front.labels', ['a'], 'a list of name=value'),
        ('input.front.topic', '', 'required'),
        ('global_frame', ' map ', 'a string'),
        ('commit_interval_s', 0.0, '> 0'),
    ],
)
def test_what_does_not_fit_is_refused_by_name_value_and_type(
    declare: Any, name: str, value: Any, expected: str
) -> None:
    _, parameters = declare(**{**INPUT, name: value})

    with pytest.raises(ConfigurationError) as refusal:
        parameters.read()

    message = str(refusal.value)
    assert message.startswith(f'{name}: ')
    assert repr(value) in message
    assert expected in message


@pytest.mark.parametrize('name', ['battery_topic', 'localization_topic', 'input.front.topic'])
@pytest.mark.parametrize(
    ('topic', 'reason'),
    [
        ('bad topic!', 'must not contain characters other than'),
        ('1st', 'must not start with a number'),
        ('a//b', "must not contain repeated '/'"),
        ('battery/', 'must not end with a forward slash'),
        ('{robot}/battery', 'unknown substitution'),
        ('x' * 300, 'topic length'),
    ],
)
def test_what_names_no_topic_is_refused_by_name(declare: Any, name: str, topic: str, reason: str) -> None:
    node, parameters = declare(**{**INPUT, name: topic})

    with pytest.raises(ConfigurationError) as refusal:
        parameters.read()

    assert str(refusal.value).startswith(f'{name}: {topic!r} is not the name of a topic: ')
    assert reason in str(refusal.value)
    assert ' at /' not in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1
    result = node.set_parameters([Parameter(name, value=topic)])[0]
    assert (result.successful, reason in result.reason) == (False, True)
    assert node.set_parameters([Parameter(name, value='~/front')])[0].successful
    assert parameters.value(name) == '~/front'


def test_all_problems_are_told_together(declare: Any) -> None:
    _, parameters = declare(receipt_retention='x', tf_timeout_s=-1.0, map_id=3)

    with pytest.raises(ConfigurationError) as refusal:
        parameters.read()

    assert len(refusal.value.details['problems']) == 3


def test_a_rule_across_parameters_names_the_input(declare: Any) -> None:
    _, parameters = declare(**{**INPUT, 'input.front.min_range_m': 5.0, 'input.front.max_range_m': 2.0})

    with pytest.raises(ConfigurationError, match=r'^input\.front: max_range_m'):
        parameters.read()


@pytest.mark.parametrize(
    ('given', 'told'),
    [
        (
            {'input.front.visibility': 'ghost'},
            "visibility: expected an input of type .* for 'front', got 'ghost'",
        ),
        (
            {'input.front.visibility': 'front'},
            "visibility: expected an input of type .* for 'front', got 'front'",
        ),
        (
            {'input.front.camera_info': 'ghost'},
            "camera_info: expected an input of type .* for 'front', got 'ghost'",
        ),
        ({'inputs': ['front', 'front']}, "inputs: the name 'front' is given twice"),
    ],
)
def test_what_inputs_must_be_to_each_other_is_refused_by_name(
    declare: Any, given: dict[str, Any], told: str
) -> None:
    _, parameters = declare(**{**INPUT, **given})

    with pytest.raises(ConfigurationError, match=told):
        parameters.read()


def test_a_wrong_parameter_can_be_mended(declare: Any) -> None:
    node, parameters = declare(tf_timeout_s='x')
    with pytest.raises(ConfigurationError):
        parameters.read()

    assert node.set_parameters([Parameter('tf_timeout_s', value=2)])[0].successful
    assert parameters.read().tf_timeout_s == 2.0


def test_a_wrong_change_is_refused_at_once(declare: Any) -> None:
    node, _ = declare()

    result = node.set_parameters([Parameter('tf_timeout_s', value='0.5')])[0]

    assert not result.successful
    assert "tf_timeout_s: '0.5' is not a number >= 0" in result.reason


def test_no_change_while_in_use(declare: Any) -> None:
    node, parameters = declare()
    parameters.in_use = True

    result = node.set_parameters([Parameter('map_id', value='m')])[0]

    assert not result.successful
    assert 'map_id' in result.reason
    assert node.set_parameters([Parameter('use_sim_time', value=False)])[0].successful


def test_a_read_only_parameter_stays(declare: Any) -> None:
    node, _ = declare()

    assert not node.set_parameters([Parameter('autostart', value=True)])[0].successful


def test_an_input_named_later_gets_its_parameters(declare: Any) -> None:
    node, parameters = declare(
        **{'input.back.topic': 'b', 'input.back.type': 'vision_msgs/msg/Detection3DArray'}
    )
    with pytest.raises(ConfigurationError, match=r"input\.back\.\*: inputs does not list 'back'$"):
        parameters.read()

    node.set_parameters([Parameter('inputs', value=['back'])])

    assert parameters.read().inputs[0].topic == 'b'


def test_a_misspelt_name_is_refused(declare: Any) -> None:
    _, parameters = declare(tf_timeout=1.0, use_sim_time=False)

    meant = r"^tf_timeout: there is no parameter of this name; did you mean 'tf_timeout_s'\?$"
    with pytest.raises(ConfigurationError, match=meant):
        parameters.read()


def test_a_misspelt_input_is_one_problem(declare: Any) -> None:
    _, parameters = declare(**{**INPUT, 'inputs': ['frnt'], 'input.front.gate_m': 1.0})

    with pytest.raises(ConfigurationError) as refusal:
        parameters.read()

    assert refusal.value.details['problems'] == (
        "input.front.*: inputs does not list 'front'; did you mean 'frnt'?",
        "input.frnt.topic: expected a string, required, got ''",
        "input.frnt.type: expected a string, required, got ''",
    )
