"""A cancel that comes too late is no cancel: it is asked for sooner, or not measured."""

import argparse
from pathlib import Path
from typing import Any

import pytest
from robot_llm.bench import compare
from robot_llm.bench.compare import CANCEL_AFTER_S, Comparison
from robot_llm.bench.sample import Figure
from robot_llm.bench.suite import Context
from robot_llm.bench.system import Answer, Cancelled, Prompt
from robot_llm.settings import Settings


class Stub:
    """A system that evaluates any prompt in a given time."""

    stops_prefill = True

    def __init__(self, name: str, prefill_s: float) -> None:
        self.name, self._prefill_s = name, prefill_s
        self.asked_s: list[float] = []

    def text_of(self, *args: str) -> str:
        return ''

    def complete(self, prompt: Prompt) -> Answer:
        return Answer(0.0, (0.1,), 1, 'a')

    def cancel(self, long: Prompt, after_s: float, following: Prompt) -> Cancelled:
        self.asked_s.append(after_s)
        is_late = after_s >= self._prefill_s
        return Cancelled(0.2, 0.0 if is_late else 0.003, is_late)


def cancels(prefill_s: float, monkeypatch: pytest.MonkeyPatch) -> tuple[Stub, list[Any]]:
    monkeypatch.setattr(compare, 'long_prompt', lambda *args, **options: Prompt(
        'talk', '', '', options['max_tokens']))
    ours: Any = Stub('robot_llm', prefill_s)
    context = Context(argparse.Namespace(), Settings(), Path(), 2, True)
    return ours, list(Comparison(context, ours, [ours, Stub('other', 9.0)])._cancels())


@pytest.mark.parametrize(('prefill_s', 'after_s'), [(20.0, CANCEL_AFTER_S), (0.2, 0.0625)])
def test_a_prompt_is_given_up_within_its_prefill(prefill_s, after_s, monkeypatch) -> None:
    ours, found = cancels(prefill_s, monkeypatch)
    assert ours.asked_s[-2:] == [after_s] * 2
    figures = {figure.name: figure for figure in found if isinstance(figure, Figure)}
    assert figures['cancel → engine free, robot_llm'].values == (0.003, 0.003)


def test_where_no_cancel_is_soon_enough_a_note_says_so(monkeypatch) -> None:
    _, found = cancels(0.001, monkeypatch)
    assert len(found) == 1 and 'no cancel was measured' in found[0]
