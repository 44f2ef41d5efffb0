"""Two reports side by side: only a difference beyond the spread is one."""

from pathlib import Path

import pytest
from robot_llm.bench.diff import Change, diff_lines
from robot_llm.bench.machine import Disturbance
from robot_llm.bench.main import main
from robot_llm.bench.report import Report, SuiteReport
from robot_llm.bench.sample import Figure, Target

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
    ((1.0, 2.0, 3.0), (1.5, 3.0, 4.5), 's', None, 'same'),
    # Steadier than the drift of any machine.
    ((1.0, 1.0, 1.0), (1.01, 1.01, 1.01), 's', None, 'same'),
    ((1.0,), (2.0,), 's', None, 'too few runs'),
    ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 's', None, 'same'),
])
def test_the_verdict_respects_spread_and_direction(
        before, after, unit: str, target, verdict: str) -> None:
    change = Change('s', Figure('f', unit, before, target), Figure('f', unit, after, target))
    assert change.verdict == verdict


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
