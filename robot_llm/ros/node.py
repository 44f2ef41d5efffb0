"""The lifecycle node: wires and decides nothing."""

from collections.abc import Callable
from contextlib import ExitStack
import datetime
import os
import signal
import time

from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from robot_llm.core.request import FinishReason
from robot_llm.engine.backend import Backend
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.llama_log import ERROR, LogSink, WARNING
from robot_llm.engine.model import ShouldStop
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.worker import Worker
from robot_llm.errors import ConfigError, EngineHungError, RobotLlmError
from robot_llm.profile_file import check_default_profile, load_profiles
from robot_llm.ros.client_watch import ClientWatch
from robot_llm.ros.dispatcher import Dispatcher
from robot_llm.ros.goal_server import GoalServer
from robot_llm.ros.health import Health
from robot_llm.ros.parameters import (
    declare_parameters, guard_changes, profiles_folder, read_settings, status_lease_s)
from robot_llm.ros.reporter import Reporter
from robot_llm.ros.scene import SceneMonitor
from robot_llm.ros.service import Service
from robot_llm.ros.streamer import Streamer
from robot_llm.ros.token_stream import TokenStream
from robot_llm.settings import Settings

OpenBackend = Callable[[Settings, ShouldStop, LogSink], Backend]


def open_llama_backend(
    settings: Settings, should_stop: ShouldStop, log_sink: LogSink,
) -> LlamaCppBackend:
    """Load the model with llama.cpp, on the cores this process may use."""
    return LlamaCppBackend(
        settings, num_cores=len(os.sched_getaffinity(0)), should_stop=should_stop,
        log_sink=log_sink)


