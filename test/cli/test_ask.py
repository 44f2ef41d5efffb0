"""What ``ask`` and ``demo`` print of a goal; no node."""

from collections.abc import Callable
import time
from typing import Any

from builtin_interfaces.msg import Time
from monitor_messages import Sender
import pytest
from robot_llm.cli import ask
from robot_llm.cli.report import result_lines
from robot_llm.core.session import TokenKind
from robot_llm.ros.answer import Answer
from robot_llm_msgs.action import Generate
from robot_llm_msgs.msg import Token

ESCAPES = '\x1b[2J\x9b31m\u202e'


class Done:
    """A future that is there."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def result(self) -> Any:
        """Return what it holds."""
        return self.value


def answered(*tokens: Token, **fields: Any) -> Answer:
    """Return an answer to which a result has come."""
    answer = Answer(b'a' * 16, None, lambda callback: callback())
    result = Generate.Result(
        **({'decision': 'stop', 'decision_source': 1, 'finish_reason': 1} | fields))
    answer._on_result(Done(Generate.Impl.GetResultService.Response(result=result, status=4)))
    for token in tokens:
        answer.add_token(token)
    return answer


def test_nothing_of_a_model_s_text_is_obeyed_by_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sender = Sender()
    for token in sender.stream('stop' + ESCAPES, 'a\nb' + ESCAPES):
        ask.print_token(token)
    answer = answered(
        detail_json='{"reason": "\x9b31m\u202e"}', error_code=202, error_msg=ESCAPES)
    print('\n'.join(result_lines(answer)))
    ask.print_problem(ESCAPES, is_json=False)
    said = ''.join(capsys.readouterr())
    assert 'a\nb' in said and not set(said) & set(ESCAPES) - set('[2J31m')


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the end of a stream be given up at once."""
    monkeypatch.setattr('robot_llm.ros.answer.END_TIMEOUT_S', 0.01)


def test_an_end_that_does_not_come_is_waited_for_no_longer_than_that(soon: None) -> None:
    """With ``~/tokens`` remapped ``ask`` waited for ever."""
    answer = answered()
    assert answer.wait_for_result(0.0)
    warning, = ask.warnings(answer)
    assert 'the END did not come' in warning and '~/tokens' in warning


def test_a_whole_stream_is_no_warning() -> None:
    answer = answered(Sender().token(TokenKind.END))
    assert answer.wait_for_result(0.0)
    answer.age_s = 0.1
    assert not list(ask.warnings(answer))


def test_no_result_is_waited_for_as_long_as_was_asked_for() -> None:
    answer = Answer(b'a' * 16, None, lambda callback: callback())
    answer.add_token(Sender().token(TokenKind.END))
    assert not answer.wait_for_result(0.01)
    assert not list(ask.warnings(answer))


def stamped(now: Callable[[], float], offset_s: float) -> Token:
    token = Sender().token(TokenKind.END)
    token.stamp = Time(sec=int(now() + offset_s))
    return token


def test_clocks_that_differ_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, 'time', lambda: 1000.0)
    warning, = ask.warnings(answered(stamped(time.time, 3.0)))
    assert '-3.0 s old' in warning and 'synchronise' in warning
    assert not list(ask.warnings(answered(stamped(time.time, 0.0))))
    # One that was held up on its way says nothing of the clocks.
    late, prompt = stamped(time.time, -3.0), stamped(time.time, 0.0)
    prompt.seq = 1
    assert not list(ask.warnings(answered(late, prompt)))
