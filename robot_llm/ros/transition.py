"""Lifecycle transitions that never raise, whoever asks for them."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from robot_llm.errors import ConfigError, RobotLlmError

Transition = Callable[[Any, LifecycleState], TransitionCallbackReturn]


def logged_transition(transition: Transition) -> Transition:
    """
    Turn what a transition callback raises into log lines and FAILURE.

    rclpy swallows the exception without a line, and the node looks as if nothing had happened.
    Every problem of a ``ConfigError`` gets a line of its own.
    """
    @wraps(transition)
    def run(node: Any, state: LifecycleState) -> TransitionCallbackReturn:
        name = transition.__name__.removeprefix('on_')
        try:
            return transition(node, state)
        except RobotLlmError as error:
            problems = error.problems if isinstance(error, ConfigError) else (str(error),)
            for problem in problems:
                node.get_logger().error(f'{name}: {problem}')
        except Exception as error:  # noqa: B902  a bug of ours must be seen, not swallowed
            node.get_logger().fatal(f'{name}: {type(error).__name__}: {error}')
        return TransitionCallbackReturn.FAILURE

    return run


def refuse_illegal_transitions(node: LifecycleNode) -> None:
    """
    Answer a request for a transition that the node's state does not have with "no".

    Call in the node's constructor. rclpy raises there, if the request names the transition by
    number as lifecycle managers do; that would end the executor, and with it the process.
    """
    service = node._service_change_state
    change_state = service.callback

    def guarded(request: Any, response: Any) -> Any:
        try:
            return change_state(request, response)
        except Exception as error:  # noqa: B902  rclpy's RCLError has no public name
            node.get_logger().error(f'transition {request.transition.id} is refused: {error}')
            response.success = False
            return response

    service.callback = guarded


def deactivate(node: LifecycleNode) -> None:
    """Deactivate a node, unless whoever manages it was faster."""
    try:
        node.trigger_deactivate()
    except Exception as error:  # noqa: B902  the same; raised it would end the executor
        node.get_logger().debug(f'not deactivated: {error}')
