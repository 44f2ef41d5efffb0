"""README and docs say what the code says."""

from collections.abc import Callable, Iterator
from enum import Enum, IntEnum
import re
import typing

from catkin_pkg.changelog import get_changelog_from_path
from catkin_pkg.packages import find_package_paths
from documents import (
    ARCHITECTURE, block, docstring, DOCUMENTS, PACKAGE, PRINTED, README, ROOT, rows)
from pydantic import BaseModel
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.core.session import TokenKind
from robot_llm.errors import ErrorCode
from robot_llm.parameter_group import SamplingParams
from robot_llm.profile import ResponseProfile
from robot_llm.settings import Settings

SOURCES = '\n'.join(path.read_text(encoding='utf-8') for path in sorted(PACKAGE.rglob('*.py')))


@pytest.mark.parametrize(('path', 'marker', 'make'), PRINTED, ids=[p[1] for p in PRINTED])
def test_a_printed_block_is_what_the_code_prints(path, marker, make):
    assert block(path, marker) == make(), 'run: python test/support/documents.py'


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


@pytest.mark.parametrize(('name', 'use'), [
    ('CLIENT_GONE', 'FinishReason.CLIENT_GONE'), ('UNFAMILIAR', 'DecisionSource.UNFAMILIAR'),
    ('RESTART', 'TokenKind.RESTART'), ('BAD_SCHEMA', 'raise SchemaError'),
])
def test_what_is_said_not_to_be_produced_yet_is_not(name: str, use: str):
    # core/request.py names every reason in a table, and cli/ reads them: neither produces any.
    is_used = any(use in path.read_text(encoding='utf-8') for path in PACKAGE.rglob('*.py')
                  if path != PACKAGE / 'core' / 'request.py' and path.parent.name != 'cli')
    row, = re.findall(rf'^\| \d+ \| {name} \|.*', README.read_text(encoding='utf-8'), re.M)
    assert ('not produced yet' in row) != is_used, row


@pytest.mark.parametrize(('word', 'is_there'), [
    ('`admission.policy`', lambda: 'admission.policy' in SOURCES),
    ('`scene.max_restarts`', lambda: 'max_restarts' in SOURCES.replace('max_restarts: Ann', '')),
    ('`bench/`', lambda: (PACKAGE / 'bench').exists()),
    ('`evaluation/`', lambda: 'evaluate = ' in (ROOT / 'setup.py').read_text(encoding='utf-8')),
])
def test_what_is_said_not_to_be_there_yet_is_not(word: str, is_there: Callable[[], bool]):
    not_yet = ARCHITECTURE.read_text(encoding='utf-8').partition('## Not yet')[2]
    assert (word in not_yet) != is_there(), word


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


@pytest.mark.parametrize(('package', 'folder'), [
    ('robot_llm', ROOT), ('robot_llm_msgs', ROOT / 'robot_llm_msgs')])
def test_a_changelog_is_one_that_catkin_reads(package, folder):
    assert get_changelog_from_path(str(folder), package)


def test_the_crawl_of_rosdep_and_bloom_ends_at_the_outer_package():
    # What README and CONTRIBUTING say of base paths and of releases follows from this.
    assert find_package_paths(str(ROOT)) == ['.']
    assert find_package_paths(str(ROOT / 'robot_llm_msgs')) == ['.']
