"""The README's table of interfaces and docs/contract.md say the quality of service of the code."""

import re
from typing import Any

from documents import block, README, ROOT, rows
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from robot_llm.ros.action_server import BURST, RESULT_TIMEOUT_S
from robot_llm.ros.health import Health
from robot_llm.ros.scene import SceneMonitor
from robot_llm.ros.token_stream import TokenStream
from robot_llm.settings import Settings

SETTINGS = Settings()


class OpenedTopics(dict[str, QoSProfile]):
    """A node that opens nothing and notes the quality of service of what it is asked for."""

    def create_publisher(self, _type: Any, name: str, qos: QoSProfile) -> None:
        """Note a topic that is published."""
        self[name] = qos

    def create_subscription(self, _type: Any, name: str, _callback: Any, qos: QoSProfile) -> None:
        """Note a topic that is subscribed to."""
        self[name] = qos

    def create_service(self, *_arguments: Any) -> None:
        """Open a service as rclpy's default has it."""

    def create_timer(self, *_arguments: Any, **_keywords: Any) -> None:
        """Run nothing."""


def documented() -> dict[str, str]:
    """Return the QoS column by name, with the defaults in place of the parameters."""
    def default(match: re.Match[str]) -> str:
        return f'{getattr(getattr(SETTINGS, match[1]), match[2]):g}'

    return {row[0].strip('`'): re.sub(r'`(\w+)\.(\w+)`', default, row[3])
            for row in rows(block(README, 'interfaces'))}


def described(qos: QoSProfile) -> str:
    """Return the words for it that the table uses for every topic."""
    reliability = {ReliabilityPolicy.RELIABLE: 'reliable',
                   ReliabilityPolicy.SYSTEM_DEFAULT: 'reliable'}[qos.reliability]
    durability = {DurabilityPolicy.TRANSIENT_LOCAL: 'transient local',
                  DurabilityPolicy.VOLATILE: 'volatile',
                  DurabilityPolicy.SYSTEM_DEFAULT: 'volatile'}[qos.durability]
    return f'{reliability}, {durability}, depth {qos.depth}'


def test_the_table_says_what_every_topic_has() -> None:
    topics = OpenedTopics()
    TokenStream(topics, SETTINGS)
    Health(topics, lambda: 'active', SETTINGS.status.lease_s)
    SceneMonitor(topics, max_bytes=1, max_age_s=lambda: 0.0, clock=lambda: 0.0,
                 on_change=lambda *_: None, on_doubt=lambda *_: None)
    table = documented()
    assert {'~/tokens', '~/decision', '~/status', '~/scene', '/diagnostics'} == topics.keys()
    for name, qos in topics.items():
        assert table[name].startswith(described(qos)), name
    seconds = {name: qos.nanoseconds / 1e9 for name, qos in (
        ('lifespan', topics['~/decision'].lifespan), ('deadline', topics['~/status'].deadline),
        ('lease', topics['~/status'].liveliness_lease_duration))}
    assert f'lifespan {seconds["lifespan"]:g}' in table['~/decision']
    assert f'deadline and liveliness lease {seconds["deadline"]:g}' in table['~/status']
    assert seconds['lease'] == seconds['deadline']


def test_the_documents_say_how_much_the_action_keeps() -> None:
    cell = documented()['~/generate']
    assert f'services {described(BURST)};' in cell
    assert f'kept for {RESULT_TIMEOUT_S} s' in cell
    contract = (ROOT / 'docs' / 'contract.md').read_text(encoding='utf-8')
    assert f'its action keeps {BURST.depth} goals' in contract
    assert f'The result is kept for {RESULT_TIMEOUT_S} s' in contract
