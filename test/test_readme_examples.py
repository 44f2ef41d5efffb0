"""The examples in README and docs: they parse, load, and name what exists."""

import ast
from pathlib import Path
import re
import subprocess

from documents import block, code_blocks, DOCUMENTS, each_block, PACKAGE, README, ROOT
import pytest
from robot_llm.profile_file import load_profiles
from robot_llm.settings import Settings
import yaml

BASH = '\n'.join(
    code for path in DOCUMENTS for code in code_blocks(path, 'bash', 'sh')).replace('\\\n', '')


@pytest.mark.parametrize('code', each_block('python'))
def test_a_python_example_parses(code):
    ast.parse(code)


@pytest.mark.parametrize('code', each_block('bash', 'sh'))
def test_a_bash_example_parses(code):
    done = subprocess.run(['bash', '-n'], input=code, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_the_commands_name_files_that_exist():
    for path in re.findall(r'(?<![\w/])((?:scripts|config|test|\.ci)/[\w./-]+)', BASH):
        assert (ROOT / path).exists(), path
    for path in re.findall(r'src/robot_llm/([\w./-]+)', BASH):
        assert (ROOT / path).exists(), path
    for name in re.findall(r'-m (robot_llm[\w.]*)', BASH):
        module = ROOT.joinpath(*name.split('.'))
        assert module.with_suffix('.py').exists() or (module / '__main__.py').exists(), name


def test_the_commands_name_programs_and_arguments_that_exist():
    programs = re.findall(r"'(\w+) = robot_llm", (ROOT / 'setup.py').read_text())
    launch = (ROOT / 'launch' / 'robot_llm.launch.py').read_text()
    arguments = re.findall(r"DeclareLaunchArgument\(\s*'(\w+)'", launch)
    assert set(re.findall(r'ros2 run robot_llm (\w+)', BASH)) <= set(programs)
    assert set(re.findall(r'(\w+):=', BASH)) <= set(arguments)
    listed = re.search(r'Arguments of the launch file: (.*?);', README.read_text(), re.S)
    assert listed and re.findall(r'`(\w+)`', listed[1]) == arguments


def test_the_example_profile_loads(tmp_path):
    code, = re.findall('```yaml\n(.*?)```', block(README, 'profile example'), re.S)
    (tmp_path / 'lift.yaml').write_text(code)
    assert load_profiles(tmp_path)['lift'].decision.fallback == 'hold'


def test_the_example_parameters_are_taken():
    for path in DOCUMENTS:
        for code in code_blocks(path, 'yaml'):
            groups = yaml.safe_load(code).get('/**', {}).get('ros__parameters', {})
            Settings.from_flat({f'{group}.{name}': value for group, values in groups.items()
                                for name, value in values.items()})


# The console example, against the f-strings that print it.

def pattern(node: ast.expr) -> str:
    """Return the regular expression of what an expression of strings prints."""
    match node:
        case ast.Constant(value=str(text)):
            return re.escape(text)
        case ast.JoinedStr(values=parts):
            return ''.join(map(pattern, parts))
        case ast.BinOp(left=left, right=right):
            return pattern(left) + pattern(right)
        case ast.IfExp(body=body, orelse=orelse):
            return f'(?:{pattern(body)}|{pattern(orelse)})'
    return '.*'


def printed_lines(path: Path, *functions: str) -> list[str]:
    """Return a pattern for what each call of ``functions``, or each ``yield``, prints first."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, 'attr', getattr(node.func, 'id', ''))
            if name in functions:
                found.append(pattern(node.args[0]))
        elif isinstance(node, ast.Yield) and 'yield' in functions and node.value:
            found.append(pattern(node.value))
    return [p for p in (p.replace('\\\n', '') for p in found) if p.replace('\\ ', '') not in (
        '', '.*')]


def test_the_console_example_has_the_lines_that_the_demo_prints():
    code, = re.findall('```console\n(.*?)```', block(README, 'demo'), re.S)
    command, *lines = [line for line in code.splitlines() if line.strip()]
    assert command == '$ scripts/demo'
    said = printed_lines(PACKAGE / 'cli' / 'demo.py', 'say', '_say')
    figures = [rf'\ \ \ {p}' for p in printed_lines(PACKAGE / 'cli' / 'report.py', 'yield')]
    word = r'\w+  \[\d+ ms\]'
    for before, line in zip([command, *lines], lines):
        is_detail = re.fullmatch(word, before) is not None
        is_cut = line.strip() == '…'
        assert is_detail or is_cut or any(
            re.fullmatch(p, line) for p in (*said, *figures, word)), line
    for expected in (*said, *figures):
        assert any(re.fullmatch(expected, line) for line in lines), expected
