"""A ROS parameter file is read as ROS reads it, and what is wrong with one is told by name."""

import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('yaml', reason='PyYAML is not installed')

from hylo_memory_ros.errors import ConfigurationError, NotFoundError
from hylo_memory_ros.parameters import ParameterFile

ROOT = Path(__file__).resolve().parents[2]


def values(text: str, node: str = '/hylo_memory') -> dict[str, Any]:
    given = ParameterFile(node)
    given.read_text(text)
    return given.values


@pytest.mark.parametrize(
    ('text', 'value'),
    [
        ('1', 1),
        ('-7', -7),
        ('0x10', 16),
        ('1.0', 1.0),
        ('1e9', 1e9),
        ('-1.5E-3', -0.0015),
        ('.5', 0.5),
        ('5.', 5.0),
        ('true', True),
        ('Yes', True),
        ('off', False),
        ("'true'", 'true'),
        ('"1"', '1'),
        ('map', 'map'),
        ('.inf', math.inf),
        ('-.inf', -math.inf),
        ('2020-01-01', '2020-01-01'),
        ('~/.ros/x', '~/.ros/x'),
        ('a=b', 'a=b'),
        ('[]', []),
        ("['']", ['']),
        ('[a, b]', ['a', 'b']),
        ('[1, 2.5]', [1, 2.5]),
        ('/**', '/**'),
        ('1 2', '1 2'),
        ('0b1', '0b1'),
    ],
)
def test_a_plain_scalar_means_what_it_means_to_ros(text: str, value: Any) -> None:
    found = values(
        f'/**: {{ros__parameters: {{x: {text}}}}}'
        if '/**' not in text
        else "/**:\n  ros__parameters:\n    x: '/**'"
    )
    assert found == {'x': value}
    assert type(found['x']) is type(value)


@pytest.mark.parametrize(
    ('name', 'node', 'matches'),
    [
        ('/**', '/hylo_memory', True),
        ('/**', '/a/b/hylo_memory', True),
        ('hylo_memory', '/hylo_memory', True),
        ('/hylo_memory', '/hylo_memory', True),
        ('/*/hylo_memory', '/a/hylo_memory', True),
        ('/**/hylo_memory', '/a/b/hylo_memory', True),
        ('/**/hylo_memory', '/hylo_memory', True),
        ('/*', '/a/hylo_memory', False),
        ('other', '/hylo_memory', False),
        ('hylo_memory', '/a/hylo_memory', False),
        ('/a/hylo_memory', '/a/hylo_memory', True),
        ('hylo.memory', '/hyloxmemory', False),
    ],
)
def test_the_names_of_nodes_match_as_in_ros(name: str, node: str, matches: bool) -> None:
    assert bool(values(f"'{name}': {{ros__parameters: {{x: 1}}}}", node)) is matches


def test_names_may_be_nested_or_dotted_and_later_ones_win() -> None:
    text = """
    a:
      hylo_memory:
        ros__parameters: {landmarks.confirm_n: 1, landmarks: {move_min_m: 2}}
    /**:
      ros__parameters: {landmarks: {confirm_n: 5}}
    """
    assert values(text, '/a/hylo_memory') == {'landmarks.confirm_n': 5, 'landmarks.move_min_m': 2}


@pytest.mark.parametrize('file', ['config/memory.yaml', 'demo/params.yaml'])
def test_the_files_of_this_package_are_configurations(file: str) -> None:
    given = ParameterFile()
    given.read(ROOT / file)
    assert given.configuration().inputs


def test_pyyaml_and_ros_agree_about_the_shipped_files() -> None:
    yaml = pytest.importorskip('yaml')
    given = ParameterFile()
    given.read(ROOT / 'config' / 'memory.yaml')
    tree = yaml.safe_load((ROOT / 'config' / 'memory.yaml').read_text())['/**']['ros__parameters']
    for name, value in given.values.items():
        below = tree
        for part in name.split('.'):
            below = below[part]
        assert below == value


