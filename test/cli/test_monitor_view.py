"""What the monitor shows: every part fits its place, and nothing in it can harm a terminal."""

from collections.abc import Callable

from diagnostic_msgs.msg import DiagnosticStatus
from monitor_messages import diagnostics, idle, NODE, Sender
import pytest
from rich.cells import cell_len
from robot_llm.cli.monitor_plain import LineWriter
from robot_llm.cli.monitor_state import MonitorState, Presence, SILENCE_S
from robot_llm.cli.monitor_tables import health_rows, health_text, paint_goals, paint_health
from robot_llm.cli.monitor_text import bar, number, printable, seconds, share
from robot_llm.cli.monitor_view import (
    paint_answer, paint_decision, paint_header, paint_notice, Painted, stream_text)
from robot_llm.core.session import TokenKind
from robot_llm_msgs.msg import Decision, Status

PAINTERS = (paint_header, paint_notice, paint_decision, paint_answer, paint_goals, paint_health)
HOSTILE = '\x1b]0;title\x07\x1b[31m\x9b2J\x00\u202eright to left\r\x7f'


def nothing() -> list[object]:
    """Return what comes before the node is found."""
    return [Presence(False, ('/demo_1/robot_llm', '/demo_2/robot_llm'))]


def running() -> list[object]:
    """Return a goal in mid-answer."""
    sender = Sender(1, epoch=1795963069028)
    return [Presence(True), sender.status(queue_length=3), sender.decision('continue'),
            *sender.stream('continue', '\n{"reason": ', '"all of it"')[:-1],
            diagnostics(ttft_p50_s='0.34', ttft_p99_s='0.871234', decisions_model='12',
                        cancel_latency_p50_s='0.0065', model='x', cached_token_rate='0.7188')]


def many_words() -> list[object]:
    """Return a decision among 64 words, and an answer of one long line."""
    sender = Sender()
    odds = {f'a_rather_long_word_{n}': (n + 1) / 2080 for n in range(64)}
    return [Presence(True), sender.decision('a_rather_long_word_63', odds=odds),
            *sender.stream('a_rather_long_word_63', 'x' * 4000)]


def wide() -> list[object]:
    """Return characters that take two cells."""
    sender = Sender()
    return [Presence(True), sender.status(model='模型' * 30), *sender.stream('停', '你好🤖' * 200),
            sender.decision('停', odds={'停': 0.9, '慢': 0.1})]


def hostile() -> list[object]:
    """Return text that would like to be obeyed."""
    sender = Sender()
    return [
        Presence(True), sender.status(model=HOSTILE, last_refusal=''),
        sender.status(model=HOSTILE, last_refusal=HOSTILE), *sender.stream(HOSTILE, HOSTILE),
        sender.decision(HOSTILE, odds={HOSTILE: 1.0}),
        diagnostics(DiagnosticStatus.ERROR, HOSTILE, text=HOSTILE)]


def restarted() -> list[object]:
    """Return a goal that began again and was revoked."""
    sender = Sender()
    before = [sender.token(TokenKind.DECISION, 'continue'), sender.token(TokenKind.DETAIL, 'old')]
    sender.epoch = 2
    restart = sender.token(TokenKind.RESTART, num_tokens=0)
    return [Presence(True), *before, restart, sender.decision('slow'),
            *sender.stream('slow', 'new'),
            sender.decision('stop', source=Decision.SOURCE_DEADLINE), idle()]


SCENES = (nothing, running, many_words, wide, hostile, restarted)


def state_of(scene: Callable[[], list[object]]) -> MonitorState:
    """Return a state that was told all of a scene."""
    state = MonitorState(NODE)
    for event in scene():
        state.feed(event, 0.0)
    return state


@pytest.mark.parametrize('scene', SCENES, ids=lambda scene: scene.__name__)
@pytest.mark.parametrize('size', [(80, 6), (36, 5), (30, 2), (120, 30), (12, 3)])
@pytest.mark.parametrize('paint', PAINTERS, ids=lambda paint: paint.__name__)
def test_every_part_fits_its_place(
    paint: Callable[..., Painted], size: tuple[int, int], scene: Callable[[], list[object]],
) -> None:
    width, height = size
    painted = paint(state_of(scene), width, height, 0.5)
    lines = painted.text.plain.split('\n')
    assert len(lines) <= height
    if width > 12:
        assert max(cell_len(line) for line in lines) <= width


@pytest.mark.parametrize('paint', PAINTERS, ids=lambda paint: paint.__name__)
def test_what_a_model_writes_cannot_command_the_terminal(paint: Callable[..., Painted]) -> None:
    text = paint(state_of(hostile), 200, 40, 0.5).text.plain
    assert not {char for char in text if not char.isprintable()} - {'\n'}


def test_neither_can_it_in_lines_and_pages() -> None:
    state = state_of(hostile)
    writer = LineWriter(state)
    lines = [line for event in hostile() for line in writer.lines(event, 0.5)]
    pages = stream_text(state.current).plain + health_text(state, 0.5).plain
    assert not {char for char in pages + '\n'.join(lines) if not char.isprintable()} - {'\n'}


