"""What holds for every goal that was accepted, as its client has seen it."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from action_msgs.msg import GoalStatus
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.core.session import TokenKind
from robot_llm.core.timing import Stage
from robot_llm.ros.answer import Answer
from robot_llm_msgs.action import Generate
from robot_llm_msgs.msg import Token


def check_contract(answer: Answer) -> None:
    """Assert what holds for every goal that was accepted, whatever became of it."""
    result, tokens = answer.result, answer.tokens
    assert result is not None
    assert [token.seq for token in tokens] == list(range(len(tokens)))
    # A goal that begins again with a newer scene has a stream and a decision for each.
    *voided, last = streams_of(tokens)
    for stream in (*voided, last):
        kinds = [token.kind for token in stream]
        details = [TokenKind.DETAIL] * (len(kinds) - 2)
        end = TokenKind.END if stream is last else TokenKind.RESTART
        assert kinds == [TokenKind.DECISION, *details, end]
    assert tokens[-1].finish_reason == result.finish_reason
    assert answer.text == result.text
    check_decisions(answer, result)
    check_times(result.stats)
    is_whole = result.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
    expected = (
        GoalStatus.STATUS_CANCELED if result.finish_reason == FinishReason.CANCELED
        else GoalStatus.STATUS_SUCCEEDED if is_whole and not result.error_code
        else GoalStatus.STATUS_ABORTED)
    assert answer.status == expected


def streams_of(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the messages of one goal, cut behind every RESTART; the last part has the END."""
    streams: list[list[Token]] = [[]]
    for token in tokens:
        streams[-1].append(token)
        if token.kind == TokenKind.RESTART:
            streams.append([])
    return streams


def check_decisions(answer: Answer, result: Generate.Result) -> None:
    """Assert for each scene that the first decision came first, and only fell afterwards."""
    streams = streams_of(answer.tokens)
    of_scene = [list(group) for _, group in groupby(answer.decisions, lambda d: d.scene_epoch)]
    assert len(of_scene) == len(streams)
    for stream, (first, *fallen) in zip(streams, of_scene):
        assert len(fallen) <= 1
        assert {token.scene_epoch for token in stream} == {first.scene_epoch}
        assert first.word == stream[0].text
        assert first.latency_s <= stream[0].elapsed_s
        for decision in fallen:
            assert decision.source not in (DecisionSource.MODEL, DecisionSource.LOW_CONFIDENCE)
    assert answer.decisions[-1].word == result.decision
    assert answer.decisions[-1].source == result.decision_source
    for decision in answer.decisions:
        assert decision.word in decision.words
        if len(decision.probabilities):
            assert sum(decision.probabilities) == pytest.approx(1.0, abs=1e-4)


def check_times(stats: Any) -> None:
    """Assert that the stages make up the time to the decision, and tokens the whole."""
    stages = sum(getattr(stats, stage.value) for stage in list(Stage)[1:])
    assert stats.ttft_s == pytest.approx(stages, abs=1e-3)
    num_after_first = max(stats.num_completion_tokens - 1, 0)
    assert stats.e2e_s == pytest.approx(stats.ttft_s + num_after_first * stats.tpot_s, abs=1e-3)
