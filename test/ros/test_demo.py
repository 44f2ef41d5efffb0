"""The demonstration, as ``scripts/demo --json`` runs it behind its set-up."""

import json
from pathlib import Path
import subprocess
import sys

from robot_llm.cli.demo import LOAD_TIMEOUT_S
from robot_llm.core.session import TokenKind
from robot_llm_msgs.msg import GenerationStats

TIMEOUT_S = 240.0


def test_the_demonstration_prints_one_object_and_everything_in_it_is_as_it_should_be(
    ros_domain: int, model_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, '-m', 'robot_llm.cli.demo', '--json', '--model', str(model_path)],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report['ok'] is True and report['problems'] == []
    assert report['model'] and report['device']
    goals = report['goals']
    assert [goal['finish_reason'] for goal in goals] == [
        'STOP', 'SCENE_CHANGED', 'PREEMPTED', 'STOP']
    assert isinstance(goals[0]['detail'], dict)
    fields = set(GenerationStats.get_fields_and_field_types())
    stages = ('queue_s', 'template_s', 'tokenize_s', 'prefix_lookup_s', 'prefill_s', 'sample_s',
              'publish_s')
    for goal in goals:
        assert set(goal['stats']) == fields
        assert goal['stream_equals_result'] is True
        assert sum(goal['probabilities'].values()) == 0 or abs(
            sum(goal['probabilities'].values()) - 1) < 1e-4
        assert abs(goal['stats']['ttft_s'] - sum(goal['stats'][s] for s in stages)) <= 1e-3
    assert goals[1]['stats']['num_wasted_tokens'] <= 1
    assert 0 < goals[1]['stats']['cancel_latency_s'] < 3 * goals[1]['stats']['tpot_s']


def test_a_model_that_is_not_there_ends_it_with_the_nodes_own_words(
    ros_domain: int, tmp_path: Path,
) -> None:
    path = tmp_path / 'no.gguf'
    path.write_bytes(b'no model')
    done = subprocess.run(
        [sys.executable, '-m', 'robot_llm.cli.demo', '--json', '--model', str(path)],
        capture_output=True, text=True, timeout=LOAD_TIMEOUT_S / 2, check=False)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report['ok'] is False
    assert 'it is no GGUF file' in report['problems'][0]
    assert 'it is no GGUF file' in done.stderr
    assert 'Traceback' not in done.stderr
    assert TokenKind.END.name not in done.stderr
