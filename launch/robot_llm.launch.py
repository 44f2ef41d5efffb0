"""Start the node: ``ros2 launch robot_llm robot_llm.launch.py model:=/path/to/model.gguf``."""

from pathlib import Path

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

NAME = 'robot_llm'

# launch sends SIGINT, then SIGTERM, then SIGKILL. The node ends within a second by itself; these
# only matter on a machine so busy that it does not, where SIGKILL would cut off the last message.
SIGTERM_TIMEOUT_S = 10
SIGKILL_TIMEOUT_S = 10
# Loading a model that cannot be loaded must not fill the log.
RESPAWN_DELAY_S = 2.0

ARGUMENTS = (
    DeclareLaunchArgument(
        'model', default_value='',
        description='GGUF file; empty: model.path of params_file'),
    DeclareLaunchArgument(
        'params_file', default_value='',
        description='YAML file with parameters, as config/robot_llm.yaml; empty: the defaults'),
    DeclareLaunchArgument(
        'profiles', default_value='',
        description='folder with response profiles; empty: profiles.folder of params_file'),
    DeclareLaunchArgument(
        'namespace', default_value='', description='namespace of the node'),
    DeclareLaunchArgument(
        'log_level', default_value='info', choices=['debug', 'info', 'warn', 'error', 'fatal'],
        description="level of the node's own logger"),
    DeclareLaunchArgument(
        'autostart', default_value='', choices=['', 'true', 'false'],
        description='configure and activate at start; empty: autostart of params_file'),
    DeclareLaunchArgument(
        'respawn', default_value='false', choices=['true', 'false'],
        description='start the node again when it has died'),
)


def generate_launch_description() -> LaunchDescription:
    """Return the arguments and the node."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start_node)])


def start_node(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """
    Return the node action for the arguments of this launch.

    :raises FileNotFoundError: if ``params_file`` is given and is no file; launch_ros would warn
        and start the node with its defaults
    """
    def value(argument: str) -> str:
        return LaunchConfiguration(argument).perform(context)

    # Later entries win. An argument that was not given is not passed, so that the file decides.
    parameters: list[object] = []
    if value('params_file'):
        if not Path(value('params_file')).is_file():
            raise FileNotFoundError(f'params_file:={value("params_file")} is no file')
        parameters.append(value('params_file'))
    for parameter, argument, kind in (
        ('model.path', 'model', str),
        ('profiles.folder', 'profiles', str),
        ('autostart', 'autostart', bool),
    ):
        if value(argument):
            # Typed: launch_ros reads values as YAML, and a file named 123 is not a number.
            typed = ParameterValue(LaunchConfiguration(argument), value_type=kind)
            parameters.append({parameter: typed})

    # Name and namespace are both given even where they are the defaults: only then does launch_ros
    # address the parameters to this very node, and only so do they win over a params_file that
    # does the same.
    namespace = value('namespace')
    logger = '.'.join([*filter(None, namespace.split('/')), NAME])
    return [Node(
        package=NAME,
        executable='node',
        name=NAME,
        namespace=namespace,
        parameters=parameters,
        ros_arguments=['--log-level', f'{logger}:={value("log_level")}'],
        output='screen',
        emulate_tty=True,
        respawn=LaunchConfiguration('respawn'),
        respawn_delay=RESPAWN_DELAY_S,
        sigterm_timeout=str(SIGTERM_TIMEOUT_S),
        sigkill_timeout=str(SIGKILL_TIMEOUT_S),
    )]
