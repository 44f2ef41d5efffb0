"""The table of docs/contract.md has every pair once, and says what the rules in the code say."""

from itertools import product
from pathlib import Path

from contract_table import (
    BY_MODEL, ENGINES, FALLBACK, NEXT_GOALS, Pair, pairs, STAGES, STATUSES, TRIGGERS)
import pytest
from robot_llm.core.decision import Decision, DecisionSource
from robot_llm.core.request import FinishReason, Request
from robot_llm.core.session import SOURCE_OF_REASON
from robot_llm.errors import (
    DecodeError, ErrorCode, LimitInDetailError, RobotLlmError, SchemaNotMetError)
from robot_llm.profile_file import load_profiles
from robot_llm.settings import Limits, SamplingParams

DRIVE = load_profiles(Path(__file__).parent / 'support' / 'ros_profiles', Limits())['drive']
PAIRS = tuple(pairs())
ERRORS: dict[ErrorCode, RobotLlmError | None] = {
    ErrorCode.NONE: None, ErrorCode.DECODE_FAILED: DecodeError('broken'),
    ErrorCode.SCHEMA_NOT_MET: SchemaNotMetError('wrong'),
    ErrorCode.LIMIT_IN_DETAIL: LimitInDetailError('cut')}
ENDS_IN_TIME = ('decision deadline', 'length, free text')
"""What does not spoil an answer: the goal succeeds."""

each_pair = pytest.mark.parametrize('pair', PAIRS, ids=str)


def test_every_trigger_meets_every_stage_once():
    assert [(pair.trigger, pair.stage) for pair in PAIRS] == list(product(TRIGGERS, STAGES))


@each_pair
def test_a_pair_speaks_the_words_of_the_table(pair: Pair):
    assert pair.status in STATUSES
    assert pair.engine in ENGINES
    assert pair.next_goal in NEXT_GOALS


@each_pair
def test_the_status_follows_from_the_reason_as_readme_says(pair: Pair):
    is_whole = pair.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
    assert pair.status == (
        'CANCELED' if pair.finish_reason is FinishReason.CANCELED
        else 'SUCCEEDED' if is_whole and not pair.error_code else 'ABORTED')


@each_pair
def test_the_decisions_are_those_of_the_rules_for_the_default_profile(pair: Pair):
    (kind, source), *fallen = pair.decisions
    request = Request(b'1', DRIVE, 'May I go?', SamplingParams())
    if kind == BY_MODEL:
        request.latch.offer(Decision('continue', DecisionSource.MODEL, DRIVE.words))
    elif pair.trigger in ENDS_IN_TIME:
        assert source is DecisionSource.DEADLINE
        return
    request.stop(pair.finish_reason, 0.0, error=ERRORS[pair.error_code])
    assert request.must_fall == (kind == FALLBACK or pair.is_revoked)
    if request.must_fall:
        assert pair.decisions[-1] == (FALLBACK, SOURCE_OF_REASON[pair.finish_reason])


@each_pair
def test_a_decision_never_rises(pair: Pair):
    kinds = [kind for kind, _ in pair.decisions]
    assert kinds in ([FALLBACK], [BY_MODEL], [BY_MODEL, FALLBACK])
    # Undecided, a goal can only fall; what the model said goes out behind these stages.
    if pair.stage in STAGES[:3] and pair.engine != 'goes on':
        assert kinds == [FALLBACK]
