"""What the monitor shows, as lines of text for a given size; knows no terminal."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text
from robot_llm.cli.monitor_goal import Gap, GoalView
from robot_llm.cli.monitor_state import MonitorState
from robot_llm.cli.monitor_text import bar, printable, seconds, share
from robot_llm.core.session import TokenKind
from robot_llm_msgs.msg import Decision, Token

# A terminal's own 16 colours, and never a colour alone: every one of these has words beside it.
GOOD, BUSY, DOUBT, BAD = 'green', 'cyan', 'yellow', 'red'
QUIET: Final = 'dim'
WORD: Final = 'bold reverse'

STATE_STYLES: Final = {
    'IDLE': GOOD, 'QUEUED': BUSY, 'PREFILL': BUSY, 'DECODE': BUSY, 'STOPPING': DOUBT,
    'LOADING': DOUBT, 'FAILED': BAD, 'HANGS': BAD, 'SILENT': BAD, 'NOT THERE': BAD}
WHOLE: Final = ('STOP', 'LENGTH')

_CONSOLE: Final = Console(width=200, no_color=True, force_terminal=False)
"""Only its rules for the width of characters are used."""


@dataclass(frozen=True, slots=True)
class Painted:
    """The title and the lines of one part of the screen."""

    title: str
    text: Text


def fitted(lines: Iterable[Text], width: int, height: int) -> Text:
    """Return as many lines as there is room for, none of them too long."""
    kept = list(lines)[:height]
    for line in kept:
        line.truncate(width, overflow='ellipsis')
    return Text('\n').join(kept)


def wrapped(text: Text, width: int, height: int, *, is_tail: bool = False) -> Text:
    """Return ``text`` broken into at most ``height`` lines, the last ones if ``is_tail``."""
    lines = list(text.wrap(_CONSOLE, max(width, 1)))
    return Text('\n').join(lines[-height:] if is_tail else lines[:height])


def paint_header(state: MonitorState, width: int, height: int, now_s: float) -> Painted:
    """Return two lines: who and in which state, then what it does."""
    name = state.state_name(now_s)
    badge = Text(f' {name} ', style=f'bold reverse {STATE_STYLES.get(name, DOUBT)}')
    status = state.status
    model = (f'{status.model} on {status.device}' if status is not None and status.model
             else '')
    room = max(width - badge.cell_len - 2, 1)
    left = Text.assemble((' robot_llm ', 'bold'), state.node, '  ', (printable(model), QUIET))
    left.truncate(room, overflow='ellipsis', pad=True)
    lines = [Text.assemble(left, ' ', badge),
             Text(' ').append_text(_activity(state, width, now_s))]
    return Painted('', fitted(lines, width, height))


def _activity(state: MonitorState, width: int, now_s: float) -> Text:
    presence, status = state.presence, state.status
    if presence is not None and not presence.is_there:
        seen = f'; there is {", ".join(presence.others)}' if presence.others else ''
        return Text(f'waiting for {state.node}{seen}', BAD)
    if silence_s := state.silence_s(now_s):
        return Text(f'nothing heard for {silence_s:.0f} s: it hangs, or is gone', BAD)
    if hang_s := state.hang_s(now_s):
        return Text(f'the engine has given no sign of life for {hang_s:.0f} s', BAD)
    if status is None:
        return Text('waiting for its status', QUIET)
    queue = f'  queue {status.queue_length}'
    if not state.running_goal_id:
        return Text.assemble(('no goal runs', QUIET), queue)
    done = status.num_cached_tokens + status.num_prefilled_tokens
    line = Text.assemble(
        (state.running_goal_id.hex()[:8], 'bold'), f'  {seconds(state.elapsed_s(now_s)):>5}',
        queue, f'  answer {status.num_completion_tokens}')
    if status.num_prompt_tokens:
        cells = max(min(width - 64, 24), 8)
        line.append('  prompt ').append(bar(done / status.num_prompt_tokens, cells), BUSY)
        line.append(f' {done}/{status.num_prompt_tokens} ({status.num_cached_tokens} cached)')
    return line


def paint_notice(state: MonitorState, width: int, height: int, now_s: float) -> Painted:
    """Return what the last key did, or why a goal was refused."""
    notice = Text(f' {printable(state.current_notice(now_s))}'.replace('\n', ' '), 'bold')
    return Painted('', fitted([notice], width, height))


def paint_decision(state: MonitorState, width: int, height: int, _now_s: float) -> Painted:
    """Return the decision in force, and each word's probability as a bar."""
    goal = state.current
    if goal is None or not goal.word:
        return Painted('decision', Text(' none yet', QUIET))
    lines = [_verdict(goal)]
    if goal.decisions:
        lines += _bars(goal.decisions[-1], width, height - 1)
    else:
        lines.append(Text(' Seen in the stream only: ~/decision keeps nothing for', QUIET))
        lines.append(Text(' who comes later, so that no old word moves a robot.', QUIET))
    return Painted('decision', fitted(lines, width, height))


