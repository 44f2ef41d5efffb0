"""The measured node: one of our own in its own ROS domain, or one that somebody runs."""

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
import os
import tempfile
from typing import Final

from robot_llm.bench.client import BenchClient, BenchError
from robot_llm.bench.suite import Context
from robot_llm.ros.parameters import shipped_folder
from robot_llm.ros.process import profiles_for, start_node, stop_node

LOAD_TIMEOUT_S: Final = 120.0
PRESENCE_TIMEOUT_S: Final = 10.0
LOG_CHARACTERS: Final = 4000
"""Of a node that has died: the last ones stand in the error."""

_numbers = count(1)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what every suite through ROS takes."""
    parser.add_argument(
        '--node', default='', metavar='NAME',
        help='measure this running node, such as /robot_llm, instead of one of our own; its '
             'decisions go out, so nothing that moves may listen')
    parser.add_argument(
        '--profile', default='',
        help="of the goals; default: free text on our own node, the node's default on another")


def node_name(context: Context) -> str:
    """Return the running node that is to be measured; '' for one of our own."""
    return str(getattr(context.options, 'node', ''))


def profile_name(context: Context) -> str:
    """Return the profile of the goals; '' for the node's default."""
    return str(getattr(context.options, 'profile', ''))


def use_own_domain() -> None:
    """
    Keep this process and the nodes it starts off the robot's ROS domain.

    Domains above 101 can meet Linux's ephemeral ports. Whoever has the same one by chance is told
    apart by the namespace.
    """
    os.environ['ROS_DOMAIN_ID'] = str(1 + os.getpid() % 100)
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
    if os.environ.get('ROS_DISTRO') == 'humble':  # it does not know the range
        os.environ['ROS_LOCALHOST_ONLY'] = '1'


@contextmanager
def measured_node(
    context: Context, parameters: Mapping[str, object] | None = None, *,
    module: str = 'robot_llm.ros.main',
) -> Iterator[BenchClient]:
    """
    Yield a client of the node that the options ask for, once it is active.

    One of our own has a free-text profile as default, and ``queue``: nobody preempts.

    :param parameters: of our own node; ``__`` stands for the dot. A running one keeps its own
    :param module: whose ``main`` our own node runs
    :raises BenchError: if there is no such node, or ours does not become active
    """
    if name := node_name(context):
        context.say(f'{name} is measured: it gets goals, and its decisions go out')
        with _running_node(name) as client:
            yield client
        return
    use_own_domain()
    ours = {
        'preempt__policy': 'queue', 'preempt__max_queue': 64, 'profiles__default': 'tell',
        'profiles__folder': shipped_folder('bench'),
        'model__n_ctx': context.settings.model.n_ctx,
        'model__n_gpu_layers': context.settings.model.n_gpu_layers,
        'model__n_threads': context.settings.model.n_threads,
        'engine__chunk_tokens': context.settings.engine.chunk_tokens, **(parameters or {})}
    context.say('a node of our own loads the model')
    flat = {key.replace('__', '.'): value for key, value in ours.items()}
    with _own_node(context, module, flat) as client:
        yield client


def shipped_profiles(context: Context) -> dict[str, object]:
    """Return the parameters of a node of our own that answers with the shipped profiles."""
    return {'profiles__folder': profiles_for(context.model), 'profiles__default': 'drive'}


@contextmanager
def _own_node(
    context: Context, module: str, parameters: Mapping[str, object],
) -> Iterator[BenchClient]:
    namespace = f'/bench_{os.getpid()}_{next(_numbers)}'
    with tempfile.TemporaryFile() as log:
        node = start_node(context.model, namespace, log, parameters, module=module)
        try:
            with BenchClient(f'{namespace}/robot_llm') as client:
                client.node_pid = node.pid
                client.has_ended = lambda: node.poll() is not None
                client.wait_until(lambda: client.wait_until_ready(0.1),
                                  'the node did not become active', LOAD_TIMEOUT_S)
                yield client
        except BenchError as error:
            if node.poll() is None:
                raise
            # The file goes with the node.
            log.seek(0)
            words = log.read().decode('utf-8', 'replace')[-LOG_CHARACTERS:]
            raise BenchError(
                f'{error}; the node ended with {node.returncode}, and wrote:\n{words}') from None
        finally:
            if node.poll() is None:
                stop_node(node)


@contextmanager
def _running_node(name: str) -> Iterator[BenchClient]:
    with BenchClient(name) as client:
        if not client.wait_until_ready(PRESENCE_TIMEOUT_S):
            raise BenchError(f'{name} does not answer; is it running and active, and in '
                             f'ROS_DOMAIN_ID={os.environ.get("ROS_DOMAIN_ID", "0")}?')
        yield client
