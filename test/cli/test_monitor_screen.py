"""The monitor's screen on a terminal that is not there: keys, pages, sizes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from queue import Queue
from typing import Any

from monitor_messages import diagnostics, idle, NODE, Sender
import pytest
from robot_llm.cli.monitor import parse_args, why_plain
from robot_llm.cli.monitor_screen import KEYS, Monitor, Page, Panel
from robot_llm.cli.monitor_state import MonitorState, Presence, ReplayAnswer
from robot_llm_msgs.srv import Replay
from textual.pilot import Pilot
from textual.widgets import Static


class FakeLink:
    """What the screen knows of the graph; writes down what it is asked for."""

    def __init__(self, *events: object) -> None:
        self.events: Queue[Any] = Queue()
        self.asked: list[tuple[str, bytes]] = []
        for event in (Presence(True), *events):
            self.events.put(event)

    def cancel(self, goal_id: bytes) -> None:
        """Note a cancel."""
        self.asked.append(('cancel', goal_id))

    def replay(self, goal_id: bytes) -> None:
        """Note a replay."""
        self.asked.append(('replay', goal_id))


def on_screen(
    link: FakeLink, act: Callable[[Monitor, Pilot[int]], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
) -> Monitor:
    """Run the screen while ``act`` presses keys; every event has been shown before it."""
    async def run() -> Monitor:
        monitor = Monitor(link, MonitorState(NODE))  # type: ignore[arg-type]
        async with monitor.run_test(size=size) as pilot:
            await shown(monitor, pilot)
            await act(monitor, pilot)
        return monitor

    return asyncio.run(run())


async def shown(monitor: Monitor, pilot: Pilot[int]) -> None:
    """Show what has come, without waiting for the next period."""
    monitor.tick()
    await pilot.pause()
    monitor.tick()
    await pilot.pause()


def text_of(monitor: Monitor, name: str) -> str:
    """Return what a panel shows."""
    return monitor.screen_stack[0].query_one(f'#{name}', Panel).shown.plain


def page_text(monitor: Monitor) -> str:
    """Return what the open page shows."""
    assert isinstance(monitor.screen, Page)
    return str(monitor.screen.query_one('#text', Static).render())


def test_every_panel_shows_its_part() -> None:
    sender = Sender()

    async def look(monitor: Monitor, pilot: Pilot[int]) -> None:
        assert 'IDLE' in text_of(monitor, 'header')
        assert text_of(monitor, 'decision').startswith('  continue   MODEL')
        assert 'OK' in text_of(monitor, 'health')
        assert '■ END STOP' in text_of(monitor, 'answer')
        assert '01010101' in text_of(monitor, 'goals')
        assert monitor.screen.query_one('#answer', Panel).border_title.strip() == (
            'answer 01010101, 2 tokens')

    on_screen(FakeLink(sender.decision('continue'), *sender.stream('continue', 'yes'),
                       diagnostics(), idle()), look)


def test_c_cancels_what_runs_and_only_that() -> None:
    sender = Sender()
    link = FakeLink(sender.status())

    async def cancel(monitor: Monitor, pilot: Pilot[int]) -> None:
        await pilot.press('c')
        assert link.asked == [('cancel', sender.goal_id)]
        link.events.put(idle())
        await shown(monitor, pilot)
        await pilot.press('c')
        await shown(monitor, pilot)
        assert 'nothing runs' in text_of(monitor, 'notice')

    on_screen(link, cancel)
    assert len(link.asked) == 1


def test_r_shows_what_the_node_remembers() -> None:
    sender = Sender()
    tokens = sender.stream('stop', 'a', 'b')
    link = FakeLink(tokens[0], tokens[-1])

    async def replay(monitor: Monitor, pilot: Pilot[int]) -> None:
        await pilot.press('r')
        await pilot.pause()
        assert link.asked == [('replay', sender.goal_id)]
        assert 'asking ~/replay' in page_text(monitor)
        assert '[2 messages lost' in page_text(monitor)
        link.events.put(ReplayAnswer(sender.goal_id, Replay.Response(
            tokens=tokens, complete=True)))
        await shown(monitor, pilot)
        monitor.screen.refresh_text()
        assert '4 messages, whole' in page_text(monitor) and ' stop ab\n' in page_text(monitor)
        await pilot.press('escape')
        assert not isinstance(monitor.screen, Page)

    on_screen(link, replay)


@pytest.mark.parametrize(('answer', 'said'), [
    (None, 'does not answer'), (Replay.Response(lost=True), 'has forgotten'),
    (Replay.Response(), 'still running')])
def test_a_replay_that_brings_nothing_says_why(answer: Any, said: str) -> None:
    sender = Sender()
    link = FakeLink(*sender.stream('stop'))

    async def replay(monitor: Monitor, pilot: Pilot[int]) -> None:
        await pilot.press('r')
        link.events.put(ReplayAnswer(sender.goal_id, answer))
        await shown(monitor, pilot)
        monitor.screen.refresh_text()
        assert said in page_text(monitor) and 'END STOP' in page_text(monitor)

    on_screen(link, replay)


@pytest.mark.parametrize(('key', 'said'), [('question_mark', 'cancel the goal'), ('h', 'ttft')])
def test_pages_open_and_close(key: str, said: str) -> None:
    async def turn(monitor: Monitor, pilot: Pilot[int]) -> None:
        await pilot.press(key)
        await pilot.pause()
        assert said in page_text(monitor)
        await pilot.press('q')
        assert not isinstance(monitor.screen, Page)

    on_screen(FakeLink(diagnostics(ttft_p50_s='0.34')), turn)


@pytest.mark.parametrize('key', ['q', 'ctrl+c'])
def test_a_key_ends_it(key: str) -> None:
    async def end(monitor: Monitor, pilot: Pilot[int]) -> None:
        await pilot.press(key)

    assert on_screen(FakeLink(), end).return_code == 0


@pytest.mark.parametrize('size', [(80, 24), (40, 12), (200, 60), (20, 6)])
def test_it_follows_the_size_of_the_terminal(size: tuple[int, int]) -> None:
    sender = Sender()

    async def resize(monitor: Monitor, pilot: Pilot[int]) -> None:
        await pilot.resize_terminal(*size)
        await shown(monitor, pilot)
        assert text_of(monitor, 'header')
        is_narrow, is_low = size[0] < 70, size[1] < 20
        assert monitor.query_one('#health').display is not is_narrow
        assert monitor.query_one('#goals').display is not is_low

    on_screen(FakeLink(sender.decision('continue'), *sender.stream('continue', 'yes'),
                       diagnostics(), idle()), resize)


def test_without_a_terminal_that_moves_its_cursor_there_are_lines() -> None:
    able = {'TERM': 'screen-256color'}
    assert why_plain(able, is_terminal=True, has_textual=True) == ''
    assert why_plain(able, is_terminal=False, has_textual=True) == 'no terminal'
    assert 'TERM=dumb' in why_plain({'TERM': 'dumb'}, is_terminal=True, has_textual=True)
    assert 'pip install textual' in why_plain(able, is_terminal=True, has_textual=False)


def test_a_node_is_named_with_or_without_a_slash() -> None:
    assert parse_args(['--node', 'demo/robot_llm']).node == '/demo/robot_llm'
    assert parse_args(['--ros-args', '-r', '__ns:=/x']).node == '/robot_llm'


def test_the_page_shows_a_screen_of_80_by_24_and_names_every_key() -> None:
    page = (Path(__file__).parents[2] / 'docs' / 'monitor.md').read_text(encoding='utf-8')
    shown = page.split('```text\n')[1].split('\n```')[0].split('\n')
    assert len(shown) == 24 and max(map(len, shown)) <= 80
    assert shown[-1] == KEYS
    for key in 'crhq?':
        assert f'| `{key}`' in page
