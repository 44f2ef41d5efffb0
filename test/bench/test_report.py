"""Reports: what is measured comes back from its file, in the page, and in a picture."""

import argparse
from pathlib import Path
import re

import pytest
from robot_llm.bench import main as bench_main
from robot_llm.bench.drawing import draw
from robot_llm.bench.machine import Disturbance
from robot_llm.bench.page import html_report
from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.report import Report, SuiteReport
from robot_llm.bench.sample import Figure, Target
from robot_llm.errors import ConfigError

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
    page = html_report(report(), {plot.name: b'\x89PNG' for plot in PLOTS})
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


@pytest.mark.parametrize('suite', bench_main.SUITES, ids=lambda suite: suite.name)
def test_every_suite_is_there_and_its_options_have_defaults(suite) -> None:
    parser = argparse.ArgumentParser()
    suite.add_options(parser)
    parser.parse_args([])
    assert f'{suite.name} ' in bench_main.parser([]).format_help()
