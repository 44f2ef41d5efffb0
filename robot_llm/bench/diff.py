"""``bench diff``: two reports → ratios, and a verdict that respects the spread."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from robot_llm.bench.chance import differ
from robot_llm.bench.environment import SAME
from robot_llm.bench.report import Report
from robot_llm.bench.sample import Figure, YES_OR_NO
from robot_llm.bench.table import quantity

NAME_WIDTH: Final = 58
SMALLER_IS_BETTER: Final = ('s', 'bytes', 'MiB')
LARGER_IS_BETTER: Final = ('tokens/s', 'answers/s')
NOISE: Final = 0.02
"""A difference that is smaller is none, however narrow the spread: clocks and caches drift."""


@dataclass(frozen=True, slots=True)
class Change:
    """One figure, before and after."""

    suite: str
    before: Figure
    after: Figure

    @property
    def ratio(self) -> float | None:
        """After ÷ before, of the quoted values; None where there is nothing to divide by."""
        return self.after.quoted / self.before.quoted if self.before.quoted else None

    @property
    def verdict(self) -> str:
        """
        Return what to make of the two: ``same``, ``too few runs``, ``unsure``, or a difference.

        A difference is ``better`` or ``worse``, and ``different`` where nobody said which way is
        good. It is the quoted values that are compared. They differ if they do by more than
        ``NOISE``, and by more than chance; any difference counts where the value was 0, and
        answers of yes or no are no matter of chance. Behind it stands whether a target is met now
        and was not, or the other way round; that is never ``same``.
        """
        before, after = self.before.is_met, self.after.is_met
        has_turned = None not in (before, after) and before != after
        verdict = self._verdict()
        if not has_turned:
            return verdict
        words = {True: 'met', False: 'missed'}
        return (f'{"unsure" if verdict == "same" else verdict}, '
                f'{words[bool(before)]} → {words[bool(after)]}')

    def _verdict(self) -> str:
        before, after = self.before, self.after
        if before.quoted == after.quoted:
            return 'same'
        if after.unit != YES_OR_NO:
            if self.ratio is not None and abs(self.ratio - 1) <= NOISE:
                return 'same'
            if (is_other := differ(before, after)) is None:
                return 'too few runs'
            if not is_other:
                return 'same'
        is_above = after.quoted > before.quoted
        if (target := after.target or before.target) is not None:
            is_good = is_above == target.is_floor
        elif after.unit in SMALLER_IS_BETTER:
            is_good = not is_above
        elif after.unit in LARGER_IS_BETTER:
            is_good = is_above
        else:
            return 'different'
        return 'better' if is_good else 'worse'


def differences(before: Report, after: Report) -> list[str]:
    """Return what forbids a comparison: another machine, another model, other options."""
    found = []
    for group, names in SAME.items():
        for name in names:
            old, new = (report.environment.get(group, {}).get(name) for report in (before, after))
            if old != new:
                found.append(f'{group} {name}: {old} and {new}')
    return found


def changes(before: Report, after: Report) -> Iterator[Change]:
    """Yield every figure that both reports have, in the order of the second."""
    old = {(suite.name, figure.name): figure
           for suite in before.suites for figure in suite.figures}
    for suite in after.suites:
        for figure in suite.figures:
            if (known := old.get((suite.name, figure.name))) and known.unit == figure.unit:
                yield Change(suite.name, known, figure)


def diff_lines(before: Report, after: Report) -> Iterator[str]:
    """Yield the comparison as lines for a terminal."""
    for name, report in (('before', before), ('after', after)):
        facts = report.environment.get('machine', {})
        yield f'{name:7} commit {facts.get("commit", "unknown")}'
        for suite in report.suites:
            if (seen := suite.disturbance) and seen.problems:
                yield f'        {suite.name} was disturbed: {"; ".join(seen.problems)}'
            if suite.error:
                yield f'        {suite.name} ended early: {suite.error}'
    suite_name, shared = '', set()
    for change in changes(before, after):
        shared.add((change.suite, change.after.name))
        if change.suite != suite_name:
            suite_name = change.suite
            yield f'\n{suite_name}'
        ratio = '' if change.ratio is None else f'{change.ratio:.3f}'
        yield (f'  {change.after.name:{NAME_WIDTH}} '
               f'{quantity(change.before.quoted, change.before.unit):>14} '
               f'{quantity(change.after.quoted, change.after.unit):>14} {ratio:>8}  '
               f'{change.verdict}')
    for name, report in (('before', before), ('after', after)):
        alone = [f'{suite.name}: {figure.name}' for suite in report.suites
                 for figure in suite.figures if (suite.name, figure.name) not in shared]
        if alone:
            yield f'\nonly in {name}: {"; ".join(alone)}'
