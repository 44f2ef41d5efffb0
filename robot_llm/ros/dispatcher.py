"""What becomes of a request: it runs, waits for its scene, or ends because the scene moved on."""

from collections.abc import Callable
from threading import Lock

from robot_llm.core.request import FinishReason, Request, Scene
from robot_llm.engine.request_queue import RequestQueue
from robot_llm.errors import MalformedFieldError, RobotLlmError, SceneMissingError
from robot_llm.ros.streamer import Streamer
from robot_llm.settings import Settings


def _ignore(_request: Request) -> None:
    return


class Dispatcher:
    """
    The way of a request into the worker, and out of it when the scene changes.

    A goal may name a scene that is still on its way, since topics and actions race each other;
    it is held for ``scene.wait_s`` at most. Any thread may call; nothing blocks.
    """

    def __init__(
        self, requests: RequestQueue, streamer: Streamer, settings: Settings,
        clock: Callable[[], float],
    ) -> None:
        self._requests = requests
        self._streamer = streamer
        self.settings = settings
        """``preempt.*`` and ``scene.*`` are read anew for every goal."""
        self._clock = clock
        self.on_dispatch: Callable[[Request], None] = _ignore
        """Told of every request, on the executor, before it runs."""
        self._lock = Lock()
        self._open: set[Request] = set()
        self._held: set[Request] = set()

    @property
    def requests(self) -> tuple[Request, ...]:
        """Every request that has not ended."""
        with self._lock:
            return tuple(self._open)

    def dispatch(self, request: Request, scene: Scene, *, is_scene_expected: bool) -> None:
        """
        Start a request's life: its session, its deadlines, its place in the queue.

        :param request: WAITING, bound to an epoch
        :param scene: the current one; epoch 0 before the first
        :param is_scene_expected: False if the robot publishes none: nothing is waited for
        """
        self._streamer.register(request)
        self.on_dispatch(request)
        is_early = is_scene_expected and request.scene.epoch > scene.epoch
        with self._lock:
            self._open.add(request)
            if is_early:
                self._held.add(request)
        if request.scene.epoch < scene.epoch:
            self._requests.stop(request, FinishReason.SCENE_CHANGED)
        elif is_early:
            self._streamer.call_at(
                self._clock() + self.settings.scene.wait_s, lambda: self._give_up(request))
        else:
            self._submit(request)

    def _submit(self, request: Request) -> None:
        if self.settings.preempt.policy == 'newest_wins':
            for held in self._take_held(lambda _: True):
                self._requests.stop(held, FinishReason.PREEMPTED)
        try:
            self._requests.submit(request)
        except RobotLlmError as error:
            self._requests.stop(request, FinishReason.ERROR, error=error)

    def _give_up(self, request: Request) -> None:
        for late in self._take_held(lambda held: held is request):
            self._requests.stop(late, FinishReason.SCENE_CHANGED, error=SceneMissingError(
                late.scene.epoch, self.settings.scene.wait_s))

    def _take_held(self, is_wanted: Callable[[Request], bool]) -> list[Request]:
        """Let go of the held requests that are wanted; whoever gets one ends or starts it."""
        with self._lock:
            wanted = [request for request in self._held if is_wanted(request)]
            self._held.difference_update(wanted)
            return wanted

    def change_scene(self, scene: Scene, problem: str = '') -> None:
        """
        End the requests of older scenes, start those that waited for this one.

        :param problem: why nobody can be served on this scene; empty if it is usable
        """
        with self._lock:
            stale = [request for request in self._open if request.scene.epoch < scene.epoch]
            held = self._held.intersection(stale)
            self._held -= held
        for request in stale:
            if not self._restart(request, scene, is_usable=not problem):
                self._requests.stop(request, FinishReason.SCENE_CHANGED)
            elif request in held:
                self._submit(request)
        for request in self._take_held(lambda held: held.scene.epoch == scene.epoch):
            if problem:
                self._requests.stop(
                    request, FinishReason.ERROR, error=MalformedFieldError(problem))
                continue
            request.scene = scene
            self._submit(request)

    def _restart(self, request: Request, scene: Scene, *, is_usable: bool) -> bool:
        """Start a request of an older scene again, if the policy says so and it still may."""
        policy = self.settings.scene
        return policy.policy == 'restart' and is_usable and self._requests.restart(
            request, scene, policy.max_restarts)

    def stop(
        self, request: Request, reason: FinishReason, error: RobotLlmError | None = None,
    ) -> None:
        """End one request, wherever it stands."""
        self._take_held(lambda held: held is request)
        self._requests.stop(request, reason, error=error)

    def stop_all(self, reason: FinishReason) -> None:
        """End every request that has not ended."""
        for request in self.requests:
            self.stop(request, reason)

    def forget(self, request: Request) -> None:
        """Drop a finished request."""
        with self._lock:
            self._open.discard(request)
            # A deadline ends a held one too, and its scene may still come: it must not start.
            self._held.discard(request)
