"""The node as it is on a robot, but that it can keep a goal's tokens back until the goal's end."""

from collections.abc import Callable, Sequence
from typing import Final

from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from robot_llm.core.event import Alive, Delta, Event, Finished, Started
from robot_llm.core.request import Request
from robot_llm.ros.main import run
from robot_llm.ros.node import RobotLlmNode

PUBLISHES: Final = 'bench.publishes'
"""The parameter that is read when the engine takes a goal up."""


class Hold:
    """
    Stands between the worker and the streamer.

    While a goal is held nobody but the worker has anything to do for it: what its tokens take is
    what the engine takes, in the very process, context and memory of the goals that are published.
    The held tokens follow as one message, so that the node's statistics count alike.

    :param put: where the events go
    :param must_publish: asked once for every goal
    """

    def __init__(
        self, put: Callable[[Event], None], must_publish: Callable[[], bool],
    ) -> None:
        self._put = put
        self._must_publish = must_publish
        self._held: dict[Request, list[Delta]] = {}

    def put(self, event: Event) -> None:
        """Pass an event on, unless it has to wait."""
        match event:
            case Started(request) if not self._must_publish():
                self._held[request] = []
            case Delta(request) if request in self._held:
                self._held[request].append(event)
                return
            case Alive() if self._held:
                return
            case Finished(request) if deltas := self._held.pop(request, []):
                self._put(Delta(request, ''.join(delta.text for delta in deltas),
                                sum(delta.num_tokens for delta in deltas)))
        self._put(event)


class QuietNode(RobotLlmNode):
    """The node of the benchmark; ``bench.publishes`` is the one parameter more."""

    def __init__(self) -> None:
        super().__init__()
        self.declare_parameter(PUBLISHES, True)

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Configure, and put the hold in front of the streamer."""
        outcome = super().on_configure(state)
        if self._service is not None:
            streamer = self._service.streamer
            hold = Hold(streamer.put, lambda: bool(self.get_parameter(PUBLISHES).value))
            setattr(streamer, 'put', hold.put)  # noqa: B010  the worker looks it up every time
        return outcome


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; the benchmark starts it."""
    return run(QuietNode, args)


if __name__ == '__main__':
    raise SystemExit(main())
