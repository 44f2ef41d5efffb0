"""Lifecycle transitions that never raise."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
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
