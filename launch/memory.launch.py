"""Start the memory node, and bring it up unless a lifecycle manager does that."""

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch.actions import DeclareLaunchArgument, EmitEvent, OpaqueFunction, RegisterEventHandler
from launch.events import matches_action
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from lifecycle_msgs.msg import Transition

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
    sim_time = _is_true('use_sim_time', given['use_sim_time'])
    overrides = {'use_sim_time': sim_time, 'autostart': False}
    if sim_time and given['params_file'] == PARAMS:
        overrides['min_valid_stamp_s'] = 0.0
    overrides.update({name: given[name] for name in ('database_path', 'map_id') if given[name]})
    node = LifecycleNode(
        package='hylo_memory_ros',
        executable='memory_node',
        name='hylo_memory',
        namespace=given['namespace'],
        parameters=[given['params_file'], overrides],
        arguments=['--ros-args', '--log-level', f'hylo_memory:={given["log_level"]}'],
        output='screen',
        emulate_tty=True,
    )
    return (
        [node]
        if not _is_true('autostart', given['autostart'])
        else [*_activation(node), node, _configured(node)]
    )


def _configured(node: LifecycleNode) -> EmitEvent:
    return EmitEvent(
        event=ChangeState(
            lifecycle_node_matcher=matches_action(node), transition_id=Transition.TRANSITION_CONFIGURE
        )
    )


def _activation(node: LifecycleNode) -> list:
    """Activate after the configure, and only after that: a deactivated node stays so."""
    activate = EmitEvent(
        event=ChangeState(
            lifecycle_node_matcher=matches_action(node), transition_id=Transition.TRANSITION_ACTIVATE
        )
    )
    return [
        RegisterEventHandler(
            OnStateTransition(
                target_lifecycle_node=node,
                start_state='configuring',
                goal_state='inactive',
                entities=[activate],
            )
        )
    ]


def _is_true(name: str, text: str) -> bool:
    if text.lower() not in ('true', 'false', '1', '0'):
        raise ValueError(f'{name}: {text!r} is neither true nor false')
    return text.lower() in ('true', '1')
