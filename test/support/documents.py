"""
README and docs: what is printed in them from the code, and how they are read.

``python test/support/documents.py`` writes the printed blocks anew.
"""

import ast
from collections.abc import Callable, Mapping
from pathlib import Path
import re
from typing import Any

import pytest
from robot_llm.core.request import RequestEvent, RequestStatus, TRANSITIONS
from robot_llm.settings import parameter_table_markdown

ROOT = Path(__file__).parents[2]
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


def each_block(*languages: str) -> list[Any]:
    """Return every block in ``languages`` as a parameter of a test."""
    return [pytest.param(code, id=f'{path.name}-{index}') for path in DOCUMENTS
            for index, code in enumerate(code_blocks(path, *languages))]


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
