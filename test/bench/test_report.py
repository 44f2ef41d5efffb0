"""Reports: what is measured comes back from its file, in the page, and in a picture."""

import argparse
import base64
from collections.abc import Iterator
from dataclasses import replace
import io
from pathlib import Path
import re
import sys

import pytest
from robot_llm.bench import main as bench_main, runner
from robot_llm.bench.drawing import draw
from robot_llm.bench.machine import Disturbance
from robot_llm.bench.page import html_report
from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.report import Report, SuiteReport
from robot_llm.bench.sample import Figure, Target
from robot_llm.bench.suite import Context, Finding, some_of, Suite
from robot_llm.bench.terminal import Terminal
from robot_llm.errors import ConfigError
from robot_llm.settings import Settings

PLOTS = (
    Plot('gaps', 'Tokens come evenly', 'histogram', (Series('ours', (0.1, 0.2, 0.2)),),
         x_label='gap [s]', limit=0.15),
    Plot('sweep', 'Longer takes longer', 'lines',
         (Series('cold', (1.0, 2.0), (100.0, 1000.0), (0.9, 1.8), (1.1, 2.2), style='ours'),
          Series('floor', (0.5, 1.0), (100.0, 1000.0), style='floor')), is_log=(True, True)),
    Plot('bars', 'Ours and theirs', 'bars', (Series('a', (1.0, 2.0)), Series('b', (3.0, 0.0))),
         labels=('one', 'two'), x_label='time [s]'),
    Plot('stages', 'Where it goes', 'stack', (Series('queue', (0.1,)), Series('prefill', (2.0,))),
         labels=('request',), x_label='time [s]'))


def report() -> Report:
    """Return a report with everything in it that one can hold."""
    return Report(
        {'machine': {'cpu': 'A <fast> & "good" one'}, 'model': {'name': 'm', 'n_ctx': 4096}},
        [SuiteReport(
            'compare', 'against <others>',
            [Figure('ttft', 's', (2.0, 1.0, 3.0)),
             Figure('cancel', 'x', (120.0,), Target(100, is_floor=True), note='in <prefill>')],
            list(PLOTS), ['A note & more.'], 'it <broke>',
            Disturbance(12.5, 0.1, 0.9, 0.5, 3, 1.02))])


def test_a_report_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    report().write(tmp_path / 'a.json')
    assert Report.read(tmp_path / 'a.json') == report()


@pytest.mark.parametrize(('text', 'said'), [
    ('{', 'no report'), ('[]', 'no report'), ('{"figures": []}', 'no report'),
    ('{"schema": 99}', 'has schema 99, this bench reads'),
    ('{"schema": 1, "environment": {}, "suites": [{}]}', 'damaged')])
def test_a_file_that_is_no_report_is_refused_by_name(
        tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / 'a.json').write_text(text)
    with pytest.raises(ConfigError, match=f'a.json.*{said}'):
        Report.read(tmp_path / 'a.json')


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='none.json: No such file'):
        Report.read(tmp_path / 'none.json')


@pytest.mark.parametrize('plot', PLOTS, ids=lambda plot: plot.kind)
def test_every_kind_of_plot_becomes_a_small_picture(plot: Plot) -> None:
    pytest.importorskip('matplotlib')
    png = draw(plot)
    assert png.startswith(b'\x89PNG')
    assert len(png) < 60_000


def test_the_page_holds_everything_and_loads_nothing() -> None:
    page = html_report(report(), {('compare', plot.name): b'\x89PNG' for plot in PLOTS})
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len([source for source in sources if source.startswith('data:image/png')]) == 4
    assert all(source.startswith(('data:', '#')) for source in sources)
    assert '<script' not in page and '@import' not in page and 'url(' not in page
    for text in ('A &lt;fast&gt; &amp;', 'against &lt;others&gt;', 'in &lt;prefill&gt;',
                 'A note &amp; more.', 'it &lt;broke&gt;', 'met    (&gt;= 100',
                 'others used 0.50 cores'):
        assert text in page


def test_a_picture_that_was_not_drawn_is_left_out_of_the_page() -> None:
    assert '<img' not in html_report(report(), {})


def test_several_files_become_one_page_and_its_pictures(tmp_path: Path, capsys) -> None:
    pytest.importorskip('matplotlib')
    report().write(tmp_path / 'a.json')
    assert bench_main.main(
        ['report', str(tmp_path / 'a.json'), '--html', str(tmp_path / 'page.html'),
         '--png', str(tmp_path / 'png')]) == 0
    assert {path.stem for path in (tmp_path / 'png').iterdir()} == {p.name for p in PLOTS}
    assert (tmp_path / 'page.html').read_text().count('data:image/png') == len(PLOTS)
    assert 'page.html' in capsys.readouterr().out


