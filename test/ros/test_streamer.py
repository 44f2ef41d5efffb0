"""What the streamer publishes, however late its thread comes to it."""

from threading import Event as Flag
import time

from engine_requests import make_profile, make_request
from robot_llm.core.decision import Decision, DecisionSource
from robot_llm.core.event import Decided, Finished, Restarted
from robot_llm.core.request import FinishReason, Scene
from robot_llm.core.session import Output, Session
from robot_llm.ros.streamer import Streamer
from ros_node import TIMEOUT_S


class Collector:
    """A sink that keeps what is published."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self.errors: list[Exception] = []
        self.is_over = Flag()

    def beat(self) -> None:
        return

    def start(self, session: Session) -> None:
        return

    def publish(self, session: Session, output: Output, elapsed_s: float) -> None:
        self.outputs.append(output)

    def finish(self, session: Session) -> None:
        self.is_over.set()

    def report(self, error: Exception) -> None:
        self.errors.append(error)


def test_a_decision_of_the_older_scene_is_never_published_as_the_newer_ones() -> None:
    request = make_request(make_profile('text', text=True))
    request.scene = Scene(1, 'old')
    sink = Collector()
    streamer = Streamer(sink, lambda request, reason: None, time.monotonic)
    streamer.register(request)
    for word in ('continue', 'slow'):
        decision = Decision(word, DecisionSource.MODEL, request.profile.words)
        request.latch.offer(decision)
        streamer.put(Decided(request, decision, 1))
        if word == 'continue':
            assert request.ask_restart(Scene(2, 'new'), 1, time.monotonic())
            assert request.take_restart(time.monotonic())
            streamer.put(Restarted.of(request))
    request.finish(FinishReason.STOP)
    streamer.put(Finished(request))
    streamer.open()  # all of it has happened before the thread comes to any of it
    assert sink.is_over.wait(TIMEOUT_S) and streamer.close()
    assert sink.errors == []
    said = [(output.decision.word, output.scene_epoch)
            for output in sink.outputs if output.decision is not None]
    assert said == [('continue', 1), ('stop', 1), ('slow', 2)]


def test_a_goal_that_has_ended_leaves_no_timer() -> None:
    """Each of its deadlines held prompt, scene and answer until it had passed."""
    streamer = Streamer(Collector(), lambda request, reason: None, time.monotonic)
    profile, far_s, requests = make_profile('text', text=True), time.monotonic() + 3600.0, []
    for number in range(20):
        requests.append(request := make_request(profile))
        request.decision_timeout_s = 3600.0
        request.decision_deadline_s = request.total_deadline_s = far_s
        streamer.register(request)
        if number % 2:
            assert request.ask_restart(Scene(2, 'new'), 1, time.monotonic())
            assert request.take_restart(time.monotonic())
            streamer.put(Restarted.of(request))
    for request in requests[1:]:
        request.finish(FinishReason.STOP)
        streamer.put(Finished(request))
    streamer.call_at(far_s, lambda: None)
    streamer.open()
    assert streamer.close()
    # The decision and the end of the one that goes on, and the timer that is no goal's.
    assert len(streamer._timers) == 3
