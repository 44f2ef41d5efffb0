"""How Fast DDS carries the node's messages: by UDP, unless somebody has said otherwise."""

from collections.abc import MutableMapping
from typing import Final

from robot_llm.ros.parameters import shipped_folder

TRANSPORTS: Final = 'FASTDDS_BUILTIN_TRANSPORTS'
RANGE: Final = 'ROS_AUTOMATIC_DISCOVERY_RANGE'

PROFILES_FILES: Final = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE')
"""Where Fast DDS 2 (Humble, Jazzy) and 3 (Kilted) look for the path of a profile file."""


def use_udp(environment: MutableMapping[str, str]) -> None:
    """
    Keep the node off Fast DDS's shared memory; call it before ``rclpy.init``.

    Before a process sends to another one for the first time by shared memory, Fast DDS may sleep
    for up to 333 ms to see whether that one lives, and holds the lock of everything that the
    process sends. rclpy holds the GIL while it publishes: no deadline is kept meanwhile. A client
    that comes would hold up everybody else's decision. UDP on the loopback knows no such wait.

    With the range LOCALHOST rmw_fastrtps asks for shared memory itself; a profile that does the
    same without it takes the place of the range. What the user has set is left as it is.

    :param environment: of this process; changed in place

    Source: ``SharedMemGlobal::Port::healthy_check``, Fast DDS issue #6535.
    """
    rmw = environment.get('RMW_IMPLEMENTATION') or 'rmw_fastrtps_cpp'
    is_local_by_other_means = environment.get('ROS_LOCALHOST_ONLY') == '1'
    if not rmw.startswith('rmw_fastrtps') or TRANSPORTS in environment or is_local_by_other_means:
        return
    if environment.get(RANGE) != 'LOCALHOST':
        environment[TRANSPORTS] = 'UDPv4'
        return
    profile = shipped_folder('fastdds_localhost.xml')
    is_taken = any(environment.get(name) for name in (*PROFILES_FILES, 'ROS_STATIC_PEERS'))
    # Without the file the range that stands in for LOCALHOST would be heard on the network.
    if not is_taken and profile.is_file():
        environment[RANGE] = 'SYSTEM_DEFAULT'
        environment.update(dict.fromkeys(PROFILES_FILES, str(profile)))
