"""The monitor on a terminal: panels that ask the state, keys that ask the node."""

import asyncio
from collections.abc import Callable
from queue import Empty
import signal
import time
from typing import Any, ClassVar, Final

from rich.text import Text
from robot_llm.cli.monitor_link import MonitorLink
from robot_llm.cli.monitor_state import MonitorState
from robot_llm.cli.monitor_tables import health_text, paint_goals, paint_health
from robot_llm.cli.monitor_view import (
    paint_answer, paint_decision, paint_header, paint_notice, Painted, QUIET, stream_text)
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

PERIOD_S: Final = 0.1
"""Faster than anybody reads, slow enough for a thin line: only what changed is sent."""

KEYS: Final = ' c cancel   r replay   h health   ? help   q quit'

HELP: Final = """\
c   cancel the goal that runs now, whoever sent it. A decision that is out
    stays, without one the fallback goes out; the planner gets CANCELED.
r   replay: ask the node for everything it streamed for the goal on the
    screen, and show it whole. Nothing is generated again.
h   everything the node says on /diagnostics
q   quit; Esc closes a page like this one, arrows and Page Down move in it

decision  the word in force, who made it, how long after the goal it came.
          Bars: the probability of each word. confidence: of the likeliest.
          mass: what part of all that the model might have said they are.
answer    the stream as it comes. For people: nothing may act on it.
goals     first: until the decision; /token: each token behind it; total:
          until the END. Taken from the messages, on the node's clock.
"""

Paint = Callable[[MonitorState, int, int, float], Painted]


class Panel(Static):
    """A part of the screen; sends nothing to the terminal while nothing changes."""

    def __init__(self, name: str, paint: Paint) -> None:
        super().__init__(id=name)
        self._paint = paint
        self.shown = Text()

    def show(self, state: MonitorState, now_s: float) -> None:
        """Paint again if there is something else to see."""
        if self.size.height < 1:
            return
        painted = self._paint(state, self.size.width, self.size.height, now_s)
        if self.border_title != f' {painted.title} ':
            self.border_title = f' {painted.title} '
        if self.shown != painted.text:
            self.shown = painted.text
            self.update(painted.text)


class Page(ModalScreen[None]):
    """Text to read and to scroll, on the whole screen until a key closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding('escape,q,r,h,question_mark', 'dismiss', 'close')]

    def __init__(self, title: str, text: Callable[[], Text]) -> None:
        super().__init__()
        self._title, self._text, self.shown = title, text, Text()

    def compose(self) -> ComposeResult:
        """Lay one scrolling text over the panels."""
        with VerticalScroll() as page:
            page.border_title = self._title
            page.border_subtitle = 'Esc closes'
            yield Static(id='text')

    def on_mount(self) -> None:
        """Take the keys, and follow what changes."""
        self.query_one(VerticalScroll).focus()
        self.set_interval(PERIOD_S, self.refresh_text)
        self.refresh_text()

    def refresh_text(self) -> None:
        """Show the text again if it has changed."""
        text = self._text()
        if text != self.shown:
            self.shown = text
            self.query_one('#text', Static).update(text)


class Monitor(App[int]):
    """
    One screen; the main thread runs it, the link's thread fills its events.

    :param link: the connection to the node
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #header { height: 2; }
    #upper { height: 1fr; min-height: 6; }
    #decision { width: 11fr; height: 100%; }
    #health { width: 9fr; height: 100%; }
    #answer { height: 1.4fr; min-height: 5; }
    #goals { height: 1fr; min-height: 4; }
    #notice, #keys { height: 1; }
    #keys { text-style: reverse; }
    #decision, #health, #answer, #goals { border-top: solid ansi_default; }
    #decision, #health, #answer, #goals { border-title-style: bold; }
    .-narrow #health { display: none; }
    .-low #goals { display: none; }
    Page { align: center middle; }
    Page VerticalScroll { border: round ansi_default; padding: 0 1; }
    """
    HORIZONTAL_BREAKPOINTS = [(0, '-narrow'), (70, '-wide')]
    VERTICAL_BREAKPOINTS = [(0, '-low'), (20, '-high')]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding('c', 'cancel_goal'), Binding('r', 'replay'), Binding('h', 'health'),
        Binding('question_mark', 'help'), Binding('q', 'quit'),
        Binding('ctrl+c', 'quit', priority=True)]

    def __init__(self, link: MonitorLink, state: MonitorState) -> None:
        # The terminal's own colours; with NO_COLOR Textual then sends none at all.
        super().__init__(ansi_color=True)
        self._link = link
        self.state = state

    def compose(self) -> ComposeResult:
        """Lay out the panels."""
        yield Panel('header', paint_header)
        with Horizontal(id='upper'):
            yield Panel('decision', paint_decision)
            yield Panel('health', paint_health)
        yield Panel('answer', paint_answer)
        yield Panel('goals', paint_goals)
        yield Panel('notice', paint_notice)
        yield Static(KEYS, id='keys')

    def on_mount(self) -> None:
        """Begin to look at what comes; end as a terminal program does when it is told to."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self.exit)
        self.set_interval(PERIOD_S, self.tick)

    def tick(self) -> None:
        """Take what has come and show what has changed."""
        now_s = time.monotonic()
        for event in take_all(self._link):
            self.state.feed(event, now_s)
        # Empty while it ends: the timer may be due once more.
        for screen in self.screen_stack[:1]:
            for panel in screen.query(Panel):
                panel.show(self.state, now_s)

    def action_cancel_goal(self) -> None:
        """Cancel what runs."""
        goal_id = self.state.running_goal_id
        if goal_id:
            self._link.cancel(goal_id)
        self.state.say(f'cancel {goal_id.hex()[:8]} …' if goal_id else 'nothing runs',
                       time.monotonic())

    def action_replay(self) -> None:
        """Show the goal on the screen whole, as the node remembers it."""
        goal = self.state.current
        if goal is None:
            self.state.say('nothing was asked yet', time.monotonic())
            return
        self.state.replay = None
        self._link.replay(goal.goal_id)
        self.push_screen(Page(f'replay {goal.short_id}', lambda: Text.assemble(
            (f'{replay_line(self.state)}\n\n', QUIET), stream_text(goal))))

    def action_health(self) -> None:
        """Show all of the diagnostics."""
        self.push_screen(Page('health', lambda: health_text(self.state, time.monotonic())))

    def action_help(self) -> None:
        """Show what the keys and the panels mean."""
        self.push_screen(Page('help', lambda: Text(HELP)))


def replay_line(state: MonitorState) -> str:
    """Return what the node answered to the replay."""
    if state.replay is None:
        return 'asking ~/replay …'
    response = state.replay.response
    if response is None:
        return '~/replay does not answer; this is what was seen here'
    if response.lost:
        return 'the node has forgotten this goal; this is what was seen here'
    return (f'{len(response.tokens)} messages, '
            + ('whole' if response.complete else 'still running'))


def take_all(link: MonitorLink) -> list[Any]:
    """Return every event that is there now."""
    events: list[Any] = []
    try:
        while True:
            events.append(link.events.get_nowait())
    except Empty:
        return events


def run_screen(link: MonitorLink, node: str) -> int:
    """Watch until a key or a signal ends it."""
    # Without the mouse: the terminal's own marking and copying goes on working.
    Monitor(link, MonitorState(node)).run(mouse=False)
    return 0
