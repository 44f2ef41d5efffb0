"""Imports point inward: what each part of the package may know about the others and the world."""

import ast
from collections.abc import Iterator
from pathlib import Path
import sys

import pytest

PACKAGE = Path(__file__).parents[1] / 'robot_llm'
MODULES = sorted(PACKAGE.rglob('*.py'))

# From the inside out; a part knows its own layer and those before it. A module that lies directly
# in the package (errors, settings, profile, roofline, ...) is the ground floor.
GROUND_FLOOR = 'ground floor'
LAYERS = (
    {GROUND_FLOOR},
    {'core'},
    {'engine'},
    {'ros'},
    {'cli', 'bench', 'evaluation'},
)
ROS_HOMES = {'ros', 'cli', 'bench'}
HOMES_OF = {
    # bench: the bare loop that the engine is compared with
    'llama_cpp': {'engine', 'bench'},
    'llguidance': {'engine'},
    'ament_index_python': ROS_HOMES,
    'rclpy': ROS_HOMES,
    **dict.fromkeys((
        'action_msgs', 'builtin_interfaces', 'diagnostic_msgs', 'lifecycle_msgs', 'rcl_interfaces',
        'robot_llm_msgs', 'std_msgs', 'std_srvs', 'unique_identifier_msgs'), ROS_HOMES),
}
# The core gets time, randomness and I/O as arguments.
WORLD = {
    'asyncio', 'io', 'logging', 'os', 'pathlib', 'queue', 'random', 'secrets', 'select', 'shutil',
    'socket', 'subprocess', 'sys', 'tempfile', 'threading', 'time', 'uuid',
}


def part_of(path: Path) -> str:
    """Return the layer's member that the file ``path`` is in."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else GROUND_FLOOR


def part_of_name(name: str) -> str:
    """Return the same for a dotted name inside the package, such as ``core.prompt``."""
    first = name.split('.')[0]
    return first if (PACKAGE / first).is_dir() else GROUND_FLOOR


def layer_of(part: str) -> int:
    """Return how far out ``part`` lies."""
    return next(i for i, members in enumerate(LAYERS) if part in members)


def imports(path: Path) -> Iterator[str]:
    """Yield every dotted name that ``path`` imports, wherever in the file it does so."""
    package = ('robot_llm', *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[:len(package) - node.level + 1] if node.level else ()
            # `from robot_llm import core` names a part after `import` only.
            yield from (
                '.'.join(filter(None, (*base, node.module, alias.name))) for alias in node.names)


def test_every_folder_is_in_a_layer() -> None:
    assert {part_of(path) for path in MODULES} <= set().union(*LAYERS)


@pytest.mark.parametrize('path', MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_inward(path: Path) -> None:
    part = part_of(path)
    for name in imports(path):
        root, *rest = name.split('.')
        home = HOMES_OF.get(root, {part})
        assert part in home, f'{name} belongs in {sorted(home)}'
        if root == 'robot_llm' and rest:
            known = part_of_name('.'.join(rest))
            assert layer_of(known) <= layer_of(part), f'{part} must not know {name}'


@pytest.mark.parametrize(
    'path', sorted((PACKAGE / 'core').glob('*.py')), ids=lambda path: path.name)
def test_the_core_touches_no_clock_no_dice_no_files(path: Path) -> None:
    assert WORLD <= sys.stdlib_module_names
    # A lock starts no thread; it latches the terminal reason of a request once.
    names = set(imports(path)) - {'threading.Lock'}
    found = {name.split('.')[0] for name in names} & WORLD
    assert not found, f'pass it in as an argument: {sorted(found)}'
