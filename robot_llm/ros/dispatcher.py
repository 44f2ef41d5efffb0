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

    A goal may be bound to a scene that is still on its way, since topics and actions race each
    other; it is held for ``scene.wait_s`` at most, and counts as waiting. Any thread may call;
    nothing blocks.
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
        # In the order of their arrival, which is that in which they run.
        self._open: dict[Request, None] = {}
        self._held: dict[Request, None] = {}

    @property
    def requests(self) -> tuple[Request, ...]:
        """Every request that has not ended."""
        with self._lock:
            return tuple(self._open)

    @property
    def num_waiting(self) -> int:
        """How many requests wait, for the engine or for their scene."""
        with self._lock:
            return len(self._held) + self._requests.num_waiting

    def check_capacity(self) -> None:
        """
        Refuse a request for which there is no place now.

        :raises RobotLlmError: if the policy leaves none, or the engine is not usable
        """
        with self._lock:
            num_held = len(self._held)
        self._requests.check_capacity(num_held)

    def dispatch(
        self, request: Request, scene: Scene, *, is_scene_awaited: bool = False, doubt: str = '',
    ) -> None:
        """
        Start a request's life: its session, its deadlines, its place in the queue.

        :param request: WAITING, bound to an epoch; 0 binds it to the first scene, if one is
            awaited, and otherwise to none
        :param scene: the current one; epoch 0 before the first
        :param is_scene_awaited: the first scene is still to come
        :param doubt: why nothing can be decided on the current scene; empty if it can
        """
        self._streamer.register(request)
        self.on_dispatch(request)
        is_early = is_scene_awaited or request.scene.epoch > scene.epoch
        if is_early:
            self._preempt_held()
        with self._lock:
            self._open[request] = None
            if is_early:
                self._held[request] = None
        if request.scene.epoch < scene.epoch:
            self._requests.stop(request, FinishReason.SCENE_CHANGED)
        elif is_early:
            self._streamer.call_at(
                self._clock() + self.settings.scene.wait_s, lambda: self._give_up(request))
        elif doubt:
            self._stop_in_doubt(request, doubt)
        else:
            self._submit(request)

    def _submit(self, request: Request) -> None:
        self._preempt_held()
        try:
            self._requests.submit(request)
        except RobotLlmError as error:
            self._requests.stop(request, FinishReason.ERROR, error=error)

    def _preempt_held(self) -> None:
        if self.settings.preempt.policy == 'newest_wins':
            for held in self._take_held(lambda _: True):
                self._requests.stop(held, FinishReason.PREEMPTED)

    def _give_up(self, request: Request) -> None:
        for late in self._take_held(lambda held: held is request):
            wait_s, epoch = self.settings.scene.wait_s, late.scene.epoch
            self._requests.stop(late, FinishReason.SCENE_CHANGED, error=SceneMissingError(
                f'scene_epoch={epoch} did not arrive on ~/scene within scene.wait_s={wait_s} s; '
                'publish the scene before the goal, or send 0 for the current one' if epoch else
                f'no scene arrived on ~/scene within scene.wait_s={wait_s} s, though it has a '
                'publisher; let that repeat its scene, reliably, so that a node started later '
                'hears of it'))

    def _take_held(self, is_wanted: Callable[[Request], bool]) -> list[Request]:
        """Let go of the held requests that are wanted; whoever gets one ends or starts it."""
        with self._lock:
            wanted = [request for request in self._held if is_wanted(request)]
            for request in wanted:
                del self._held[request]
            return wanted

    def change_scene(self, scene: Scene, problem: str = '') -> None:
        """
        End the requests of older scenes, start those that waited for this one.

        :param problem: why nobody can be served on this scene; empty if it is usable
        """
        with self._lock:
            # One that is held without a scene has waited for this one.
            stale = [request for request in self._open if request.scene.epoch < scene.epoch
                     and (request.scene.epoch or request not in self._held)]
            held = [request for request in stale if request in self._held]
            for request in held:
                del self._held[request]
        for request in stale:
            if not self._restart(request, scene, is_usable=not problem):
                self._requests.stop(request, FinishReason.SCENE_CHANGED)
            elif request in held:
                self._submit(request)
        for request in self._take_held(lambda held: held.scene.epoch in (0, scene.epoch)):
            if problem:
                self._requests.stop(
                    request, FinishReason.ERROR, error=MalformedFieldError(problem))
                continue
            if not request.scene.epoch:
                self._streamer.bind_scene(request, scene.epoch)
            request.scene = scene
            self._submit(request)

    def doubt_scene(self, epoch: int, doubt: str) -> None:
        """End the requests of a scene that nobody vouches for any more, and of older ones."""
        for request in self.requests:
            if 0 < request.scene.epoch <= epoch:
                self._stop_in_doubt(request, doubt)

    def _stop_in_doubt(self, request: Request, doubt: str) -> None:
        self._requests.stop(
            request, FinishReason.SCENE_CHANGED, error=SceneMissingError(doubt))

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
            self._open.pop(request, None)
            # A deadline ends a held one too, and its scene may still come: it must not start.
            self._held.pop(request, None)
