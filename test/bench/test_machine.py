"""The machine named, and what disturbed a run."""

from dataclasses import replace
from pathlib import Path
import shutil
import subprocess

import pytest
from robot_llm.bench.machine import busy_s, commit, describe, Disturbance, Watch

CALM = Disturbance(elapsed_s=10.0, load_before=0.1, load_after=1.0, others_share=0.01,
                   involuntary_switches=3, calibration_spread=1.02)


def test_a_machine_has_a_processor_cores_and_versions() -> None:
    about = describe()
    assert about['cores'] >= 1
    assert all(about[key] for key in ('cpu', 'system', 'python', 'llama_cpp_python', 'numpy'))


@pytest.mark.skipif(shutil.which('git') is None, reason='git is not installed')
def test_a_changed_source_tree_is_told_from_its_commit(tmp_path: Path) -> None:
    assert commit(tmp_path) == ''
    (tmp_path / 'a').write_text('1')
    # Signatures and hooks that the user has configured are no matter of this test.
    options = ('user.name=n', 'user.email=e@x', 'commit.gpgsign=false', 'core.hooksPath=/none')
    git = ['git', '-C', str(tmp_path), *(word for option in options for word in ('-c', option))]
    for command in (['init', '-q'], ['add', 'a'], ['commit', '-qm', 'm']):
        subprocess.run(git + command, check=True)
    clean = commit(tmp_path)
    assert len(clean) >= 7
    (tmp_path / 'a').write_text('2')
    assert commit(tmp_path) == clean + '+'


def test_a_calm_run_has_no_problem_and_a_disturbed_one_says_which() -> None:
    assert CALM.problems == ()
    assert replace(CALM, others_share=0.5).problems == ('others used 0.50 cores',)
    assert 'equal work took' in replace(CALM, calibration_spread=1.5).problems[0]
    assert replace(CALM, others_share=None).problems == ()


def test_stolen_time_is_busy_and_waiting_is_not(tmp_path: Path) -> None:
    stat = tmp_path / 'stat'
    stat.write_text('cpu  100 0 50 9999 777 10 10 30 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n')
    assert busy_s(stat) == 2.0
    assert busy_s(tmp_path / 'none') == 0.0


def test_a_node_that_somebody_runs_is_not_told_from_others() -> None:
    assert Watch(knows_others=False).stop().others_share is None


def test_a_watch_counts_from_its_beginning() -> None:
    watch = Watch()
    watch.calibrate()
    seen = watch.stop()
    assert seen.elapsed_s > 0
    assert seen.calibration_spread >= 1.0
    assert seen.others_share >= 0.0
