"""``~/reload_profiles``: other profiles without a new configure, or the old ones if one is bad."""

from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.task import Future
from robot_llm.engine.command_queue import Command
from robot_llm.errors import NotActiveError, RobotLlmError
from robot_llm.profile import ResponseProfile
from robot_llm.profile_file import check_default_profile, load_profiles
from robot_llm.ros.parameters import profiles_folder
from robot_llm.ros.scheduling import schedule
from robot_llm.ros.service import Service
from std_srvs.srv import Trigger


class ProfileReloader:
    """
    The service; lives as long as the node, so that no answer is left without a server.

    The files are checked on the executor; the worker then swaps them between two goals. The
    callback is a coroutine: it waits for the worker without holding the executor. It has a
    callback group of its own, which rclpy holds for as long as it waits: in the node's own one
    no cancel and no scene would come through until the running goal is over.

    :param service: returns what the profiles are swapped in; None while nothing is configured
    """

    def __init__(self, node: Node, service: Callable[[], Service | None]) -> None:
        self._node = node
        self._find_service = service
        self._server = node.create_service(
            Trigger, '~/reload_profiles', self._reload_callback,
            callback_group=MutuallyExclusiveCallbackGroup())

    async def _reload_callback(self, _request: Any, response: Any) -> Any:
        try:
            if (service := self._find_service()) is None:
                raise NotActiveError('the node is not configured; configure reads the profiles')
            settings = service.settings
            profiles = load_profiles(profiles_folder(settings), settings.limits)
            check_default_profile(profiles, settings.profiles.default)
            if (problem := await self._swap(service, profiles)) is not None:
                raise problem
            service.profiles = profiles
            response.success = True
            response.message = f'profiles {", ".join(sorted(profiles))}'
            self._node.get_logger().info(f'reloaded: {response.message}')
        except RobotLlmError as error:
            response.success = False
            response.message = f'the old profiles stay: {error}'
            self._node.get_logger().error(f'reload refused, {response.message}')
        return response

    def _swap(self, service: Service, profiles: dict[str, ResponseProfile]) -> Future:
        """
        Let the worker reload; the future gets what went wrong, or None.

        :raises EngineError: if the engine is no longer usable
        """
        future = Future()

        def answer(problem: RobotLlmError | None) -> None:
            future.set_result(problem)
            # A future that is done does not wake the executor, which resumes the coroutine.
            schedule(self._node, lambda: None)

        service.worker.requests.call(
            Command(lambda runtime: runtime.reload(profiles), answer))
        return future
