"""``record.path``: decided scenes on disk, and goals that never suffer from it."""

from collections.abc import Callable
from pathlib import Path

from robot_llm.core.request import FinishReason
from robot_llm.record_file import read_records
from ros_planner import Planner


def test_a_decided_scene_is_recorded_with_its_outcome(
    scripted: Callable[..., Planner], tmp_path: Path,
) -> None:
    path = tmp_path / 'records.jsonl'
    planner = scripted(record__path=path)
    planner.publish_scene(1, 'A corridor.')
    planner.answer('say-slow', scene_epoch=1)
    planner.answer('say-continue', scene_epoch=1)
    planner.wait_for(lambda: path.exists() and len(list(read_records(path))) == 2, 'two records')
    first, second = read_records(path)
    assert (first['scene'], first['epoch'], first['word']) == ('A corridor.', 1, 'slow')
    assert second['finish_reason'] == FinishReason.STOP.name


def test_a_disk_that_refuses_costs_the_record_and_not_the_goal(
    scripted: Callable[..., Planner], tmp_path: Path,
) -> None:
    planner = scripted(record__path=tmp_path)  # a folder is no file
    assert planner.answer('say-slow').result.finish_reason == FinishReason.STOP
    planner.node_process.wait_for_log('the scene is not recorded')
    assert planner.answer('say-slow').result.finish_reason == FinishReason.STOP
