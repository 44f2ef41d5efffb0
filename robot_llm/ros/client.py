"""A planner's side of the action: send a goal, follow its stream, cancel it, take its result."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Condition, Thread
import time
from typing import Final
import uuid

import rclpy
from rclpy.action import ActionClient
from rclpy.context import Context
from rclpy.duration import Duration
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from robot_llm.ros.action_server import BURST
from robot_llm.ros.answer import Answer, TokenCallback
from robot_llm.ros.token_stream import DECISION_DEPTH
from robot_llm_msgs.action import Generate
from robot_llm_msgs.msg import Decision, Scene, Status, Token
from unique_identifier_msgs.msg import UUID

STREAM_DEPTH: Final = 1024
"""The node's default ``topics.token_depth``: a slow reader keeps a whole answer."""

DECISION_LIFESPAN_S: Final = 1.0
"""
The node's default ``topics.decision_lifespan_s``.

Fast DDS hands a decision that has waited in the subscriber's own history to its callback however
old it is, unless the subscriber has a lifespan too.
"""


LISTEN_TIMEOUT_S: Final = 5.0
"""How long the first scene waits for the node's subscription; DDS tells within milliseconds."""

KEPT_ANSWERS: Final = 64
"""How many goals, the newest, still hear of a decision that falls behind their end."""


class Client:
    """
    A node of its own that spins on a thread of its own; use it as a context manager.

    :param server: fully qualified name of the inference node
    :param name: name of this node; goals carry it, so that the server knows who left
    :param decision_lifespan_s: a decision that is older when it is taken is not delivered [s]
    """

    def __init__(
        self, server: str = '/robot_llm', *, name: str = 'robot_llm_client',
        decision_lifespan_s: float = DECISION_LIFESPAN_S,
    ) -> None:
        self._context = Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self.node: Node = rclpy.create_node(name, context=self._context)
        self._action = ActionClient(
            self.node, Generate, f'{server}/generate', goal_service_qos_profile=BURST,
            result_service_qos_profile=BURST, cancel_service_qos_profile=BURST)
        self._answers: dict[bytes, Answer] = {}
        self._changed = Condition()
        self._is_closing = False
        self._outbox: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self.status: Status | None = None
        self._scene_topic = f'{server}/scene'
        self._scene: Publisher | None = None
        stream = QoSProfile(
            depth=STREAM_DEPTH, reliability=ReliabilityPolicy.RELIABLE,
            durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.node.create_subscription(Token, f'{server}/tokens', self._token_callback, stream)
        decisions = QoSProfile(
            depth=DECISION_DEPTH, reliability=ReliabilityPolicy.RELIABLE,
            lifespan=Duration(seconds=decision_lifespan_s))
        self._decisions = self.node.create_subscription(
            Decision, f'{server}/decision', self._decision_callback, decisions)
        self.node.create_subscription(
            Status, f'{server}/status', self._status_callback,
            QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._spinner = Thread(target=self._spin, name='robot_llm_client_spin')
        self._spinner.start()

    def __enter__(self) -> 'Client':
        """Return itself."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close."""
        self.close()

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except ExternalShutdownException:
            return
        except Exception:  # noqa: B902  rclpy's callback may still wake the executor it left
            if not self._is_closing:
                raise

    def close(self) -> None:
        """Stop spinning, join, leave the graph."""
        self._is_closing = True
        self._executor.shutdown()
        self._spinner.join()
        self._action.destroy()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)

    def wait_until_ready(self, timeout_s: float, *, or_failed: bool = False) -> bool:
        """
        Wait until the node is active and every topic is connected; False if time runs out.

        :param or_failed: do not wait on for a node that says it has failed; ``failure`` tells why
        """
        def is_ready() -> bool:
            return (self.status is not None
                    and self.status.state not in (
                        Status.STATE_UNSET, Status.STATE_LOADING, Status.STATE_FAILED)
                    and self._action.server_is_ready()
                    and self.node.count_publishers(self._decisions.topic_name) > 0)

        with self._changed:
            # Discovery has no callback: look again with every heartbeat, and in between.
            end_s = time.monotonic() + timeout_s
            while not is_ready():
                if time.monotonic() > end_s or (or_failed and self.failure):
                    return False
                self._changed.wait(0.05)
            return True

    @property
    def failure(self) -> str:
        """Why the node is not usable, as its status says; empty if it does not say so."""
        return self.status.failure if self.status is not None else ''

    @property
    def is_node_present(self) -> bool:
        """The node is in the graph; DDS notices one that was killed after its lease."""
        return self._action.server_is_ready()

    @property
    def refusal(self) -> str:
        """Why the node refused a goal last, as its status says; empty if it did not."""
        return self.status.last_refusal if self.status is not None else ''

    def publish_scene(self, epoch: int, description: str) -> None:
        """
        Tell the node what the robot sees; a higher epoch ends the goals of older ones.

        The first call waits until the node listens, ``LISTEN_TIMEOUT_S`` at most.
        """
        if self._scene is None:
            # Not before: a node that sees a publisher awaits its scene, for every goal.
            self._scene = self.node.create_publisher(Scene, self._scene_topic, 1)
            end_s = time.monotonic() + LISTEN_TIMEOUT_S
            while not self._scene.get_subscription_count() and time.monotonic() < end_s:
                time.sleep(0.01)
        self._scene.publish(Scene(
            stamp=self.node.get_clock().now().to_msg(), epoch=epoch, description=description))

    def send(self, goal: Generate.Goal, *, on_token: TokenCallback | None = None) -> Answer:
        """
        Send a goal; returns at once.

        :param goal: its ``client`` is filled in with this node's name
        :param on_token: called on the spin thread with each message of the stream
        """
        goal.client = self.node.get_fully_qualified_name()
        goal_id = uuid.uuid4().bytes
        self._forget_old()
        answer = self._answers[goal_id] = Answer(goal_id, on_token, self._call_soon)

        # rclpy notes a request after it has sent it: from another thread than the one that spins,
        # a node that answers in between is not heard, and the goal would be waited for for ever.
        def send() -> None:
            try:
                self._action.send_goal_async(
                    goal, goal_uuid=UUID(uuid=list(goal_id))).add_done_callback(answer.on_accepted)
            except Exception as error:  # noqa: B902  raised here it would end the spin thread
                answer.fail(f'the goal cannot be sent: {error}')

        self._call_soon(send)
        return answer

    def _call_soon(self, callback: Callable[[], object]) -> None:
        """
        Let the spin thread call something, in the order in which this was asked for.

        rclpy takes the newest of its tasks first: of two goals the older one would come last, and
        by ``newest_wins`` take the place of the newer.
        """
        self._outbox.put(callback)
        self._executor.create_task(lambda: self._outbox.get_nowait()())

    def _forget_old(self) -> None:
        """Keep no more than the newest finished goals: a planner may live for months."""
        for goal_id, answer in list(self._answers.items())[:-KEPT_ANSWERS]:
            if answer.is_over or answer.result is not None:
                del self._answers[goal_id]

    def _token_callback(self, token: Token) -> None:
        if answer := self._answers.get(bytes(token.goal_id.uuid)):
            answer.add_token(token)

    def _decision_callback(self, decision: Decision) -> None:
        if answer := self._answers.get(bytes(decision.goal_id.uuid)):
            answer.add_decision(decision)

    def _status_callback(self, status: Status) -> None:
        with self._changed:
            self.status = status
            self._changed.notify_all()
