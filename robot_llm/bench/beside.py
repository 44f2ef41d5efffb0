"""What a robot has running beside the model, as processes: busy cores, and a camera's topic."""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
import os
import select
import subprocess
import sys
from typing import Final

import rclpy
from rclpy.node import Node
from robot_llm.bench.client import BenchError
from std_msgs.msg import UInt8MultiArray

IMAGE_BYTES: Final = 640 * 480 * 3
IMAGE_HZ: Final = 30.0
READY: Final = 'ready'
READY_TIMEOUT_S: Final = 30.0
"""Longer than a process takes to start beside busy cores, and two take to find each other."""
TOPIC: Final = 'bench_image'


def burn() -> None:
    """Keep a core busy for ever."""
    print(READY, flush=True)
    while True:
        pass


def publish() -> None:
    """Publish an image-sized message 30 times a second, as a camera does."""
    rclpy.init()
    node = Node('bench_camera')
    publisher = node.create_publisher(UInt8MultiArray, TOPIC, 1)
    message = UInt8MultiArray(data=array('B', bytes(IMAGE_BYTES)))
    node.create_timer(1 / IMAGE_HZ, lambda: publisher.publish(message))
    print(READY, flush=True)
    rclpy.spin(node)


def subscribe() -> None:
    """Receive it, as a detector does; says so with the first one."""
    rclpy.init()
    node = Node('bench_detector')
    heard: list[object] = []

    def callback(message: UInt8MultiArray) -> None:
        if not heard:
            heard.append(message)
            print(READY, flush=True)

    node.create_subscription(UInt8MultiArray, TOPIC, callback, 1)
    rclpy.spin(node)


ROLES: Final = {'burn': burn, 'publish': publish, 'subscribe': subscribe}


@contextmanager
def beside(roles: Sequence[str]) -> Iterator[None]:
    """
    Run processes, by names in ``ROLES``, as long as the context lasts.

    :raises BenchError: if one does not get ready, or ends before the context does
    """
    processes: list[subprocess.Popen[str]] = []
    try:
        for role in roles:
            processes.append(subprocess.Popen(
                [sys.executable, '-m', 'robot_llm.bench.beside', role], text=True,
                stdout=subprocess.PIPE))
        for role, process in zip(roles, processes):
            _wait_until_ready(role, process)
        yield
        for role, process in zip(roles, processes):
            if process.poll() is not None:
                raise BenchError(f'{role} ended with {process.returncode} while something was '
                                 'measured beside it')
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate()


def _wait_until_ready(role: str, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    has_said = select.select([process.stdout], [], [], READY_TIMEOUT_S)[0]
    if not has_said or process.stdout.readline().strip() != READY:
        ended = 'runs' if process.poll() is None else f'has ended with {process.returncode}'
        raise BenchError(f'{role} is not ready within {READY_TIMEOUT_S:.0f} s, and {ended}; '
                         f'python -m robot_llm.bench.beside {role} tells why')


def busy_cores() -> list[str]:
    """Return the roles that leave no core of this process's alone."""
    return ['burn'] * len(os.sched_getaffinity(0))


if __name__ == '__main__':
    with suppress(KeyboardInterrupt):
        ROLES[sys.argv[1]]()
