"""What is printed from the parameter declarations: the README's table and the shipped YAML."""

from collections.abc import Sequence
import json
from textwrap import wrap

from robot_llm.parameter_spec import ParameterSpec, Scalar

_YAML_HEAD = """\
# Every parameter of robot_llm with its default. Generated from robot_llm/settings.py by
#   python3 -m robot_llm.settings > config/robot_llm.yaml
# and compared with it by a test. Copy the file, keep the lines you change, and start with
#   ros2 launch robot_llm robot_llm.launch.py params_file:=/path/to/yours.yaml
# An empty list (`stop: []`) cannot be read by ROS 2: no parameter here is a list.
/**:
  ros__parameters:
"""


def markdown_table(specs: Sequence[ParameterSpec]) -> str:
    """Return a table with one row per parameter: name, default, range, change, meaning."""
    rows = ['| parameter | default | range | while active | meaning |', '|---|---|---|---|---|']
    rows += [
        f'| `{spec.name}` | `{scalar_text(spec.default)}` | {spec.range_text} '
        f'| {"yes" if spec.is_live else "no"} | {spec.description} |' for spec in specs]
    return '\n'.join(rows)


def yaml_text(specs: Sequence[ParameterSpec]) -> str:
    """Return a ROS parameter file that sets every parameter to its default, with comments."""
    lines = []
    group = ''
    for spec in specs:
        parent, _, field = spec.name.rpartition('.')
        if parent != group:
            lines += ['', f'    {parent}:']
            group = parent
        indent = '      ' if parent else '    '
        comment = f'{spec.description} Range: {spec.range_text}.'
        lines += wrap(comment, 99, initial_indent=f'{indent}# ', subsequent_indent=f'{indent}# ')
        lines.append(f'{indent}{field}: {scalar_text(spec.default)}')
    return _YAML_HEAD + '\n'.join(lines) + '\n'


def scalar_text(value: Scalar) -> str:
    """Return ``value`` as YAML that comes back with the same type."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value)
