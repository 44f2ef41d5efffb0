"""The process: one node, one executor on its own thread, signals in the main thread."""

from collections.abc import Callable, Sequence
import os
import signal
from threading import Thread
import time
from typing import Final

import rclpy
from rclpy.executors import (
    Executor, ExternalShutdownException, MultiThreadedExecutor, SingleThreadedExecutor)
from rclpy.signals import SignalHandlerOptions
from robot_llm.ros.node import RobotLlmNode
from robot_llm.ros.transport import use_udp
from robot_llm.thread_name import show_thread_name

ANSWER_TIMEOUT_S: Final = 0.5
"""How long the end of the process waits for the last results; it may take a second in all."""

LINGER_S: Final = 0.1
"""
How long the process stays after its last result.

A client asks for a result only once it has heard of the acceptance, and DDS repeats what was lost
only while the writer lives.
"""

JOIN_TIMEOUT_S: Final = 5.0
"""How long the end of the process waits for a running callback; loading gives up at once."""

STOP_SIGNALS: Final = frozenset({signal.SIGINT, signal.SIGTERM})

EXECUTORS: Final[dict[str, Callable[[], Executor]]] = {
    'single_threaded': SingleThreadedExecutor, 'multi_threaded': MultiThreadedExecutor}


class _StopSignals:
    """
    SIGINT and SIGTERM as something the main thread can wait for; make it before other threads.

    They are blocked in every thread that is made from now on, so that none is interrupted in DDS
    or in llama.cpp. A library's thread that is older may still take one; what wakes the main
    thread is therefore the pipe that Python writes to from whatever thread. All but the first are
    ignored: the default would end the process without the results.
    """

    def __init__(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        self._reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            signal.signal(number, lambda *_: None)

    def wait(self) -> None:
        """Wait for the first one; one that came before counts."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        while os.read(self._reader, 1)[0] not in STOP_SIGNALS:
            pass


def run(make_node: Callable[[], RobotLlmNode], args: Sequence[str] | None = None) -> int:
    """
    Run a node until SIGINT or SIGTERM; its goals end with SHUTDOWN and are answered.

    :returns: the exit code, 0 after a signal
    """
    stop_signals = _StopSignals()
    use_udp(os.environ)
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    node = make_node()
    executor = EXECUTORS.get(node.executor_name, SingleThreadedExecutor)()
    executor.add_node(node)
    failures: list[BaseException] = []
    spinner = Thread(target=_spin, args=(node, executor, failures), name='robot_llm_spin')
    spinner.start()
    stop_signals.wait()
    node.stop(ANSWER_TIMEOUT_S)
    time.sleep(LINGER_S)
    executor.shutdown(timeout_sec=ANSWER_TIMEOUT_S)
    # Join before the context goes: a thread that still spins aborts the process at exit.
    spinner.join(JOIN_TIMEOUT_S)
    if spinner.is_alive():
        node.get_logger().fatal('a callback does not return; leaving without it')
        os._exit(1)
    is_clean = node.close()
    rclpy.shutdown()
    code = 1 if failures else node.exit_code
    if not is_clean:
        # A thread inside llama.cpp would crash on what the interpreter tears down.
        os._exit(code)
    return code


def _spin(node: RobotLlmNode, executor: Executor, failures: list[BaseException]) -> None:
    show_thread_name()
    try:
        node.autostart()
        executor.spin()
    except ExternalShutdownException:
        return
    except BaseException as error:  # noqa: B902  the main thread waits for a signal: send one
        failures.append(error)
        node.get_logger().fatal(f'{type(error).__name__}: {error}')
        os.kill(os.getpid(), signal.SIGTERM)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node with llama.cpp; ``ros2 run robot_llm node``."""
    return run(RobotLlmNode, args)


if __name__ == '__main__':
    raise SystemExit(main())