class RobotLlmNode(LifecycleNode):
    """
    One model, one action, a stream of tokens.

    The action server and the health topics live as long as the node; everything else is made at
    configure and freed at cleanup, in reverse order, from every state.

    :param open_backend: makes the model's runtime; tests and fault injection pass another one
    """

    def __init__(self, open_backend: OpenBackend = open_llama_backend) -> None:
        super().__init__('robot_llm')
        declare_parameters(self)
        self._open_backend = open_backend
        self._resources = ExitStack()
        self._service: Service | None = None
        self._opening: Worker | None = None
        self._is_stopping = False
        self._has_left_engine = False
        self.exit_code = 0
        """What the process ends with; 1 if it has to be started again."""
        self._health = Health(self, self._lifecycle_label, status_lease_s(self))
        self._goal_server = GoalServer(self, self._health.note_refusal)
        guard_changes(
            self, lambda: self._service.settings if self._service else None,
            self._apply_settings)

    @property
    def executor_name(self) -> str:
        """Which executor the process asks for; an unknown name is reported at configure."""
        return str(self.get_parameter('executor').value)

    # Lifecycle.

    def autostart(self) -> None:
        """Configure and activate, if the parameter says so; stops at what fails."""
        if self.get_parameter('autostart').value is not True:
            return
        if self.trigger_configure() == TransitionCallbackReturn.SUCCESS:
            self.trigger_activate()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Check everything, load the model, warm it up."""
        started_s = time.monotonic()
        self._health.set_loading()
        try:
            service = self._open_service()
        except RobotLlmError as error:
            self._log_problems('configure', error)
            return self._give_up()
        except Exception as error:  # noqa: B902  rclpy would swallow it without a line
            self.get_logger().fatal(f'configure: {type(error).__name__}: {error}')
            return self._give_up()
        self._service = service
        self._goal_server.attach(service)
        self._health.attach(service)
        info = service.model_info
        self.get_logger().info(
            f'configured in {time.monotonic() - started_s:.2f} s: {info.name} '
            f'{info.quantization} on {info.device}, n_ctx={service.settings.model.n_ctx}, '
            f'profiles {", ".join(sorted(service.profiles))}')
        return TransitionCallbackReturn.SUCCESS

    def _open_service(self) -> Service:
        settings = read_settings(self)
        profiles = load_profiles(profiles_folder(settings), settings.limits)
        check_default_profile(profiles, settings.profiles.default)

        def open_runtime(should_stop: ShouldStop) -> Runtime:
            backend = self._open_backend(settings, should_stop, self._log_llama)
            try:
                return Runtime(backend, settings, profiles, today=datetime.datetime.now(),
                               should_stop=should_stop)
            except BaseException:
                backend.close()
                raise

        worker = Worker(
            open_runtime, lambda event: streamer.put(event), time.monotonic,
            policy=settings.preempt.policy, max_queue=settings.preempt.max_queue,
            heartbeat_s=1.0 / settings.status.rate_hz)
        # Freed from the last line up: the worker ends its goals, the streamer publishes their
        # ends, then the publishers go.
        stream = TokenStream(self, settings)
        self._resources.callback(stream.close)
        reporter = Reporter(
            self, stream, self._goal_server, self._health, self._leave_active)
        streamer = Streamer(reporter, worker.stop, time.monotonic)
        dispatcher = Dispatcher(worker, streamer, settings, time.monotonic)
        scene = SceneMonitor(self, max_bytes=settings.limits.scene_bytes,
                             on_change=dispatcher.change_scene)
        self._resources.callback(scene.close)
        if settings.client.grace_s:
            watch = ClientWatch(self, dispatcher, settings.client.grace_s)
            self._resources.callback(watch.close)
        streamer.open()
        if settings.engine.hang_s:
            streamer.call_every(
                settings.engine.hang_s / 4, lambda: worker.check_progress(settings.engine.hang_s))
        self._resources.callback(streamer.close)
        self._resources.callback(self._close_worker, worker)
        self._opening = worker
        if self._is_stopping:
            worker.close()
        info = worker.open().backend.info
        reporter.service = Service(
            settings, profiles, info, worker, streamer, stream, scene, dispatcher)
        return reporter.service

    def _close_worker(self, worker: Worker) -> None:
        if not worker.close():
            self._has_left_engine = True
            self.get_logger().fatal(
                'the engine does not stop; its thread and its model are left behind, restart '
                'the process')

    def _give_up(self) -> TransitionCallbackReturn:
        self._free()
        return TransitionCallbackReturn.FAILURE

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Accept goals."""
        if self._service is None or self._service.worker.failure is not None:
            self.get_logger().error('activate: the engine is not usable; clean up and configure')
            return TransitionCallbackReturn.FAILURE
        self._service.accepting = True
        self.get_logger().info('active, goals are welcome on ~/generate')
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Refuse new goals and stop the ones that are there; their results follow at once."""
        self._stop_goals()
        self.get_logger().info('inactive')
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free the model; safe from every state."""
        self._free()
        self.get_logger().info('cleaned up, the model is freed')
        return TransitionCallbackReturn.SUCCESS

    on_shutdown = on_error = on_cleanup

    def _stop_goals(self) -> None:
        service = self._service
        if service is None:
            return
        service.accepting = False
        service.dispatcher.stop_all(FinishReason.SHUTDOWN)

    def _free(self) -> None:
        self._stop_goals()
        self._resources.close()
        self._service = self._opening = None
        self._goal_server.attach(None)
        self._health.attach(None)

    # The end of the process; any thread but the executor's.

    def stop(self, timeout_s: float) -> None:
        """
        End every goal and wait until the results have left; the executor still spins.

        A configure that is running gives up as well.

        :param timeout_s: for the results; the engine itself obeys within a decode step
        """
        self._is_stopping = True
        self._stop_goals()
        if self._service is None and self._opening is not None:
            self._opening.close()
        self._goal_server.wait_until_answered(timeout_s)

    def close(self) -> bool:
        """
        Free everything that is left; after the executor has stopped.

        :returns: False if a thread hangs in the engine, so that the process must end hard
        """
        self._free()
        self._goal_server.close()
        self.destroy_node()
        return not self._has_left_engine

    # What others call.

    def _apply_settings(self, settings: Settings) -> None:
        """Let changed live parameters count for the next goal."""
        assert self._service is not None
        self._service.settings = settings
        self._service.worker.set_policy(settings.preempt.policy, settings.preempt.max_queue)
        self._service.dispatcher.settings = settings
        self._service.scene.max_bytes = settings.limits.scene_bytes

    def _leave_active(self, failure: RobotLlmError) -> None:
        """Go inactive because the engine is unusable; any thread."""
        self._health.failure = f'{failure.code.name}: {failure}'
        if self._service is not None and self._service.accepting and self.executor is not None:
            self._service.accepting = False
            self.get_logger().fatal(
                f'the engine is not usable any more: {failure}; clean up and configure again')
            self.executor.create_task(self.trigger_deactivate)
            if self._service.settings.engine.exit_on_hang and isinstance(failure, EngineHungError):
                self.exit_code = 1
                os.kill(os.getpid(), signal.SIGTERM)

    def _lifecycle_label(self) -> str:
        return str(self._state_machine.current_state[1])

    def _log_problems(self, transition: str, error: RobotLlmError) -> None:
        for problem in error.problems if isinstance(error, ConfigError) else (str(error),):
            self.get_logger().error(f'{transition}: {problem}')

    def _log_llama(self, level: int, line: str) -> None:
        """Bring llama.cpp's lines into the node's log; its chatter only at debug level."""
        logger = self.get_logger().get_child('llama_cpp')
        if level >= ERROR:
            logger.error(line)
        elif level >= WARNING:
            logger.warning(line)
        else:
            logger.debug(line)
