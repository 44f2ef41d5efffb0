"""What the end of the publishers waits for."""

from types import SimpleNamespace
from typing import Any

from robot_llm.ros import token_stream
from robot_llm.ros.token_stream import TokenStream
from robot_llm.settings import Settings


class StandingStill:
    """A node, and publishers whose subscribers acknowledge nothing."""

    def __init__(self, clock: list[float]) -> None:
        self.calls: list[tuple[str, str, float]] = []
        self._clock = clock

    def create_publisher(self, _kind: type, topic: str, _qos: Any) -> Any:
        def wait(timeout: Any) -> bool:
            timeout_s = timeout.nanoseconds / 1e9
            self.calls.append(('wait', topic, timeout_s))
            self._clock[0] += timeout_s
            return False
        return SimpleNamespace(topic=topic, wait_for_all_acked=wait)

    def create_service(self, *_: Any) -> None:
        return None

    def destroy_service(self, _service: None) -> None:
        return

    def destroy_publisher(self, publisher: Any) -> None:
        self.calls.append(('destroy', publisher.topic, 0.0))


def test_the_last_decision_is_waited_for_first_and_both_within_one_budget(monkeypatch) -> None:
    """A fallback whose datagram was lost is repeated only while its publisher lives."""
    clock = [5.0]
    monkeypatch.setattr(token_stream.time, 'monotonic', lambda: clock[0])
    node = StandingStill(clock)
    TokenStream(node, Settings()).close()
    monkeypatch.undo()
    assert [call[:2] for call in node.calls] == [
        ('wait', '~/decision'), ('wait', '~/tokens'),
        ('destroy', '~/decision'), ('destroy', '~/tokens')]
    waits_s = [call[2] for call in node.calls[:2]]
    assert min(waits_s) >= 0.0, 'a wait for less than nothing is one for ever'
    assert sum(waits_s) == token_stream.ACK_TIMEOUT_S
