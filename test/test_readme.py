"""
README and docs say what the code says.

``python test/test_readme.py`` writes the printed blocks anew.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, IntEnum
from pathlib import Path
import re
import subprocess
import typing

from pydantic import BaseModel
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason, RequestEvent, RequestStatus, TRANSITIONS
from robot_llm.core.session import TokenKind
from robot_llm.errors import ErrorCode
from robot_llm.parameter_group import SamplingParams
from robot_llm.profile import ResponseProfile
from robot_llm.profile_file import load_profiles
from robot_llm.settings import parameter_table_markdown, Settings
import yaml

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / 'robot_llm'
README = ROOT / 'README.md'
ARCHITECTURE = ROOT / 'docs' / 'architecture.md'
DOCUMENTS = sorted((*ROOT.glob('*.md'), *(ROOT / 'docs').glob('*.md')))
FLOORS = ('', 'core', 'engine', 'ros', 'cli', 'bench', 'evaluation')


# What is printed from the code.

def transition_diagram(
    table: Mapping[tuple[RequestStatus, RequestEvent], RequestStatus],
) -> str:
    """Return a mermaid state diagram of ``table``, in its order."""
    arrows = [f'    {source.name} --> {target.name}: {event.name}'
              for (source, event), target in table.items()]
    sources = [source for source, _ in table]
    ends = [status for status in dict.fromkeys(table.values()) if status not in sources]
    return '\n'.join([
        '```mermaid', 'stateDiagram-v2', f'    [*] --> {sources[0].name}', *arrows,
        *(f'    {status.name} --> [*]' for status in ends), '```'])


def module_table() -> str:
    """Return a table of every module and the first line of its docstring, floor by floor."""
    rows = ['| module | in one sentence |', '|---|---|']
    for floor in FLOORS:
        for path in sorted((PACKAGE / floor).glob('*.py')):
            if path.name != '__init__.py':
                name = path.relative_to(PACKAGE).as_posix()
                rows.append(f'| `{name}` | {docstring(path).splitlines()[0]} |')
    return '\n'.join(rows)


PRINTED: tuple[tuple[Path, str, Callable[[], str]], ...] = (
    (README, 'transitions', lambda: transition_diagram(TRANSITIONS)),
    (README, 'parameters', parameter_table_markdown),
    (ARCHITECTURE, 'modules', module_table),
)


# How documents and sources are read.

def docstring(path: Path) -> str:
    """Return the module docstring of a Python file."""
    return ast.get_docstring(ast.parse(path.read_text(encoding='utf-8'))) or ''


def block(path: Path, marker: str) -> str:
    """Return what stands between ``<!-- marker -->`` and ``<!-- /marker -->``."""
    found = re.search(
        f'<!-- {marker} -->\n(.*?)<!-- /{marker} -->', path.read_text(encoding='utf-8'), re.DOTALL)
    assert found, f'{path.name} lacks the markers <!-- {marker} --> and <!-- /{marker} -->'
    return found[1].strip()


def rows(table: str) -> list[list[str]]:
    """Return the cells of a Markdown table, without its head."""
    return [[cell.strip() for cell in line[1:-1].split('|')] for line in table.splitlines()[2:]]


def code_blocks(path: Path, *languages: str) -> list[str]:
    """Return the fenced blocks of ``path`` in these languages."""
    found = re.findall(r'^```(\w+)\n(.*?)^```', path.read_text(encoding='utf-8'), re.M | re.S)
    return [code for language, code in found if language in languages]


def each_block(language: str) -> list[typing.Any]:
    """Return every block in ``language`` as a parameter of a test."""
    return [pytest.param(code, id=f'{path.name}-{index}') for path in DOCUMENTS
            for index, code in enumerate(code_blocks(path, language))]


BASH = '\n'.join(
    code for path in DOCUMENTS for code in code_blocks(path, 'bash')).replace('\\\n', '')


# Blocks that are printed, and tables that are compared.

@pytest.mark.parametrize(('path', 'marker', 'make'), PRINTED, ids=lambda item: str(item)[-20:])
def test_a_printed_block_is_what_the_code_prints(path, marker, make):
    assert block(path, marker) == make(), 'run: python test/test_readme.py'


def test_every_module_says_in_one_sentence_what_it_is():
    for path in PACKAGE.rglob('*.py'):
        if path.name != '__init__.py':
            assert docstring(path).splitlines(), path


@pytest.mark.parametrize('enum', [FinishReason, DecisionSource, TokenKind, ErrorCode])
def test_a_table_of_an_enumeration_has_its_members_in_order(enum: type[IntEnum]):
    table = [(int(row[0]), row[1]) for row in rows(block(README, enum.__name__))]
    assert table == [(member.value, member.name) for member in enum]


@pytest.mark.parametrize(('enum', 'file', 'prefix'), [
    (FinishReason, 'action/Generate.action', 'FINISH_'),
    (FinishReason, 'msg/Token.msg', 'FINISH_'),
    (ErrorCode, 'action/Generate.action', 'ERROR_'),
    (TokenKind, 'msg/Token.msg', 'KIND_'),
    (DecisionSource, 'msg/Decision.msg', 'SOURCE_'),
])
def test_an_enumeration_is_the_same_on_the_wire(enum: type[Enum], file: str, prefix: str):
    text = (ROOT / 'robot_llm_msgs' / file).read_text(encoding='utf-8')
    wire = {name: int(value) for name, value in re.findall(
        rf'^uint\d+ {prefix}(\w+)=(\d+)', text, re.M)}
    assert wire.pop('UNSET', 0) == 0
    assert wire == {member.name: member.value for member in enum}


def test_the_comments_of_the_interfaces_name_parameters_that_exist():
    known = {f'{group}.{name}' for group, field in Settings.model_fields.items()
             if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
             for name in field.annotation.model_fields}
    for path in sorted((ROOT / 'robot_llm_msgs').glob('*/*')):
        named = set(re.findall(r'`(\w+\.\w+)`', path.read_text(encoding='utf-8')))
        assert named <= known, path.name


def test_the_interface_table_names_what_the_node_opens():
    named = set(re.findall(r'`([~/][\w/]+)`', block(README, 'interfaces')))
    sources = ''.join(path.read_text() for path in (PACKAGE / 'ros').glob('*.py'))
    assert named == set(re.findall(r"'((?:~/|/diag)\w+)'", sources))


def test_the_table_of_profile_keys_has_every_key():
    def keys(model: type[BaseModel], prefix: str = '') -> Iterator[str]:
        for name, field in model.model_fields.items():
            inner = [t for t in (field.annotation, *typing.get_args(field.annotation))
                     if isinstance(t, type) and issubclass(t, BaseModel)]
            is_list = typing.get_origin(field.annotation) is tuple
            if inner and inner[0] is SamplingParams:
                yield f'{prefix}{name}.*'
            elif inner:
                yield from keys(inner[0], f'{prefix}{name}{"[]" if is_list else ""}.')
            else:
                yield prefix + name

    table = [row[0].strip('`') for row in rows(block(README, 'profile keys'))]
    assert sorted(table) == sorted(set(keys(ResponseProfile)) - {'name'})


# Examples.

@pytest.mark.parametrize('code', each_block('python'))
def test_a_python_example_parses(code):
    ast.parse(code)


@pytest.mark.parametrize('code', each_block('bash'))
def test_a_bash_example_parses(code):
    done = subprocess.run(['bash', '-n'], input=code, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_the_commands_name_files_that_exist():
    for path in re.findall(r'(?<![\w/])((?:scripts|config|test|\.ci)/[\w./-]+)', BASH):
        assert (ROOT / path).exists(), path
    for path in re.findall(r'src/robot_llm/([\w./-]+)', BASH):
        assert (ROOT / path).exists(), path
    for name in re.findall(r'-m (robot_llm[\w.]*)', BASH):
        assert ROOT.joinpath(*name.split('.')).with_suffix('.py').exists(), name


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


# Every document.

@pytest.mark.parametrize('path', DOCUMENTS, ids=lambda path: path.name)
def test_every_link_inside_the_repository_leads_somewhere(path):
    text = path.read_text(encoding='utf-8')
    for target in re.findall(r'\]\(([^)\s]+)\)', text):
        if re.match(r'https?:', target):
            continue
        name, _, anchor = target.partition('#')
        file = (path.parent / name) if name else path
        assert file.exists(), target
        if anchor:
            heads = re.findall(r'^#+ (.*)', file.read_text(encoding='utf-8'), re.M)
            assert anchor in [
                re.sub(r'[^\w -]', '', head).lower().replace(' ', '-') for head in heads], target


@pytest.mark.parametrize('path', DOCUMENTS, ids=lambda path: path.name)
def test_a_document_keeps_to_a_hundred_columns_and_to_no_machine(path):
    for line in path.read_text(encoding='utf-8').splitlines():
        assert line.startswith('|') or len(line) <= 100, line
        assert not re.search(r'/(root|home|Users|work)/', line), line


def test_the_changelog_is_one_that_catkin_reads():
    changelog = pytest.importorskip('catkin_pkg.changelog')
    assert changelog.get_changelog_from_path(str(ROOT), 'robot_llm')


def write_printed_blocks() -> None:
    """Write every printed block anew, between its markers."""
    for path, marker, make in PRINTED:
        text = path.read_text(encoding='utf-8')
        parts = re.split(f'(<!-- /?{marker} -->)', text)
        assert len(parts) == 5, f'{path.name}: {marker}'
        parts[2] = f'\n{make()}\n'
        path.write_text(''.join(parts), encoding='utf-8')


if __name__ == '__main__':
    write_printed_blocks()
