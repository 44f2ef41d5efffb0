"""What a robot has running beside the model, as processes: busy cores, and a camera's topic."""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
import os
import subprocess
import sys
from typing import Final

import rclpy
from rclpy.node import Node
from std_msgs.msg import UInt8MultiArray

IMAGE_BYTES: Final = 640 * 480 * 3
IMAGE_HZ: Final = 30.0
TOPIC: Final = 'bench_image'


def burn() -> None:
    """Keep a core busy for ever."""
    print('ready', flush=True)
    while True:
        pass


def publish() -> None:
    """Publish an image-sized message 30 times a second, as a camera does."""
    rclpy.init()
    node = Node('bench_camera')
    publisher = node.create_publisher(UInt8MultiArray, TOPIC, 1)
    message = UInt8MultiArray(data=array('B', bytes(IMAGE_BYTES)))
    node.create_timer(1 / IMAGE_HZ, lambda: publisher.publish(message))
    print('ready', flush=True)
    rclpy.spin(node)


def subscribe() -> None:
    """Receive it, as a detector does; says so with the first one."""
    rclpy.init()
    node = Node('bench_detector')
    heard: list[object] = []

    def callback(message: UInt8MultiArray) -> None:
        if not heard:
            heard.append(message)
            print('ready', flush=True)

    node.create_subscription(UInt8MultiArray, TOPIC, callback, 1)
    rclpy.spin(node)


ROLES: Final = {'burn': burn, 'publish': publish, 'subscribe': subscribe}


@contextmanager
def beside(roles: Sequence[str]) -> Iterator[None]:
    """Run processes, by names in ``ROLES``, as long as the context lasts."""
    processes: list[subprocess.Popen[str]] = []
    try:
        for role in roles:
            processes.append(subprocess.Popen(
                [sys.executable, '-m', 'robot_llm.bench.beside', role], text=True,
                stdout=subprocess.PIPE))
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate()


def busy_cores() -> list[str]:
    """Return the roles that leave no core of this process's alone."""
    return ['burn'] * len(os.sched_getaffinity(0))


if __name__ == '__main__':
    with suppress(KeyboardInterrupt):
        ROLES[sys.argv[1]]()
