"""The table of docs/contract.md: what becomes of a goal, by what happens to it and when."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from documents import block, ROOT, rows
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.errors import ErrorCode

CONTRACT: Final = ROOT / 'docs' / 'contract.md'

STAGES: Final = ('queued', 'prefill', 'before the decision', 'detail', 'last token')
TRIGGERS: Final = (
    'client cancel', 'preempt', 'scene change', 'decision deadline', 'total deadline',
    'deactivate', 'SIGTERM', 'client gone', 'engine error', 'invalid detail', 'length',
    'length, free text')
STATUSES: Final = ('SUCCEEDED', 'CANCELED', 'ABORTED')
ENGINES: Final = ('has not begun', 'stopped', 'goes on', 'failed')
NEXT_GOALS: Final = (
    'at once', 'after activate', 'after cleanup, configure, activate', 'in a new process')

FALLBACK, BY_MODEL = 'fallback', "model's"


@dataclass(frozen=True, slots=True)
class Pair:
    """One trigger in one stage, and all that follows from it."""

    trigger: str
    stage: str
    status: str
    finish_reason: FinishReason
    error_code: ErrorCode
    decisions: tuple[tuple[str, DecisionSource], ...]
    """What is published, in order: FALLBACK or BY_MODEL, and the source."""
    engine: str
    next_goal: str

    @property
    def is_revoked(self) -> bool:
        """A second decision takes the first one back."""
        return len(self.decisions) == 2

    def __str__(self) -> str:
        return f'{self.trigger} x {self.stage}'


def _decision(text: str) -> tuple[str, DecisionSource]:
    if text == BY_MODEL:
        return BY_MODEL, DecisionSource.MODEL
    kind, source = text.split()
    assert kind == FALLBACK, text
    return FALLBACK, DecisionSource[source]


def pairs() -> Iterator[Pair]:
    """Yield every pair of the table, its rows in order, each row once per stage it names."""
    for row in rows(block(CONTRACT, 'matrix')):
        trigger, stages, status, reason, code, decisions, engine, next_goal = (
            cell.strip('`') for cell in row)
        for stage in stages.split(', '):
            yield Pair(
                trigger, stage, status, FinishReason[reason], ErrorCode[code],
                tuple(_decision(text) for text in decisions.split(', then ')), engine, next_goal)
