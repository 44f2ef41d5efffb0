"""What a configured node serves goals with, and what it must free again."""

from dataclasses import dataclass

from robot_llm.core.forecast import Forecast
from robot_llm.core.peaks import Peaks
from robot_llm.core.request import Request
from robot_llm.core.timing import collect_stats, GenerationStats
from robot_llm.engine.backend import ModelInfo
from robot_llm.engine.worker import Worker
from robot_llm.profile import ResponseProfile
from robot_llm.ros.client_watch import ClientWatch
from robot_llm.ros.dispatcher import Dispatcher
from robot_llm.ros.scene import SceneMonitor
from robot_llm.ros.stall_probe import StallProbe
from robot_llm.ros.streamer import Streamer
from robot_llm.ros.token_stream import TokenStream
from robot_llm.settings import Settings


@dataclass(eq=False, slots=True)
class Service:
    """Everything between configure and cleanup; ``accepting`` between activate and deactivate."""

    settings: Settings
    profiles: dict[str, ResponseProfile]
    model_info: ModelInfo
    worker: Worker
    streamer: Streamer
    stream: TokenStream
    scene: SceneMonitor
    dispatcher: Dispatcher
    forecast: Forecast
    peaks: Peaks
    stall_probe: StallProbe
    client_watch: ClientWatch | None
    """None if ``client.grace_s`` is 0."""
    accepting: bool = False

    def predicted_ttft_s(self, request: Request) -> float:
        """Return how long the decision of a goal will take by what is known now [s]."""
        is_queue = self.settings.preempt.policy == 'queue'
        num_ahead = len(self.dispatcher.requests) if is_queue else 0
        return self.forecast.ttft_s(request, num_ahead=num_ahead)

    def stats_of(self, request: Request) -> GenerationStats:
        """Return the statistics of a finished request, beside what the hardware allows."""
        info, counts = self.model_info, request.counts
        prefill_floor_s, tpot_floor_s = self.peaks.floors(
            info.shape, counts, kv_bytes_per_token=info.kv_bytes_per_token)
        return collect_stats(
            request.clock, request.stop_clock, counts,
            prefill_floor_s=prefill_floor_s, tpot_floor_s=tpot_floor_s)
