"""A profile whose detail a user's model checks: exactly the file that docs/ shows."""

from collections.abc import Iterator
import os
from pathlib import Path

from action_msgs.msg import GoalStatus
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.errors import ErrorCode
from ros_node import running_node, SCRIPTED
from ros_planner import connected, Planner, reasons

DOCS = Path(__file__).parents[2] / 'docs'

PROFILE = """\
description: d
system_prompt: JSON
decision:
  words:
    - {word: stop, meaning: danger}
    - {word: continue, meaning: clear}
  fallback: stop
  min_confidence: 0.5
detail:
  kind: json
  model: example_detail_model:Drive
"""


@pytest.fixture(scope='module')
def planner(ros_domain: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    folder = tmp_path_factory.mktemp('profiles')
    (folder / 'drive.yaml').write_text(PROFILE)
    path = os.pathsep.join(filter(None, (str(DOCS), os.environ.get('PYTHONPATH', ''))))
    with running_node(SCRIPTED, {'profiles.folder': folder}, env={'PYTHONPATH': path}) as node:
        with connected(node) as planner:
            yield planner


def prompt(speed: float, free_m: int) -> str:
    return (f'say-continue detail-{{"target_speed_mps":{speed},"free_path_m":{free_m},'
            '"side":"left","reason":"It is free"}')


def test_a_detail_that_the_model_takes_is_in_the_result(planner: Planner) -> None:
    result = planner.answer(prompt(0.5, 3)).result
    assert result.finish_reason == FinishReason.STOP and result.decision == 'continue'
    assert result.detail_json == (
        '{"target_speed_mps":0.5,"free_path_m":3,"side":"left","reason":"It is free"}')


def test_a_detail_that_the_model_refuses_revokes_the_decision(planner: Planner) -> None:
    answer = planner.answer(prompt(1.5, 2))
    assert reasons(answer) == (
        GoalStatus.STATUS_ABORTED, FinishReason.ERROR, ErrorCode.SCHEMA_NOT_MET, 'stop',
        DecisionSource.ERROR)
    assert [decision.word for decision in answer.decisions] == ['continue', 'stop']
    assert answer.result.detail_json == ''
    assert '1.5 m/s needs 2.25 m to stop, and only 2 m are free' in answer.result.error_msg
    assert planner.answer(prompt(0.0, 0)).result.finish_reason == FinishReason.STOP


def test_the_models_limits_hold_while_the_detail_is_generated(planner: Planner) -> None:
    """What the scripted model would say beyond the limits is never sampled."""
    result = planner.answer(prompt(7.5, 2)).result
    assert '7.5' not in result.text
