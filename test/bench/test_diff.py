"""Two reports side by side: only a difference beyond the spread is one."""

from pathlib import Path

import pytest
from robot_llm.bench.diff import Change, diff_lines, differences
from robot_llm.bench.machine import Disturbance
from robot_llm.bench.main import main
from robot_llm.bench.report import Report, SuiteReport
from robot_llm.bench.sample import Figure, tail, Target, yes_or_no

MACHINE = {'cpu': 'one', 'cores': 2, 'commit': 'abc'}
MODEL = {'name': 'm', 'fingerprint': 'f', 'quantization': 'Q4_0', 'n_threads': 1, 'n_ctx': 4096}


def report(*values: float, name: str = 'ttft', **model: object) -> Report:
    return Report({'machine': MACHINE, 'model': {**MODEL, **model}},
                  [SuiteReport('sweep', figures=[Figure(name, 's', values)])])


@pytest.mark.parametrize(('before', 'after', 'unit', 'target', 'verdict'), [
    ((1.0, 1.1, 1.2), (2.0, 2.1, 2.2), 's', None, 'worse'),
    ((2.0, 2.1, 2.2), (1.0, 1.1, 1.2), 's', None, 'better'),
    ((1.0, 1.1, 1.2), (2.0, 2.1, 2.2), 'tokens/s', None, 'better'),
    ((1.0, 1.1, 1.2), (2.0, 2.1, 2.2), 'x', None, 'different'),
    ((1.0, 1.1, 1.2), (2.0, 2.1, 2.2), 'x', Target(3.0), 'worse'),
    ((1.0, 1.1, 1.2), (2.0, 2.1, 2.2), 'x', Target(1.0, is_floor=True), 'better'),
    # The medians differ by half, and so do the runs among themselves.
    ((1.0, 2.0, 3.0, 4.0, 5.0), (1.5, 3.0, 4.5, 6.0, 7.5), 's', None, 'same'),
    ((1.0, 2.0, 3.0), (1.5, 3.0, 4.5), 's', None, 'too few runs'),
    # Steadier than the drift of any machine.
    ((1.0, 1.0, 1.0), (1.01, 1.01, 1.01), 's', None, 'same'),
    ((1.0,), (2.0,), 's', None, 'too few runs'),
    # Where there was nothing there is no ratio, and a difference all the same.
    ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 's', None, 'worse'),
    ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 's', None, 'same'),
    ((0.0,) * 9 + (1.0,), (0.0,) * 10, 's', None, 'same'),
])
def test_the_verdict_respects_spread_and_direction(
        before, after, unit: str, target, verdict: str) -> None:
    change = Change('s', Figure('f', unit, before, target), Figure('f', unit, after, target))
    assert change.verdict == verdict


NARROW = tuple(0.004 + 0.002 * run / 99 for run in range(100))


def test_a_tail_that_has_grown_is_worse_though_its_middle_has_not() -> None:
    before, after = (Figure('stop', 's', values, Target(0.035), 'p99')
                     for values in (NARROW, NARROW[:90] + (0.3,) * 10))
    assert Change('s', before, after).verdict == 'worse, met → missed'
    assert Change('s', after, before).verdict == 'better, missed → met'


def test_a_target_that_is_met_no_more_is_never_the_same() -> None:
    runs = (1.02, 1.025, 1.0295, 1.034, 1.04)
    before, after = (Figure('r', 'x', tuple(run + more for run in runs), Target(1.03))
                     for more in (0.0, 0.001))
    assert Change('s', before, after).verdict == 'unsure, met → missed'
    few = (Figure('r', 'x', (value,), Target(1.03)) for value in (1.0, 1.1))
    assert Change('s', *few).verdict == 'too few runs, met → missed'


def test_one_no_more_among_the_answers_is_worse() -> None:
    before, after = (yes_or_no('same text', answers)
                     for answers in ([True] * 6, [True] * 5 + [False]))
    assert Change('s', before, after).verdict == 'worse, met → missed'
    assert Change('s', after, before).verdict == 'better, missed → met'
    assert Change('s', after, after).verdict == 'same'


def test_a_percentile_of_few_values_is_no_percentile() -> None:
    assert [figure.name for figure in tail('gap', (1.0,) * 19)] == ['gap, max']
    assert [figure.name for figure in tail('gap', (1.0,) * 20)] == ['gap, p95', 'gap, max']
    assert [figure.statistic for figure in tail('gap', (1.0,) * 100)] == ['p95', 'p99']


def test_pooled_percentiles_are_compared_by_all_their_values() -> None:
    before, after = (list(tail('gap', values)) for values in (NARROW, NARROW[:90] + (0.3,) * 10))
    assert [Change('s', *pair).verdict for pair in zip(before, after)] == ['worse', 'worse']


def test_a_quick_report_is_not_compared_with_a_full_one() -> None:
    quick, full = report(1.0), report(1.0)
    for made, is_quick in ((quick, True), (full, False)):
        made.environment['options'] = {'runs': 3, 'quick': is_quick}
    assert differences(quick, full) == ['options quick: True and False']
    assert not differences(full, full)


def test_what_only_one_report_has_is_named_and_not_compared() -> None:
    text = '\n'.join(diff_lines(report(1.0, name='old'), report(1.0, name='new')))
    assert 'only in before: sweep: old' in text
    assert 'only in after: sweep: new' in text


def test_another_model_is_refused_unless_forced(tmp_path: Path, capsys) -> None:
    paths = [str(tmp_path / name) for name in ('a.json', 'b.json')]
    report(1.0, 1.0, 1.0).write(Path(paths[0]))
    report(3.0, 3.0, 3.0, quantization='Q8_0').write(Path(paths[1]))
    assert main(['diff', *paths]) == 1
    said = capsys.readouterr()
    assert 'model quantization: Q4_0 and Q8_0' in said.err
    assert not said.out
    assert main(['diff', *paths, '--force']) == 0
    assert '3.000  worse' in capsys.readouterr().out


def test_a_disturbed_run_says_so_in_the_comparison() -> None:
    disturbed = report(1.0)
    disturbed.suites[0].disturbance = Disturbance(1.0, 0.0, 0.0, 1.5, 0, 1.0)
    assert any('sweep was disturbed: others used 1.50 cores' in line
               for line in diff_lines(report(1.0), disturbed))
