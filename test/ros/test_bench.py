"""The benchmark through ROS: a node and its client, a process each."""

import json
from pathlib import Path
import subprocess
import sys

from robot_llm.bench.timeline import STAGES

TIMEOUT_S = 300.0
NUM_GOALS = 3


def test_the_suite_request_measures_every_part_and_the_parts_make_up_the_whole(
    ros_domain: int, model_path: Path, tmp_path: Path,
) -> None:
    path = tmp_path / 'report.json'
    done = subprocess.run(
        [sys.executable, '-m', 'robot_llm.bench', 'request', '--quick', '--runs', '1', '--quiet',
         '--model', str(model_path), '--json', str(path)],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    suite, = json.loads(path.read_text())['suites']
    assert suite['name'] == 'request' and suite['error'] == ''
    values = {figure['name']: figure['values'] for figure in suite['figures']}
    assert all(len(values[name]) == NUM_GOALS for name in (
        'time to decision', 'TTFT', 'E2E', 'TPOT, through ROS', 'TPOT, engine alone',
        *(f'TTFT, part: {stage}' for stage in STAGES)))
    # Each goal's parts come from the node and from stamps, the whole from the client's own clock.
    for goal in range(NUM_GOALS):
        parts = [values[f'TTFT, part: {stage}'][goal] for stage in STAGES]
        # The way back begins while the publishers are still being called.
        overlap_s = values['TTFT, part: publish'][goal] + 1e-3
        assert -1e-3 < sum(parts) - values['TTFT'][goal] < overlap_s
        assert 0 < min(parts)
        assert values['TTFT, by the node'][goal] < values['TTFT'][goal] + overlap_s
    assert len(values['inter-token gap']) == NUM_GOALS * 63
    # Published or held back, the engine does the same; the streamer has nothing to do then.
    assert set(values['decodes, published - held back']) == {0.0}
    work = 'processor time per token, '
    assert sum(values[f'{work}streamer, held back']) < sum(values[f'{work}streamer, published'])
    assert min(values[f'{work}engine, held back'] + values[f'{work}engine, published']) > 0
    assert {plot['name'] for plot in suite['plots']} == {
        'request_ttft', 'request_gaps', 'request_tpot', 'request_work'}
