"""A node that cannot be configured says everything that is wrong, and stays usable."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
import re
from typing import Any

import pytest
from robot_llm.core.request import FinishReason
from robot_llm_msgs.msg import Status
from ros_lifecycle import ACTIVE, INACTIVE, Lifecycle, UNCONFIGURED
from ros_node import NodeProcess, REAL, running_node, SCRIPTED, TIMEOUT_S
from ros_planner import Planner


@contextmanager
def managed(
    program: tuple[str, ...], **parameters: Any,
) -> Iterator[tuple[NodeProcess, Planner, Lifecycle]]:
    """Start a node that nobody expects to become active."""
    named = {name.replace('__', '.'): value for name, value in parameters.items()}
    with running_node(program, named) as node:
        if parameters.get('autostart', True):
            node.wait_for_log('configure: ')
        with Planner(node) as planner:
            yield node, planner, Lifecycle(planner)


def check_unconfigured(planner: Planner, manager: Lifecycle) -> None:
    assert manager.state == UNCONFIGURED
    answer = planner.ask('say-slow')
    assert answer.wait_for(lambda: answer.is_rejected, TIMEOUT_S)


def test_wrong_parameters_are_all_named_and_can_be_corrected(
    executor: str, ros_domain: int,
) -> None:
    wrong: dict[str, Any] = {
        'preempt__policy': 'oldest_wins', 'sampling__temperature': 7.0, 'model__n_ctx': 'much',
        'smapling__top_k': 3, 'engine__chunk_tokens': 4096}
    with managed(SCRIPTED, executor=executor, **wrong) as (node, planner, manager):
        node.wait_for_log(r'configure: .*\n', times=5)
        for sentence in (
                "preempt.policy='oldest_wins'", 'sampling.temperature=7', 'model.n_ctx=',
                'smapling.top_k.*sampling.top_k', 'engine.chunk_tokens=4096 is above'):
            assert re.search(f'configure: .*{sentence}', node.log), node.log
        check_unconfigured(planner, manager)
        planner.wait_for_state(Status.STATE_FAILED)
        assert "preempt.policy='oldest_wins'" in planner.failure
        assert not planner.wait_until_ready(TIMEOUT_S, or_failed=True)
        assert not manager.configure()
        assert manager.set_text('preempt.policy', 'queue') == ''
        assert not manager.configure()
        assert manager.state == UNCONFIGURED


def test_the_real_node_refuses_files_that_are_no_model(
    ros_domain: int, tmp_path: Path, model_path: Path,
) -> None:
    no_gguf, cut = tmp_path / 'page.gguf', tmp_path / 'cut.gguf'
    no_gguf.write_text('<!DOCTYPE html>')
    cut.write_bytes(model_path.read_bytes()[:2**20])
    with managed(REAL, model__path='/no/such.gguf') as (node, planner, manager):
        node.wait_for_log("configure: model.path='/no/such.gguf' is not a file; check the path")
        check_unconfigured(planner, manager)
        assert manager.set_text('model.path', str(no_gguf)) == ''
        assert not manager.configure()
        node.wait_for_log(r"page.gguf begins with b'<!DO' instead of GGUF")
        assert manager.set_text('model.path', str(cut)) == ''
        assert not manager.configure()
        node.wait_for_log(r'configure: .*cut.gguf: .*check that the file is complete')
        assert manager.set_text('model.path', '') == ''
        assert not manager.configure()
        node.wait_for_log("model.path='' names no model; give a GGUF file")
        check_unconfigured(planner, manager)
        assert manager.set_text('model.path', str(model_path)) == ''
        assert manager.configure() and manager.activate()
        assert planner.answer('May I go on?').result.finish_reason == FinishReason.STOP


@pytest.mark.parametrize(('parameters', 'sentence'), [
    ({'model__n_gpu_layers': 5}, 'model.n_gpu_layers=5, but .*GPU'),
    ({'model__n_ctx': 100_000}, 'model.n_ctx=100000 exceeds the 8192 tokens that'),
    ({'profiles__folder': '/no/profiles'}, "profiles.folder='/no/profiles' cannot be read"),
    ({'profiles__default': 'drvie'}, "profiles.default='drvie' is not among the profiles"),
])
def test_what_does_not_fit_the_model_is_refused(
    ros_domain: int, model_path: Path, parameters: dict[str, Any], sentence: str,
) -> None:
    with managed(REAL, model__path=model_path, **parameters) as (node, planner, manager):
        node.wait_for_log(f'configure: .*{sentence}')
        assert manager.state == UNCONFIGURED


def test_loading_that_takes_too_long_is_given_up_and_can_be_tried_again(ros_domain: int) -> None:
    with managed(SCRIPTED, model__path='hold-load', engine__load_timeout_s=0.5) as (
            node, planner, manager):
        node.wait_for_log(r'configure: the model is not loaded after engine.load_timeout_s=0\.5')
        planner.wait_for_state(Status.STATE_FAILED)
        check_unconfigured(planner, manager)
        assert manager.set_text('model.path', '') == ''
        assert manager.configure() and manager.activate()
        assert planner.wait_until_ready(TIMEOUT_S)
        assert planner.answer('say-slow').result.finish_reason == FinishReason.STOP


def test_loading_that_hangs_ends_the_process_where_that_is_wanted(ros_domain: int) -> None:
    parameters = {'model.path': 'hang-hold-load', 'engine.load_timeout_s': 0.5,
                  'engine.exit_on_hang': True}
    with running_node(SCRIPTED, parameters) as node:
        assert node.wait() == 1, 'launch has to see that it must respawn the node'
        assert 'configure: the model is not loaded after engine.load_timeout_s=0.5' in node.log
        assert 'its thread and its model are left behind' in node.log


def test_without_autostart_the_node_waits_for_its_manager(executor: str, ros_domain: int) -> None:
    with managed(SCRIPTED, executor=executor, autostart=False) as (node, planner, manager):
        check_unconfigured(planner, manager)
        assert manager.configure()
        assert manager.state == INACTIVE
        assert manager.activate()
        assert manager.state == ACTIVE
        assert planner.wait_until_ready(TIMEOUT_S)
        planner.wait_for_state(Status.STATE_IDLE)
        assert planner.answer('say-slow').result.finish_reason == FinishReason.STOP
