"""Nodes in processes of their own, on both executors, and a planner beside each."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from ros_node import NodeProcess, REAL, running_node, SCRIPTED
from ros_planner import connected, Planner

EXECUTORS = ('single_threaded', 'multi_threaded')

# A heartbeat that tests can wait for without waiting long. And a first scene may come late, since
# DDS has to connect its publisher first.
FAST = {'status.rate_hz': 50.0, 'scene.wait_s': 10.0}


@pytest.fixture(scope='module', params=EXECUTORS)
def executor(request: pytest.FixtureRequest) -> str:
    """Return the name of an executor; every module runs on both."""
    return str(request.param)


@pytest.fixture(scope='module')
def scripted(executor: str, ros_domain: int) -> Iterator[Callable[..., Planner]]:
    """Return what starts a scripted node with parameters and connects a planner to it."""
    with ExitStack() as stack:
        def start(**parameters: Any) -> Planner:
            named = {name.replace('__', '.'): value for name, value in parameters.items()}
            node = stack.enter_context(
                running_node(SCRIPTED, FAST | {'executor': executor} | named))
            return stack.enter_context(connected(node))

        yield start


@pytest.fixture(scope='module')
def planner(scripted: Callable[..., Planner]) -> Planner:
    """Return a planner of a scripted node with default parameters."""
    return scripted()


@pytest.fixture(scope='module')
def real_node(ros_domain: int, model_path: Path) -> Iterator[NodeProcess]:
    """Run a node with the real model, on one executor: what it does to goals the others test."""
    parameters = FAST | {'executor': 'multi_threaded', 'model.path': model_path}
    with running_node(REAL, parameters) as node:
        yield node


@pytest.fixture(scope='module')
def real_planner(real_node: NodeProcess) -> Iterator[Planner]:
    """Return a planner of the node with the real model."""
    with connected(real_node) as planner:
        yield planner
