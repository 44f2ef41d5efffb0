"""Puts a service together at configure, and takes it apart again in reverse order."""

from collections.abc import Callable
from contextlib import ExitStack
import datetime
import math
import os
from pathlib import Path
import time
from typing import Final

from rclpy.node import Node
from robot_llm.cache_folder import CacheFolder, open_cache
from robot_llm.core.forecast import Forecast
from robot_llm.engine.backend import Backend
from robot_llm.engine.device_peaks import keep_peaks, open_peaks
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.llama_log import ERROR, LogSink, WARNING
from robot_llm.engine.model import ShouldStop
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.worker import IDLE_HEARTBEAT_S, Worker
from robot_llm.errors import EngineHungError, RobotLlmError
from robot_llm.profile import ResponseProfile
from robot_llm.profile_file import check_default_profile, load_profiles
from robot_llm.record_file import RecordFile
from robot_llm.ros.client_watch import ClientWatch
from robot_llm.ros.dispatcher import Dispatcher
from robot_llm.ros.goal_server import GoalServer
from robot_llm.ros.health import Health
from robot_llm.ros.parameters import profiles_folder, read_settings
from robot_llm.ros.reporter import Reporter
from robot_llm.ros.scene import LOOK_PERIOD_S, SceneMonitor
from robot_llm.ros.service import Service
from robot_llm.ros.stall_probe import StallProbe
from robot_llm.ros.streamer import Streamer
from robot_llm.ros.token_stream import TokenStream
from robot_llm.settings import Settings

BEATS_PER_LEASE: Final = 3
"""How many signs of life the engine shows within ``status.lease_s`` at least."""

OpenBackend = Callable[[Settings, ShouldStop, LogSink], Backend]


def open_llama_backend(
    settings: Settings, should_stop: ShouldStop, log_sink: LogSink,
) -> LlamaCppBackend:
    """Load the model with llama.cpp, on the cores this process may use."""
    return LlamaCppBackend(
        settings, num_cores=len(os.sched_getaffinity(0)), should_stop=should_stop,
        log_sink=log_sink)


def record_file(settings: Settings) -> RecordFile | None:
    """Return where decided scenes are recorded; None if nowhere."""
    record = settings.record
    if not record.path:
        return None
    return RecordFile(Path(record.path).expanduser(), max_bytes=record.max_bytes,
                      num_old=record.num_old)


