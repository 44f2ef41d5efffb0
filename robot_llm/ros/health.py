"""Status heartbeat, diagnostics."""

from collections.abc import Callable, Mapping
import os
from pathlib import Path
import time
from typing import Final

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy
from robot_llm.core.request import Request, RequestStatus
from robot_llm.core.session import Session
from robot_llm.core.tally import Tally
from robot_llm.core.timing import GenerationStats
from robot_llm.ros.service import Service
from robot_llm.ros.steady_timer import create_steady_timer
from robot_llm_msgs.msg import Status
from std_msgs.msg import Header
from unique_identifier_msgs.msg import UUID

DIAGNOSTICS_PERIOD_S: Final = 1.0
"""The rate that diagnostic_aggregator and rqt_robot_monitor expect."""

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
        self._failure = ''
        self._last_refusal = ''
        self._num_refused = 0
        self._tally = Tally()
        self.lease_s = lease_s
        """What is offered on ``~/status``; a publisher keeps it for life."""
        self._status = node.create_publisher(Status, '~/status', status_qos(lease_s))
        self._diagnostics = node.create_publisher(
            DiagnosticArray, '/diagnostics', QoSProfile(depth=10))
        create_steady_timer(node, DIAGNOSTICS_PERIOD_S, self._publish_diagnostics)

    def set_loading(self) -> None:
        """Say that the model is being loaded; the executor is busy with it until it is."""
        self._is_loading, self._failure = True, ''
        self.publish_status()

    def set_failed(self, failure: str) -> None:
        """Say that the engine is not usable any more; no heartbeat of its will say so."""
        self._failure = failure
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
        self._tally.learn(request, stats)
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
            stamp=self._node.get_clock().now().to_msg(), last_refusal=self._last_refusal,
            failure=self._failure)
        if service is not None:
            info = service.model_info
            status.model, status.device = info.name, info.device
            status.queue_length = service.dispatcher.num_waiting
        if self._is_loading:
            status.state = Status.STATE_LOADING
        elif self._failure:
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
            status.state = (Status.STATE_QUEUED if service.dispatcher.num_waiting
                            else Status.STATE_IDLE)
        return status

    def _publish_diagnostics(self) -> None:
        level, summary = self._summary()
        values = self._values()
        self._diagnostics.publish(DiagnosticArray(
            header=Header(stamp=self._node.get_clock().now().to_msg()),
            status=[DiagnosticStatus(
                level=level, name=f'{self._node.get_fully_qualified_name()}: inference',
                message=summary, hardware_id=values.get('device', ''),
                values=[KeyValue(key=key, value=value) for key, value in values.items()])]))

    def _summary(self) -> tuple[bytes, str]:
        """Return the level and its reason."""
        service = self._service
        if self._failure:
            return DiagnosticStatus.ERROR, self._failure
        if service is None or not service.accepting:
            return DiagnosticStatus.WARN, f'not active: {self._lifecycle_label()}'
        if problem := service.scene.problem:
            return DiagnosticStatus.WARN, problem
        return DiagnosticStatus.OK, 'active'

    def _values(self) -> dict[str, str]:
        """Return the figures; one number or word per key, so that nobody parses text."""
        values = {'lifecycle_state': self._lifecycle_label(),
                  'goals_refused': str(self._num_refused), 'last_refusal': self._last_refusal,
                  'memory_rss_bytes': str(rss_bytes())}
        if (service := self._service) is not None:
            info = service.model_info
            n_ctx, num_kv_tokens = service.settings.model.n_ctx, service.worker.num_kv_tokens
            values |= {'model': info.name, 'quantization': info.quantization,
                       'device': info.device, 'layers': str(info.num_layers),
                       'gpu_layers': str(info.num_gpu_layers), 'n_ctx': str(n_ctx),
                       'kv_tokens': str(num_kv_tokens), 'kv_use': f'{num_kv_tokens / n_ctx:.6f}',
                       'queue_length': str(service.dispatcher.num_waiting),
                       'scenes_ignored': str(service.scene.num_ignored)}
            values |= _texts(service.stall_probe.figures())
        return values | _texts(self._tally.figures())


def _texts(figures: Mapping[str, int | float]) -> dict[str, str]:
    return {key: str(figure) if isinstance(figure, int) else f'{figure:.6f}'
            for key, figure in figures.items()}


def rss_bytes(statm: Path = Path('/proc/self/statm')) -> int:
    """Return the resident memory of this process [bytes]; 0 where nobody says."""
    try:
        return int(statm.read_text().split()[1]) * os.sysconf('SC_PAGE_SIZE')
    except OSError:
        return 0
