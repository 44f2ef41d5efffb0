"""The lifecycle node: wires and decides nothing."""

import os
import signal
import time

from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from robot_llm.core.request import FinishReason
from robot_llm.errors import EngineHungError, NotActiveError, RobotLlmError
from robot_llm.ros.assembly import Assembly, open_llama_backend, OpenBackend
from robot_llm.ros.garbage import spare_what_lives
from robot_llm.ros.goal_server import GoalServer
from robot_llm.ros.health import Health
from robot_llm.ros.parameters import declare_parameters, guard_changes, status_lease_s
from robot_llm.ros.reload import ProfileReloader
from robot_llm.ros.scheduling import schedule
from robot_llm.ros.service import Service
from robot_llm.ros.transition import (
    deactivate, logged_transition, refuse_illegal_transitions)
from robot_llm.settings import Settings


class RobotLlmNode(LifecycleNode):
    """
    One model, one action, a stream of tokens.

    The action server and the health topics live as long as the node; everything else is made at
    configure and freed at cleanup, in reverse order, from every state.

    :param open_backend: makes the model's runtime; tests and fault injection pass another one
    """

    def __init__(self, open_backend: OpenBackend = open_llama_backend) -> None:
        super().__init__('robot_llm')
        refuse_illegal_transitions(self)
        declare_parameters(self)
        self._service: Service | None = None
        self.exit_code = 0
        """What the process ends with; 1 if it has to be started again."""
        self._health = Health(self, self._lifecycle_label, status_lease_s(self))
        self._goal_server = GoalServer(
            self, self._health.note_refusal, self._health.publish_status)
        ProfileReloader(self, lambda: self._service)
        self._assembly = Assembly(
            self, self._goal_server, self._health, open_backend, self._leave_active)
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

    @logged_transition
    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Check everything, load the model, warm it up."""
        started_s = time.monotonic()
        self._health.set_loading()
        try:
            service = self._assembly.build()
        except BaseException as error:
            self._health.set_failed(str(error) or type(error).__name__)
            self._free()
            raise
        self._service = service
        self._goal_server.attach(service)
        self._health.attach(service)
        spare_what_lives()
        info = service.model_info
        self.get_logger().info(
            f'configured in {time.monotonic() - started_s:.2f} s: {info.name} '
            f'{info.quantization} on {info.device}, n_ctx={service.settings.model.n_ctx}, '
            f'profiles {", ".join(sorted(service.profiles))}')
        return TransitionCallbackReturn.SUCCESS

    @logged_transition
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Accept goals."""
        service = self._service
        if service is None:
            raise NotActiveError('the node is not configured')
        # In this order: an engine that fails behind the question finds a node to be deactivated.
        service.accepting = True
        if (failure := service.worker.requests.failure) is not None:
            service.accepting = False
            raise NotActiveError(_advice(failure))
        self.get_logger().info('active, goals are welcome on ~/generate')
        return super().on_activate(state)

    @logged_transition
    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Refuse new goals and stop the ones that are there; their results follow at once."""
        self._stop_goals()
        self.get_logger().info('inactive')
        return super().on_deactivate(state)

    @logged_transition
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
        self._assembly.close()
        self._service = None
        self._goal_server.attach(None)
        self._health.attach(None)
        if self._assembly.has_left_engine:
            self._leave_process()

    # The end of the process; any thread but the executor's.

    def stop(self, timeout_s: float) -> None:
        """
        End every goal and wait until the results have left; the executor still spins.

        A configure or a reload that is running gives up as well, and one that waits is answered.

        :param timeout_s: for the results; the engine itself obeys within a decode step
        """
        self._stop_goals()
        self._assembly.stop_engine()
        self._goal_server.wait_until_answered(timeout_s)

    def close(self) -> bool:
        """
        Free everything that is left; after the executor has stopped.

        :returns: False if a thread hangs in the engine, so that the process must end hard
        """
        self._free()
        self._goal_server.close()
        self.destroy_node()
        return not self._assembly.has_left_engine

    # What others call.

    def _apply_settings(self, settings: Settings) -> None:
        """Let changed live parameters count for the next goal."""
        service = self._service
        assert service is not None, 'guard_changes asks for settings in use first'
        service.settings = service.dispatcher.settings = settings
        service.scene.max_bytes = settings.limits.scene_bytes
        service.worker.set_max_stall(settings.engine.max_stall_s)
        service.worker.requests.set_policy(settings.preempt.policy, settings.preempt.max_queue)

    def _leave_active(self, failure: RobotLlmError) -> None:
        """Go inactive because the engine is unusable; any thread."""
        self._health.set_failed(f'{failure.code.name}: {failure}')
        if (service := self._service) is not None and service.accepting:
            service.accepting = False
            self.get_logger().fatal(_advice(failure))
            schedule(self, lambda: deactivate(self))
        if isinstance(failure, EngineHungError):
            self._leave_process()

    def _leave_process(self) -> None:
        """End the process behind a thread that hangs in the engine, if the parameter says so."""
        if self.exit_code == 0 and self.get_parameter('engine.exit_on_hang').value is True:
            self.exit_code = 1
            os.kill(os.getpid(), signal.SIGTERM)

    def _lifecycle_label(self) -> str:
        """Return the state's name; there is no public way to ask for it."""
        return str(self._state_machine.current_state[1])


def _advice(failure: RobotLlmError) -> str:
    """Say what to do about an engine that failed; one that hung says it itself."""
    said = f'the engine is not usable any more: {failure}'
    is_hung = isinstance(failure, EngineHungError)
    return said if is_hung else f'{said}; clean up and configure again'
