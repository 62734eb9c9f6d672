"""Start the memory node, and bring it up unless a lifecycle manager does that."""

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode

from launch import LaunchContext, LaunchDescription

PARAMS = str(Path(get_package_share_directory('hylo_memory_ros')) / 'config' / 'memory.yaml')

ARGUMENTS = (
    ('namespace', '', 'Namespace of the node; its relative topics, tf among them, are looked for there.'),
    ('params_file', PARAMS, 'YAML file with the parameters of the node; the default shows all of them.'),
    (
        'use_sim_time',
        'false',
        'Take the time from /clock. With the default params_file this also accepts stamps of any year '
        '(min_valid_stamp_s: 0).',
    ),
    ('autostart', 'true', 'Configure and activate the node; false leaves that to a lifecycle manager.'),
    ('log_level', 'info', 'Least severity that is logged: debug, info, warn, error, fatal.'),
    (
        'transport',
        'udp',
        'Transport of the node: udp, which a killed client cannot lock, or shared_memory, cheaper for large '
        'images.',
    ),
    ('database_path', '', 'File of the memory. Empty: as the params_file says.'),
    ('map_id', '', 'Map that the robot is in. Empty: as the params_file says.'),
)


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            *(
                DeclareLaunchArgument(name, default_value=default, description=description)
                for name, default, description in ARGUMENTS
            ),
            OpaqueFunction(function=_started),
        ]
    )


def _started(context: LaunchContext) -> list:
    given = {name: LaunchConfiguration(name).perform(context) for name, _, _ in ARGUMENTS}
    if not Path(given['params_file']).is_file():
        raise FileNotFoundError(f'params_file: there is no file {given["params_file"]!r}')
    sim_time = _is_true('use_sim_time', given['use_sim_time'])
    # The node brings itself up, once, when its process starts.
    overrides = {'use_sim_time': sim_time, 'autostart': _is_true('autostart', given['autostart'])}
    if sim_time and given['params_file'] == PARAMS:
        overrides['min_valid_stamp_s'] = 0.0
    overrides.update({name: given[name] for name in ('database_path', 'map_id') if given[name]})
    return [
        LifecycleNode(
            package='hylo_memory_ros',
            executable='memory_node',
            name='hylo_memory',
            namespace=given['namespace'],
            parameters=[given['params_file'], overrides],
            arguments=['--ros-args', '--log-level', f'hylo_memory:={given["log_level"]}'],
            additional_env={'HYLO_MEMORY_TRANSPORT': given['transport']},
            output='screen',
            emulate_tty=True,
        )
    ]


def _is_true(name: str, text: str) -> bool:
    if text.lower() not in ('true', 'false', '1', '0'):
        raise ValueError(f'{name}: {text!r} is neither true nor false')
    return text.lower() in ('true', '1')