def _verdict(goal: GoalView) -> Text:
    line = Text.assemble(' ', (f' {printable(goal.word)} ', WORD))
    if not goal.decisions:
        return line.append(f'  after {seconds(goal.ttft_s)}')
    *before, last = goal.decisions
    source = goal.source
    line.append(f'  {source}', GOOD if source == 'MODEL' else BAD if source == 'ERROR' else DOUBT)
    line.append(f'  after {seconds(last.latency_s)}')
    if before and before[-1].scene_epoch == last.scene_epoch and before[-1].word != last.word:
        line.append('  was ').append(printable(before[-1].word), 'strike')
    return line


def _bars(decision: Decision, width: int, height: int) -> Iterator[Text]:
    if not decision.probabilities:
        yield Text(' the model was not asked', QUIET)
        return
    rows = list(zip(decision.words, decision.probabilities))
    room = max(height - 1, 1)
    if len(rows) > room:
        rows = sorted(rows, key=lambda row: -row[1])[:room]
    cells = min(max(len(word) for word, _ in rows), width // 3)
    for word, probability in rows:
        is_chosen = word == decision.word
        line = Text(' ▸ ' if is_chosen else '   ', 'bold' if is_chosen else '')
        line.append(printable(word)[:cells].ljust(cells) + ' ')
        line.append(bar(probability, max(width - cells - 10, 4)), GOOD if is_chosen else BUSY)
        yield line.append(share(probability).rjust(5))
    rest = len(decision.words) - len(rows)
    mass = share(decision.probability_mass).strip() if decision.probability_mass else ''
    yield Text(f'   confidence {share(decision.confidence).strip()}'
               + (f'   mass {mass}' if mass else '')
               + (f'   {rest} words more' if rest else ''), QUIET)


def paint_answer(state: MonitorState, width: int, height: int, _now_s: float) -> Painted:
    """Return the end of the running goal's stream."""
    goal = state.current
    if goal is None:
        return Painted('answer', Text(' nothing was asked yet', QUIET))
    scene = f', scene {goal.scene_epoch}' if goal.scene_epoch else ''
    lines = wrapped(stream_text(goal), width - 1, height, is_tail=True)
    return Painted(f'answer {goal.short_id}{scene}, {goal.num_completion_tokens} tokens',
                   Text('\n').join(Text(' ').append_text(line) for line in lines.split('\n')))


def stream_text(goal: GoalView) -> Text:
    """Return a goal's stream whole; text that a RESTART made void is struck out."""
    text = Text()
    for piece in goal.pieces():
        if isinstance(piece, Gap):
            text.append(f' [{piece.num_messages} messages lost; r replays] ', DOUBT)
        elif piece.kind == TokenKind.DECISION:
            text.append(f' {printable(piece.text)} ', WORD)
        elif piece.kind == TokenKind.RESTART:
            text.stylize('dim strike')
            text.append(f'\n↻ RESTART on scene {piece.scene_epoch}, after '
                        f'{seconds(piece.elapsed_s)}\n', DOUBT)
        else:
            text.append(printable(piece.text))
    text.append_text(_last_line(goal, goal.end))
    return text


def _last_line(goal: GoalView, end: Token | None) -> Text:
    if end is None:
        return Text('\n✂ the node went away before the END', BAD) if goal.is_cut_off else Text('▌')
    reason = goal.finish_reason
    style = GOOD if reason in WHOLE else BAD if reason == 'ERROR' else DOUBT
    return Text(f'\n■ END {reason} after {seconds(end.elapsed_s)}', style)
