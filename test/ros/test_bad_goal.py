"""A goal that cannot be served is refused, and the log names value, limit and remedy."""

from collections.abc import Callable
import math
import re

from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.errors import ErrorCode
from ros_node import TIMEOUT_S
from ros_planner import Planner, reasons, seconds

PROMPT_BYTES, STOP_STRINGS, STOP_BYTES, MAX_TOKENS = 500, 3, 10, 200

BAD_GOALS = {
    'empty prompt': ({'prompt': ''}, 'prompt is empty; say what to decide'),
    'blank prompt': ({'prompt': ' \n\t'}, 'prompt is empty'),
    'long prompt': (
        {'prompt': 'ü' * 251}, 'prompt has 502 bytes and limits.prompt_bytes=500; shorten it'),
    'unknown profile': ({'profile': 'drvie'}, "profile 'drvie' is not loaded; there are drive, "),
    'high temperature': ({'temperature': 3.0}, 'temperature=3.0 is not in 0..2; negative takes'),
    'NaN temperature': ({'temperature': math.nan}, 'temperature=nan is not in 0..2'),
    'infinite temperature': ({'temperature': math.inf}, 'temperature=inf is not in 0..2'),
    'many tokens': (
        {'max_tokens': 201}, 'max_tokens=201 is above limits.max_tokens=200; lower it, 0 takes'),
    'most tokens': ({'max_tokens': 2**32 - 1}, 'max_tokens=4294967295 is above'),
    'many stop strings': (
        {'stop': ['a'] * 4}, '4 stop strings and limits.stop_strings=3; give fewer'),
    'empty stop string': (
        {'stop': ['']}, "stop string '' has 0 bytes, not 1..10 (limits.stop_bytes)"),
    'long stop string': ({'stop': ['€€€€']}, "stop string '€€€€' has 12 bytes, not 1..10"),
    'stop in JSON': ({'profile': 'drive', 'stop': ['.']}, 'stop would cut the JSON detail'),
    'negative decision deadline': (
        {'decision_deadline': Duration(sec=-1)}, 'decision_deadline=-1.0 s is negative; 0 takes'),
    'negative total deadline': (
        {'total_deadline': Duration(sec=-2)}, 'total_deadline=-2.0 s is negative; 0 takes'),
}


@pytest.fixture(scope='module')
def strict_planner(scripted: Callable[..., Planner]) -> Planner:
    return scripted(
        limits__prompt_bytes=PROMPT_BYTES, limits__stop_strings=STOP_STRINGS,
        limits__stop_bytes=STOP_BYTES, limits__max_tokens=MAX_TOKENS,
        sampling__max_tokens=MAX_TOKENS)


@pytest.mark.parametrize(('fields', 'sentence'), BAD_GOALS.values(), ids=BAD_GOALS)
def test_a_bad_goal_is_refused(
    strict_planner: Planner, fields: dict[str, object], sentence: str,
) -> None:
    planner = strict_planner
    answer = planner.ask(**{'prompt': 'say-Sure', 'profile': 'talk'} | fields)
    assert answer.wait_for(lambda: answer.is_rejected, TIMEOUT_S)
    planner.node_process.wait_for_log(f'goal refused, .*{re.escape(sentence)}')
    assert answer.tokens == [] and answer.decisions == []


def test_all_problems_of_a_goal_are_named_at_once(strict_planner: Planner) -> None:
    planner = strict_planner
    answer = planner.ask('', profile='talk', temperature=9.0, max_tokens=999, stop=[''],
                         total_deadline=Duration(sec=-5))
    assert answer.wait_for(lambda: answer.is_rejected, TIMEOUT_S)
    planner.node_process.wait_for_log(
        'goal refused, MALFORMED_FIELD: prompt is empty.*temperature=9.0.*max_tokens=999.*'
        'stop string.*total_deadline=-5')


def test_a_refused_goal_does_not_touch_the_running_one(strict_planner: Planner) -> None:
    planner = strict_planner
    running = planner.ask('hold-detail:b1 say-Sure', profile='talk')
    planner.node_process.wait_for_gate('b1')
    bad = planner.ask('')
    assert bad.wait_for(lambda: bad.is_rejected, TIMEOUT_S)
    assert not running.is_over
    planner.node_process.open_gate('b1')
    assert planner.finish(running).finish_reason == FinishReason.STOP


@pytest.mark.parametrize('fields', [
    {'prompt': 'p' * PROMPT_BYTES}, {'temperature': 2.0}, {'temperature': -7.0},
    {'max_tokens': MAX_TOKENS}, {'stop': ['z' * STOP_BYTES] * STOP_STRINGS},
    {'total_deadline': seconds(3600.0)}, {'seed': 2**32 - 1}])
def test_a_goal_at_its_limits_is_served(
    strict_planner: Planner, fields: dict[str, object],
) -> None:
    answer = strict_planner.answer(**{'prompt': 'say-Sure', 'profile': 'talk'} | fields)
    assert answer.result.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)


def test_a_context_overflow_ends_the_goal_with_the_three_numbers(planner: Planner) -> None:
    answer = planner.answer('word ' * 1000)
    assert reasons(answer) == (
        GoalStatus.STATUS_ABORTED, FinishReason.ERROR, ErrorCode.CONTEXT_OVERFLOW, 'stop',
        DecisionSource.ERROR)
    assert re.search(r'prompt 5\d\d\d \+ answer 128 tokens exceed n_ctx=4096; shorten the prompt, '
                     'lower max_tokens or raise model.n_ctx', answer.result.error_msg)
    assert answer.result.stats.num_decode_calls == 0
    assert planner.answer('say-slow').result.finish_reason == FinishReason.STOP


def test_the_real_model_counts_its_own_tokens(real_planner: Planner) -> None:
    answer = real_planner.answer('box ' * 5000)
    assert answer.result.error_code == ErrorCode.CONTEXT_OVERFLOW
    counted = answer.result.stats.num_prompt_tokens
    assert counted > 5000
    assert f'prompt {counted} + answer ' in answer.result.error_msg
    assert answer.result.stats.num_decode_calls == 0
