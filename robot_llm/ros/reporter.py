"""Where the streamer's output goes: topics, feedback, results, health, one log line per goal."""

from collections.abc import Callable
import time

from rclpy.node import Node
from robot_llm.core.record import record_of
from robot_llm.core.request import Request
from robot_llm.core.session import Output, Session
from robot_llm.core.timing import GenerationStats
from robot_llm.errors import RobotLlmError
from robot_llm.record_file import RecordFile
from robot_llm.ros.goal_server import GoalServer
from robot_llm.ros.health import Health
from robot_llm.ros.service import Service
from robot_llm.ros.token_stream import TokenStream


class Reporter:
    """
    The streamer's sink; every method runs on the streamer's thread.

    :param records: where decided scenes are kept; None keeps none
    :param on_failure: called once the engine has become unusable
    """

    def __init__(
        self, node: Node, stream: TokenStream, goal_server: GoalServer, health: Health,
        records: RecordFile | None, on_failure: Callable[[RobotLlmError], None],
    ) -> None:
        self._node = node
        self._stream = stream
        self._goal_server = goal_server
        self._health = health
        self._records = records
        self._on_failure = on_failure
        self.service: Service | None = None
        """Set once the model is loaded, before the first goal."""

    def beat(self) -> None:
        """Publish the status: silence on its topic means that the engine hangs."""
        if not self._tell_failure():
            self._health.publish_status()

    def start(self, session: Session) -> None:
        """Tell that the engine took a goal up."""
        self._goal_server.start(session)
        self._health.start(session.request)

    def publish(self, session: Session, output: Output, elapsed_s: float) -> None:
        """Publish on the topics, then to the goal's client."""
        for message in self._stream.publish(session, output, elapsed_s):
            self._goal_server.publish_feedback(session, message)

    def finish(self, session: Session) -> None:
        """Send the result, count the goal, write its line."""
        service, request = self.service, session.request
        assert service is not None, 'no goal runs before the model is loaded'
        stats = service.stats_of(request)
        watch = service.client_watch
        is_awaited = watch.presence(request) if watch is not None else lambda: True
        service.dispatcher.forget(request)
        # The result first: nothing that only counts may cost a goal its result.
        self._goal_server.finish(session, stats, is_awaited=is_awaited)
        service.forecast.learn(request, stats)
        self._health.finish(session, stats)
        self._record(session)
        self._node.get_logger().info(goal_line(request, stats))
        self._tell_failure()

    def _tell_failure(self) -> bool:
        """Tell the node if the engine has become unusable; returns whether it has."""
        failure = None if self.service is None else self.service.worker.requests.failure
        if failure is not None:
            self._on_failure(failure)
        return failure is not None

    def _record(self, session: Session) -> None:
        """Keep a decided scene for labelling; a full disk costs the record, not the goal."""
        if self._records is None:
            return
        record = record_of(session.request, session.first_decision, time.time())
        try:
            is_kept = record is None or self._records.append(record)
        except OSError as error:
            self._node.get_logger().warning(
                f'record.path: {error}; the scene is not recorded', throttle_duration_sec=10.0)
            return
        if not is_kept:
            self._node.get_logger().warning(
                'a scene is longer than record.max_bytes and is not recorded',
                throttle_duration_sec=10.0)

    def report(self, error: Exception) -> None:
        """Tell that an output could not be handed over; the next goal is served all the same."""
        self._node.get_logger().error(
            f'publishing failed: {type(error).__name__}: {error}', throttle_duration_sec=1.0)


def goal_line(request: Request, stats: GenerationStats) -> str:
    """Return what the log says of a finished goal: id, decision, reason, counts, seconds."""
    reason = request.finish_reason.name if request.finish_reason is not None else 'UNFINISHED'
    decision = request.latch.standing
    said = f'{decision.word} ({decision.source.name})' if decision else 'no decision'
    line = (
        f'goal {request.request_id.hex()[:8]} {reason}: {said}, '
        f'prompt {stats.num_prompt_tokens} ({stats.num_cached_tokens} cached), '
        f'answer {stats.num_completion_tokens} tokens, ttft {stats.ttft_s:.3f} s, '
        f'e2e {stats.e2e_s:.3f} s')
    if stats.cancel_latency_s:
        line += f', engine idle {stats.cancel_latency_s * 1e3:.1f} ms after the stop'
    return f'{line}; {request.error}' if request.error is not None else line
