"""The programs that ``ros2 run`` starts: colcon and scripts/setup install the same ones."""

import importlib
from pathlib import Path
import re

ROOT = Path(__file__).parents[2]


def test_both_ways_to_install_give_the_same_programs() -> None:
    by_colcon = dict(re.findall(
        r"'(\w+) = (robot_llm\.[\w.]+):main'", (ROOT / 'setup.py').read_text(encoding='utf-8')))
    by_setup = dict(re.findall(
        r'\b(\w+):(robot_llm\.[\w.]+)',
        (ROOT / 'scripts' / 'lib' / 'packages.sh').read_text(encoding='utf-8')))
    assert by_colcon == by_setup
    assert set(by_colcon) >= {'node', 'ask', 'demo', 'monitor'}
    for module in by_colcon.values():
        assert callable(importlib.import_module(module).main)