def test_the_same_suite_of_two_files_keeps_its_pictures_apart(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in 'ab':
        made = report()
        made.suites[0].plots = [replace(PLOTS[0], title=f'of {name}')]
        made.write(tmp_path / f'{name}.json')
    monkeypatch.setattr(runner, 'draw', lambda plot: plot.title.encode())
    monkeypatch.setattr(runner, 'require_matplotlib', lambda: None)
    page = tmp_path / 'page.html'
    assert bench_main.main(
        ['report', *(str(tmp_path / f'{name}.json') for name in 'ab'),
         '--html', str(page), '--png', str(tmp_path / 'png')]) == 0
    assert [base64.b64decode(data) for data in re.findall(r'base64,([^"]+)', page.read_text())
            ] == [b'of a', b'of b']
    assert len(set(re.findall(r'id="(compare\w*)"', page.read_text()))) == 2
    assert {path.name: path.read_bytes() for path in (tmp_path / 'png').iterdir()} == {
        'gaps.png': b'of a', 'gaps_2.png': b'of b'}


def outputs(**paths: Path) -> argparse.Namespace:
    return argparse.Namespace(**{'json': None, 'html': None, 'png': None, **paths})


def test_folders_of_outputs_are_made_before_anything_is_measured(tmp_path: Path) -> None:
    runner.prepare_outputs(outputs(json=tmp_path / 'new' / 'folder' / 'a.json'))
    assert list((tmp_path / 'new' / 'folder').iterdir()) == []


def test_outputs_that_cannot_be_written_are_refused_before_anything_is_measured(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / 'file').write_text('')
    with pytest.raises(ConfigError, match='--json .*cannot be written.*give another place'):
        runner.prepare_outputs(outputs(json=tmp_path / 'file' / 'a.json'))
    with pytest.raises(ConfigError, match='--html .* is a folder'):
        runner.prepare_outputs(outputs(html=tmp_path))
    monkeypatch.setitem(sys.modules, 'matplotlib', None)
    runner.prepare_outputs(outputs(json=tmp_path / 'a.json'))
    with pytest.raises(ConfigError, match='pip install matplotlib'):
        runner.prepare_outputs(outputs(png=tmp_path / 'png'))


def test_the_values_are_kept_after_every_suite(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / 'a.json'
    monkeypatch.setattr(runner, 'environment', lambda context: {'machine': {}})
    known: list[int] = []

    class Stub(Suite):

        def run(self, context: Context) -> Iterator[Finding]:
            known.append(len(Report.read(path).suites) if path.exists() else 0)
            yield Figure('f', 's', (1.0,))

    suites = [Stub(name, '', 'robot_llm.bench.decide') for name in 'abc']
    options, terminal = outputs(json=path), Terminal(is_quiet=True, out=io.StringIO())
    runner.measure(
        suites, Context(options, Settings(), tmp_path, 1, True), terminal,
        keep=lambda found: runner.keep_values(found, options, terminal))
    assert known == [0, 1, 2]
    assert len(Report.read(path).suites) == 3
    assert [left.name for left in tmp_path.iterdir()] == ['a.json']


def test_a_report_that_cannot_be_written_leaves_the_old_one(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / 'a.json'
    report().write(path)

    def full(*args: object) -> None:
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(Path, 'replace', full)
    with pytest.raises(ConfigError, match='a.json cannot be written: No space left'):
        Report({}, []).write(path)
    assert Report.read(path) == report()


def test_names_of_an_option_are_known_ones() -> None:
    assert some_of(('a', 'b'))('b,a,') == ('b', 'a')
    with pytest.raises(argparse.ArgumentTypeError, match='c, d: there are a, b'):
        some_of(('a', 'b'))('d,a,c')


def test_the_layers_on_the_gpu_reach_the_settings() -> None:
    args = ['sweep', '--model', 'm.gguf', '--n-gpu-layers', '-1']
    options = bench_main.parser(args).parse_args(args)
    assert bench_main.settings_of(options).model.n_gpu_layers == -1


@pytest.mark.parametrize('suite', bench_main.SUITES, ids=lambda suite: suite.name)
def test_every_suite_is_there_and_its_options_have_defaults(suite) -> None:
    parser = argparse.ArgumentParser()
    suite.add_options(parser)
    parser.parse_args([])
    assert f'{suite.name} ' in bench_main.parser([]).format_help()