def test_the_clock_is_that_which_use_sim_time_says() -> None:
    given = ParameterFile()
    assert given.configuration().memory.clock == 'wall'
    given.put('use_sim_time:=true')
    assert given.configuration().memory.clock == 'sim'


def test_what_nothing_declares_is_refused() -> None:
    given = ParameterFile()
    given.read_text(
        '/**: {ros__parameters: {inputs: [a], map: x, input: {a: {topc: b}}, qos_overrides: {c: 1}}}'
    )
    with pytest.raises(ConfigurationError) as refusal:
        given.configuration()
    assert [problem.split(': ')[0] for problem in refusal.value.details['problems'][:2]] == [
        'input.a.topc',
        'map',
    ]


def test_a_wrong_value_is_refused_like_the_node_does() -> None:
    given = ParameterFile()
    given.read_text('/**: {ros__parameters: {tf_timeout_s: soon, inputs: [a], input: {a: {gate_m: -1}}}}')
    with pytest.raises(ConfigurationError) as refusal:
        given.configuration()
    message = str(refusal.value)
    for told in ("tf_timeout_s: 'soon'", 'input.a.gate_m: -1', 'input.a.topic: '):
        assert told in message


@pytest.mark.parametrize(
    'text',
    [
        'a: [',
        '- 1',
        'just text',
        '/**: 5',
        '/**: {ros__parameters: 5}',
        '/**: {ros__parameters: {a: 1, a: 2}}',
        '/**: {ros__parameters: {[1]: 2}}',
        '\t',
    ],
)
def test_what_is_no_parameter_file_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / 'bad.yaml'
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=str(path)):
        ParameterFile().read(path)


def test_a_file_that_cannot_be_read_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r'none\.yaml'):
        ParameterFile().read(tmp_path / 'none.yaml')
    (tmp_path / 'noise.yaml').write_bytes(b'\xff\xfe\x80')
    with pytest.raises(ConfigurationError, match=r'noise\.yaml'):
        ParameterFile().read(tmp_path / 'noise.yaml')
    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        ParameterFile().read(tmp_path)


@pytest.mark.parametrize('text', ['/**: {ros__parameters: }', '/**:\n  ros__parameters:\n    # nothing\n'])
def test_an_empty_file_gives_nothing(text: str) -> None:
    assert values(text) == {}


@pytest.mark.parametrize('text', ['map_id', ':=x', 'a=b'])
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match='name:=value'):
        ParameterFile().put(text)


def test_numbers_by_name_are_a_mapping() -> None:
    given = ParameterFile()
    given.read_text(
        '/**: {ros__parameters: {inputs: [a], input: {a: {topic: a, type: t, '
        'detection_probabilities: [cup=0.5, "red mug=1"]}}}}'
    )
    (source,) = given.configuration().inputs
    assert source.detection_probability_of('cup') == 0.5
    assert source.detection_probability_of('red mug') == 1.0
    assert source.detection_probability_of('plate') == 0.9


@pytest.mark.parametrize('bad', ['cup=often', 'cup=1.5', 'cup'])
def test_numbers_by_name_are_refused_unless_each_is_one(bad: str) -> None:
    given = ParameterFile()
    given.read_text('/**: {ros__parameters: {inputs: [a], input: {a: {topic: a, type: t}}}}')
    given.values['input.a.detection_probabilities'] = [bad]
    with pytest.raises(ConfigurationError, match='a list of name=number'):
        given.configuration()


@pytest.mark.parametrize('name', ['clip', 'clip@', '@1', 'clip@1.5', 'my clip@1', 'clip@1@2'])
def test_a_name_that_is_none_of_a_space_is_told_with_what_one_reads_like(name: str) -> None:
    given = ParameterFile('/hylo_memory')
    given.read_text(f"/**: {{ros__parameters: {{embedding_spaces: ['{name}']}}}}")

    with pytest.raises(ConfigurationError) as refused:
        given.configuration()

    assert f"embedding_spaces: ['{name}'] is not" in str(refused.value)
    assert 'expected the name of a space as name@version' in str(refused.value)
    assert f'letter, got {name!r}' in str(refused.value)