class Assembly:
    """
    The parts of one configured node.

    :param open_backend: makes the model's runtime; called on the worker's thread
    :param on_failure: called once the engine has become unusable
    """

    def __init__(
        self, node: Node, goal_server: GoalServer, health: Health, open_backend: OpenBackend,
        on_failure: Callable[[RobotLlmError], None],
    ) -> None:
        self._node = node
        self._goal_server = goal_server
        self._health = health
        self._open_backend = open_backend
        self._on_failure = on_failure
        self._parts = ExitStack()
        self._worker: Worker | None = None
        self._left: list[Worker] = []
        self._must_stop = False

    @property
    def has_left_engine(self) -> bool:
        """A worker that was left behind hangs in the runtime still; the process must end hard."""
        return any(worker.is_alive for worker in self._left)

    def build(self) -> Service:
        """
        Check everything, load the model, warm it up.

        :raises RobotLlmError: with every problem; call ``close`` then as well
        """
        if self.has_left_engine:
            raise EngineHungError(
                'an engine that hangs was left behind in this process with its model; restart the '
                'process')
        settings = read_settings(self._node)
        profiles = load_profiles(profiles_folder(settings), settings.limits)
        check_default_profile(profiles, settings.profiles.default)
        logger = self._node.get_logger()
        folder = open_cache(settings.cache, lambda problem: logger.warning(problem))
        # One that is late, or lost, must not look like a hang.
        longest_s = self._health.lease_s / BEATS_PER_LEASE
        heartbeat_s = min(1.0 / settings.status.rate_hz, longest_s)
        worker = Worker(
            lambda should_stop: self._open_runtime(settings, profiles, folder, should_stop),
            lambda event: streamer.put(event), time.monotonic,
            policy=settings.preempt.policy, max_queue=settings.preempt.max_queue,
            heartbeat_s=heartbeat_s, idle_heartbeat_s=min(IDLE_HEARTBEAT_S, longest_s))
        # Freed from the last line up: the worker ends its goals, the streamer publishes their
        # ends, then the publishers go.
        stream = TokenStream(self._node, settings)
        self._parts.callback(stream.close)
        reporter = Reporter(
            self._node, stream, self._goal_server, self._health, record_file(settings),
            self._on_failure)
        streamer = Streamer(reporter, worker.requests.stop, time.monotonic)
        dispatcher = Dispatcher(worker.requests, streamer, settings, time.monotonic)
        scene = SceneMonitor(
            self._node, max_bytes=settings.limits.scene_bytes,
            max_age_s=lambda: dispatcher.settings.scene.max_age_s, clock=time.monotonic,
            on_change=dispatcher.change_scene, on_doubt=dispatcher.doubt_scene)
        self._parts.callback(scene.close)
        watch = None
        if settings.client.grace_s:
            watch = ClientWatch(self._node, dispatcher, settings.client.grace_s)
            self._parts.callback(watch.close)
        streamer.open()
        self._parts.callback(streamer.close)
        hang_s = settings.engine.hang_s or math.inf
        streamer.call_every(
            min(heartbeat_s / 2, hang_s / 4), lambda: worker.check_progress(hang_s))
        streamer.call_every(LOOK_PERIOD_S, scene.check_age)
        self._parts.callback(self._close_worker, worker)
        self._worker = worker
        if self._must_stop:
            worker.close()
        runtime = worker.open(settings.engine.load_timeout_s)
        backend, peaks = runtime.backend, runtime.peaks
        info = backend.info
        # What the answers until then have raised, so that a measurement on a busy machine heals.
        self._parts.callback(keep_peaks, backend.peaks_key(), peaks, folder)
        if peaks.flops or peaks.bandwidth:
            self._node.get_logger().info(
                f'device: {peaks.flops / 1e9:.3g} GFLOP/s, {peaks.bandwidth / 1e9:.3g} GB/s; the '
                'floors in the statistics follow from these')
        if report := backend.memory_report():
            self._node.get_logger().info(f'memory as planned and as taken:\n{report}')
        if settings.speculation.policy != 'off' and (info.is_recurrent or info.n_swa):
            self._node.get_logger().info(
                'speculation is off: the memory of this model cannot drop guessed tokens')
        probe = StallProbe(self._node, settings.status.stall_probe_hz)
        self._parts.callback(probe.close)
        reporter.service = Service(
            settings, profiles, info, worker, streamer, stream, scene, dispatcher,
            Forecast(), peaks, probe, watch)
        return reporter.service

    def _open_runtime(
        self, settings: Settings, profiles: dict[str, ResponseProfile], folder: CacheFolder,
        should_stop: ShouldStop,
    ) -> Runtime:
        backend = self._open_backend(settings, should_stop, self._log_llama)
        try:
            logger = self._node.get_logger()
            return Runtime(
                backend, settings, profiles, today=datetime.datetime.now(),
                should_stop=should_stop, say=lambda sentence: logger.info(sentence),
                folder=folder, warn=lambda problem: logger.warning(problem),
                peaks=open_peaks(backend, settings.device, folder))
        except BaseException:
            backend.close()
            raise

    def _log_llama(self, level: int, line: str) -> None:
        """Bring llama.cpp's lines into the node's log; its chatter only at debug level."""
        logger = self._node.get_logger().get_child('llama_cpp')
        if level >= ERROR:
            logger.error(line)
        elif level >= WARNING:
            logger.warning(line)
        else:
            logger.debug(line)

    def _close_worker(self, worker: Worker) -> None:
        if not worker.close():
            self._left.append(worker)
            self._node.get_logger().fatal(
                'the engine does not stop; its thread and its model are left behind, restart '
                'the process')

    def stop_engine(self) -> None:
        """Let the engine end what it does, and a build that comes later give up; any thread."""
        self._must_stop = True
        if self._worker is not None:
            self._worker.requests.close()

    def close(self) -> None:
        """Free every part, in reverse order; safe to call twice, and after a failed build."""
        self._parts.close()
        self._worker = None
