"""``~/reload_profiles``: other profiles without a new configure, or the old ones if one is bad."""

from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.task import Future
from robot_llm.engine.runtime import Runtime
from robot_llm.errors import NotActiveError, RobotLlmError
from robot_llm.profile import ResponseProfile
from robot_llm.profile_file import check_default_profile, load_profiles
from robot_llm.ros.parameters import profiles_folder
from robot_llm.ros.service import Service
from std_srvs.srv import Trigger


class ProfileReloader:
    """
    The service of a configured node.

    The files are checked on the executor; the worker then swaps them between two goals. The
    callback is a coroutine: it waits for the worker without holding the executor.

    :param service: returns what the profiles are swapped in
    """

    def __init__(self, node: Node, service: Callable[[], Service | None]) -> None:
        self._node = node
        self._find_service = service
        self._swapping: Future | None = None
        self._server = node.create_service(
            Trigger, '~/reload_profiles', self._reload_callback)

    async def _reload_callback(self, _request: Any, response: Any) -> Any:
        try:
            service = self._find_service()
            assert service is not None, 'the service is closed before it goes'
            settings = service.settings
            profiles = load_profiles(profiles_folder(settings), settings.limits)
            check_default_profile(profiles, settings.profiles.default)
            if (error := await self._swap(service, profiles)) is not None:
                raise error
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
        """Let the worker reload; the future gets what went wrong, or None."""
        future = self._swapping = Future()

        def reload(runtime: Runtime) -> None:
            problem: RobotLlmError | None = None
            try:
                runtime.reload(profiles)
            except RobotLlmError as error:
                problem = error
            future.set_result(problem)
            # A coroutine is resumed when the executor wakes up, and a future wakes nobody.
            if (executor := self._node.executor) is not None:
                executor.create_task(_nothing)

        service.worker.requests.call(reload)
        return future

    def close(self) -> None:
        """Answer who still waits for a worker that has left, and destroy the service."""
        if self._swapping is not None and not self._swapping.done():
            self._swapping.set_result(NotActiveError('the node was cleaned up meanwhile'))
        self._node.destroy_service(self._server)


def _nothing() -> None:
    return