def test_a_running_goal_is_told_in_words_and_bars() -> None:
    state = state_of(running)
    header = paint_header(state, 100, 2, 0.5).text.plain
    assert 'SmolLM2 on CPU' in header and 'DECODE' in header
    assert '01010101' in header and '80/80 (52 cached)' in header and 'queue 3' in header
    decision = paint_decision(state, 44, 5, 0.5).text.plain.split('\n')
    assert decision[0] == '  continue   MODEL  after 0.25s'
    assert decision[3].startswith(' ▸ continue ██') and decision[3].endswith(' 75%')
    assert decision[4].strip() == 'confidence 75%   mass 50%'
    assert paint_answer(state, 80, 5, 0.5).text.plain.endswith('{"reason": "all of it"▌')
    health = paint_health(state, 36, 5, 0.5).text.plain.split('\n')
    assert health[0] == ' OK  active'
    assert health[1].split() == ['ttft', 'p50', '0.34s', 'p99', '0.87s']
    row = paint_goals(state, 80, 5, 0.5).text.plain.split('\n')[1]
    assert row.split() == ['01010101', 'continue', 'running', '0.25s', '0.25s', '3', '0.75s']


def test_of_many_words_the_likeliest_are_shown() -> None:
    lines = paint_decision(state_of(many_words), 60, 5, 0.5).text.plain.split('\n')
    assert '▸' in lines[1] and '61 words more' in lines[-1]


def test_a_restart_strikes_out_what_is_void_and_a_revocation_says_what_was() -> None:
    state = state_of(restarted)
    text = stream_text(state.current)
    assert text.plain == ' continue old\n↻ RESTART on scene 2, after 0.75s\n slow new\n' \
        '■ END STOP after 1.50s'
    struck = [text.plain[span.start:span.end] for span in text.spans if 'strike' in span.style]
    assert struck == [' continue old']
    assert 'stop   DEADLINE  after 0.25s  was slow' in paint_decision(
        state, 60, 5, 0.5).text.plain


def test_a_word_without_its_decision_says_why_there_are_no_bars() -> None:
    state = MonitorState(NODE)
    for token in Sender().stream('stop'):
        state.feed(token, 0.0)
    assert '~/decision keeps nothing' in paint_decision(state, 60, 5, 0.0).text.plain


def test_a_node_that_is_not_there_is_named_with_those_that_are() -> None:
    text = paint_header(state_of(nothing), 100, 2, 0.5).text.plain
    assert 'NOT THERE' in text
    assert 'waiting for /robot_llm; there is /demo_1/robot_llm, /demo_2/robot_llm' in text


def test_an_engine_that_failed_stands_out() -> None:
    state = MonitorState(NODE)
    for event in (Presence(True), Status(state=Status.STATE_FAILED)):
        state.feed(event, 0.0)
    assert 'FAILED' in paint_header(state, 80, 2, 0.5).text.plain


def test_health_leaves_out_zeros_and_what_the_header_shows() -> None:
    rows = dict(health_rows({
        'model': 'x', 'decisions_error': '0', 'wasted_tokens': '3', 'last_refusal': '',
        'tpot_p99_s': '0.02', 'tpot_p50_s': '0.01', 'backend': 'llama.cpp'}))
    assert rows == {'tpot': 'p99  20ms p50  10ms', 'wasted_tokens': '3', 'backend': 'llama.cpp'}


def test_lines_say_what_the_screen_shows() -> None:
    state = MonitorState(NODE)
    writer = LineWriter(state)
    lines = []
    for event in restarted():
        state.feed(event, 0.0)
        lines += writer.lines(event, 0.0)
    assert '01010101 answer begins: continue  scene 0' in lines
    assert '01010101   old' in lines
    assert '01010101 RESTART on scene 2 after 0.75s' in lines
    assert '01010101 DECISION stop by DEADLINE after 0.25s (stop 12%, slow 12%, continue 75%; ' \
        'mass 50%)' in lines
    assert '01010101 END STOP after 1.50s: first 0.25s, 4 tokens, 0.25s each' in lines
    assert lines[-1] == 'node     IDLE, SmolLM2 on CPU'
    assert list(writer.lines(None, 1.0)) == []
    assert list(writer.lines(None, SILENCE_S)) == ['node     SILENT, SmolLM2 on CPU']


@pytest.mark.parametrize(('value', 'text'), [
    (0.0, '–'), (0.0065, '6.5ms'), (0.0412, '41ms'), (0.0999, '0.10s'), (1.234, '1.23s'),
    (9.999, '10s'), (123.4, '123s')])
def test_a_time_is_short(value: float, text: str) -> None:
    assert seconds(value) == text


def test_a_bar_is_as_wide_as_it_should_be_and_a_share_is_never_rounded_away() -> None:
    assert [bar(value, 2) for value in (-1.0, 0.0, 0.25, 0.5, 1.0, 2.0)] == [
        '  ', '  ', '▌ ', '█ ', '██', '██']
    assert [share(value) for value in (0.0, 0.001, 0.5, 1.0)] == ['  0%', ' <1%', ' 50%', '100%']


def test_figures_lose_their_zeros_and_words_stay() -> None:
    assert [number(value) for value in ('0.761900', '12', '1234.5', 'llama.cpp', '-0.500')] == [
        '0.762', '12', '1234', 'llama.cpp', '-0.5']


def test_printable_keeps_every_language() -> None:
    assert printable('grüße\n你好\t🤖') == 'grüße\n你好 🤖'
