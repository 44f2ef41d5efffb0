"""The node's messages do not go through Fast DDS's shared memory, unless somebody says so."""

from pathlib import Path

import pytest
from robot_llm.ros.transport import PROFILES_FILES, RANGE, TRANSPORTS, use_udp
from ros_planner import Planner


@pytest.mark.parametrize('environment', [
    {}, {RANGE: 'SUBNET'}, {'RMW_IMPLEMENTATION': 'rmw_fastrtps_cpp'},
    {PROFILES_FILES[0]: '/a/lease.xml'},
])
def test_a_robot_gets_udp(environment: dict[str, str]) -> None:
    before = dict(environment)
    use_udp(environment)
    assert environment == before | {TRANSPORTS: 'UDPv4'}


def test_a_single_machine_gets_a_profile_that_does_the_same_as_its_range() -> None:
    environment = {RANGE: 'LOCALHOST'}
    use_udp(environment)
    assert environment.pop(RANGE) == 'SYSTEM_DEFAULT'
    assert environment.keys() == set(PROFILES_FILES)
    profile, = {Path(path) for path in environment.values()}
    text = profile.read_text()
    assert '<type>UDPv4</type>' in text and '<address>127.0.0.1</address>' in text
    assert '<useBuiltinTransports>false</useBuiltinTransports>' in text


@pytest.mark.parametrize('environment', [
    {TRANSPORTS: 'DEFAULT'},
    {TRANSPORTS: 'DEFAULT', RANGE: 'LOCALHOST'},
    {RANGE: 'LOCALHOST', PROFILES_FILES[0]: '/a/profile.xml'},
    {RANGE: 'LOCALHOST', PROFILES_FILES[1]: '/a/profile.xml'},
    {RANGE: 'LOCALHOST', 'ROS_STATIC_PEERS': '192.0.2.1'},
    {'ROS_LOCALHOST_ONLY': '1'},
    {'RMW_IMPLEMENTATION': 'rmw_cyclonedds_cpp'},
    {'RMW_IMPLEMENTATION': 'rmw_zenoh_cpp', RANGE: 'LOCALHOST'},
])
def test_what_somebody_has_set_stays(environment: dict[str, str]) -> None:
    before = dict(environment)
    use_udp(environment)
    assert environment == before


def test_a_range_is_kept_where_its_profile_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without the profile the range that stands in for it would be heard on the network.
    monkeypatch.setattr('robot_llm.ros.transport.shipped_folder', lambda name: Path('/no', name))
    environment = {RANGE: 'LOCALHOST'}
    use_udp(environment)
    assert environment == {RANGE: 'LOCALHOST'}


def test_a_running_node_has_no_shared_memory_of_fast_dds(planner: Planner) -> None:
    # Symptom: a client that came held every decision up for a third of a second.
    assert planner.answer('say-slow').result.decision == 'slow'
    maps = Path(f'/proc/{planner.node_process.popen.pid}/maps').read_text()
    assert 'python' in maps
    assert '/dev/shm/fast' not in maps
