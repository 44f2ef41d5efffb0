"""Status heartbeat, diagnostics."""

from collections import Counter, deque
from collections.abc import Callable
import time
from typing import Final

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
import numpy as np
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import Request, RequestStatus
from robot_llm.core.session import Session
from robot_llm.core.timing import GenerationStats
from robot_llm.ros.service import Service
from robot_llm_msgs.msg import Status
from unique_identifier_msgs.msg import UUID

DIAGNOSTICS_PERIOD_S: Final = 1.0
"""The rate that diagnostic_aggregator and rqt_robot_monitor expect."""

WINDOW: Final = 100
"""How many goals the percentiles look back on."""

STATES: Final = {
    RequestStatus.WAITING: Status.STATE_QUEUED,
    RequestStatus.PREFILL: Status.STATE_PREFILL,
    RequestStatus.DECODE: Status.STATE_DECODE,
    RequestStatus.FINISHED: Status.STATE_STOPPING,
}


def status_qos(lease_s: float) -> QoSProfile:
    """
    Return the quality of service of ``~/status``, for both sides.

    :param lease_s: after this silence the engine counts as hung [s]
    """
    lease = Duration(seconds=lease_s)
    return QoSProfile(
        depth=1, reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL, deadline=lease,
        liveliness=LivelinessPolicy.MANUAL_BY_TOPIC, liveliness_lease_duration=lease)


class Health:
    """
    ``~/status`` and ``/diagnostics``; lives as long as the node.

    The status has no timer of its own: the worker's signs of life publish it, so that its silence,
    which DDS reports as a missed deadline and a lost liveliness, means that the engine hangs.

    :param lease_s: ``status.lease_s``
    :param lifecycle_label: returns the name of the node's lifecycle state
    """

    def __init__(
        self, node: Node, lifecycle_label: Callable[[], str], lease_s: float,
    ) -> None:
        self._node = node
        self._lifecycle_label = lifecycle_label
        self._service: Service | None = None
        self._request: Request | None = None
        self._is_loading = False
        self.failure = ''
        self._last_refusal = ''
        self._num_refused = 0
        self._stats: deque[GenerationStats] = deque(maxlen=WINDOW)
        self._sources: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._status = node.create_publisher(Status, '~/status', status_qos(lease_s))
        self._diagnostics = node.create_publisher(
            DiagnosticArray, '/diagnostics', QoSProfile(depth=10))
        node.create_timer(DIAGNOSTICS_PERIOD_S, self._publish_diagnostics)

    def set_loading(self) -> None:
        """Say that the model is being loaded; the executor is busy with it until it is."""
        self._is_loading, self.failure = True, ''
        self.publish_status()

    def attach(self, service: Service | None) -> None:
        """Report on ``service`` from now on."""
        self._is_loading, self._service, self._request = False, service, None
        self.publish_status()

    def start(self, request: Request) -> None:
        """Report progress of ``request``; the streamer's thread."""
        self._request = request
        self.publish_status()

    def finish(self, session: Session, stats: GenerationStats) -> None:
        """Count a finished goal; the streamer's thread."""
        request = session.request
        if self._request is request:
            self._request = None
        self._stats.append(stats)
        if request.finish_reason is not None:
            self._reasons[request.finish_reason.name] += 1
        if request.latch.standing is not None:
            self._sources[request.latch.standing.source.name] += 1
        self.publish_status()

    def note_refusal(self, reason: str) -> None:
        """Show why the last goal was refused."""
        self._last_refusal = reason
        self._num_refused += 1
        self.publish_status()

    def publish_status(self) -> None:
        """Publish what the engine does now; any thread."""
        self._status.publish(self._status_message())

    def _status_message(self) -> Status:
        service, request = self._service, self._request
        status = Status(
            stamp=self._node.get_clock().now().to_msg(), last_refusal=self._last_refusal)
        if service is not None:
            info = service.model_info
            status.model, status.device = info.name, info.device
            status.queue_length = service.worker.requests.num_waiting
        if self._is_loading:
            status.state = Status.STATE_LOADING
        elif self.failure:
            status.state = Status.STATE_FAILED
        elif service is None:
            status.state = Status.STATE_UNSET
        elif request is not None:
            counts = request.counts
            status.state = (Status.STATE_STOPPING if request.is_stopping
                            else STATES[request.status])
            status.goal_id = UUID(uuid=list(request.request_id))
            status.num_prompt_tokens = counts.num_prompt_tokens
            status.num_cached_tokens = counts.num_cached_tokens
            status.num_prefilled_tokens = counts.num_prefilled_tokens
            status.num_completion_tokens = counts.num_completion_tokens
            status.elapsed_s = request.clock.elapsed_s(time.monotonic())
        else:
            status.state = (Status.STATE_QUEUED if service.worker.requests.num_waiting
                            else Status.STATE_IDLE)
        return status

    def _publish_diagnostics(self) -> None:
        level, summary = self._summary()
        values = dict(self._values())
        self._diagnostics.publish(DiagnosticArray(
            header=_header(self._node),
            status=[DiagnosticStatus(
                level=level, name=f'{self._node.get_fully_qualified_name()}: inference',
                message=summary, hardware_id=values.get('device', ''),
                values=[KeyValue(key=key, value=value) for key, value in values.items()])]))

    def _summary(self) -> tuple[bytes, str]:
        if self.failure:
            return DiagnosticStatus.ERROR, self.failure
        if self._service is None or not self._service.accepting:
            return DiagnosticStatus.WARN, f'not active: {self._lifecycle_label()}'
        return DiagnosticStatus.OK, 'active'

    def _values(self) -> dict[str, str]:
        """Return the figures; one number or word per key, so that nobody parses text."""
        values = {'lifecycle_state': self._lifecycle_label(),
                  'goals_refused': str(self._num_refused), 'last_refusal': self._last_refusal}
        if self._service is not None:
            info = self._service.model_info
            values |= {'model': info.name, 'quantization': info.quantization,
                       'device': info.device,
                       'queue_length': str(self._service.worker.requests.num_waiting)}
        for source in DecisionSource:
            values[f'decisions_{source.name.lower()}'] = str(self._sources[source.name])
        for reason, num_goals in sorted(self._reasons.items()):
            values[f'goals_{reason.lower()}'] = str(num_goals)
        stats = tuple(self._stats)
        if stats:
            for name in ('ttft_s', 'tpot_s', 'cancel_latency_s'):
                figures = [f for f in (getattr(s, name) for s in stats) if f > 0]
                for percentile in (50, 99) if figures else ():
                    values[f'{name[:-2]}_p{percentile}_s'] = (
                        f'{np.percentile(figures, percentile):.6f}')
            prompt = sum(s.num_prompt_tokens for s in stats)
            cached = sum(s.num_cached_tokens for s in stats)
            values['cached_token_rate'] = f'{cached / prompt if prompt else 0.0:.4f}'
            values['wasted_tokens'] = str(sum(s.num_wasted_tokens for s in stats))
        return values


def _header(node: Node) -> object:
    return DiagnosticArray().header.__class__(stamp=node.get_clock().now().to_msg())
