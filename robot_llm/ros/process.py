"""The inference node in a process of its own, started and ended as an operator would."""

from collections.abc import Mapping
from pathlib import Path
import signal
import subprocess
import sys
from typing import Any, Final

from robot_llm.ros.parameters import shipped_folder

EMBEDDED: Final = 'SmolLM2-135M-Instruct.Q4_1'
"""The model that the shipped decision head was fitted to."""

STOP_TIMEOUT_S: Final = 10.0
"""How long a node may take to leave before it is killed."""


def profiles_for(model: Path) -> Path:
    """
    Return the profiles with a fitted head for the embedded model, else the general ones.

    A model with random weights has the embedded one's tokenizer, and its name behind its own.
    """
    return shipped_folder('embedded' if model.name.startswith(EMBEDDED) else 'profiles')


def start_node(
    model: Path, namespace: str, log: Any, parameters: Mapping[str, object] | None = None,
    *, module: str = 'robot_llm.ros.main',
) -> subprocess.Popen[bytes]:
    """
    Start the node; it configures and activates itself.

    :param log: file for everything that it writes
    :param parameters: by full name, over the defaults
    :param module: whose ``main`` it is; another one than the robot's to measure or to disturb it
    """
    chosen = {'model.path': model, 'profiles.folder': profiles_for(model), **(parameters or {})}
    arguments = ['--ros-args', '-r', f'__ns:={namespace}']
    for name, value in chosen.items():
        text = str(value).lower() if isinstance(value, bool) else value
        arguments += ['-p', f'{name}:={text}']
    return subprocess.Popen(
        [sys.executable, '-m', module, *arguments],
        stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def stop_node(node: subprocess.Popen[bytes]) -> int:
    """End the node as an operator would, and return its exit code."""
    node.send_signal(signal.SIGINT)
    try:
        return node.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        node.kill()
        return node.wait()
