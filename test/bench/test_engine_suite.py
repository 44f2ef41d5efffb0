"""The engine's whole suite on the real small model, as short as it can be made."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest
from robot_llm.bench.engine import suite
from robot_llm.bench.engine.scale import Scale
from robot_llm.bench.sample import Figure
from robot_llm.bench.suite import Context, Finding
from robot_llm.settings import Settings

# llguidance makes llama-cpp-python warn once per token of the vocabulary.
pytestmark = pytest.mark.filterwarnings('ignore:llama_token_get_attr is deprecated')

TINY = Scale(num_runs=1, num_contexts=1, num_slices=1, slice_tokens=8, num_tokens=8,
             prefill_tokens=128, reuse_tokens=192, num_stops=2, chunks=(), lengths=(96, 112, 128),
             length_runs=1, num_scenes=1, word_counts=(2, 32))


def options(*args: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    suite.add_options(parser)
    return parser.parse_args(args)


@pytest.fixture(scope='module')
def figures(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    pytest.importorskip('gguf')
    settings = Settings.from_flat({
        'model.path': str(model_path), 'model.n_ctx': 2304,
        'cache.folder': str(tmp_path_factory.mktemp('cache'))})
    profiles = Path(__file__).parents[2] / 'config' / 'profiles'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suite, 'QUICK', TINY)
        found: Iterator[Finding] = suite.run(Context(
            options=options(), settings=settings, profiles=profiles, num_runs=1, is_quick=True))
        return {figure.name: figure for figure in found if isinstance(figure, Figure)}


def test_every_promise_has_a_figure_and_a_target(figures: dict[str, Figure]) -> None:
    with_target = {name for name, figure in figures.items() if figure.target is not None}
    assert with_target >= {
        'tpot, engine / bare loop', 'prefill rate, engine / one batch', 'ttft, warm / cold',
        'stop to idle, prefill, abort callback, chunk default, max',
        'stop to idle, prefill, no abort callback, chunk default, max',
        'stop to idle, decode, free text, abort callback, max',
        'stop to idle, decode, JSON, no abort callback, max',
        'one call, free text, no abort callback', 'one call, JSON, no abort callback',
        'wasted tokens, abort callback', 'wasted tokens, no abort callback',
        'decodes / token, drive JSON, without speculation',
        'same text, token by token',
        'same text, cold and warm cache', 'time to decision, 32 words / 2 words',
        'ttft fit, slope, engine / bare'}
    assert sum(name.startswith('sampling, ') for name in figures) == 8
    assert figures.keys() >= {
        'tpot, llama_cpp.Llama / bare loop', 'tpot, engine / bare loop in its own context',
        'tpot, bare loop / bare loop in another context'}


def test_the_counts_behind_the_times_are_sane(figures: dict[str, Figure]) -> None:
    assert all(0 < value < 60 for figure in figures.values() if figure.unit == 's'
               and 'fit' not in figure.name for value in figure.values)
    assert figures['decodes / token, drive JSON, without speculation'].is_met
    assert figures['wasted tokens, abort callback'].is_met
    assert figures['same text, token by token'].is_met
    assert '33 tokens behind' in figures['time to decision, 2 words'].note
    assert figures['peak memory, prompt of 128 tokens'].median > 100 * 2**20


def test_the_lengths_can_be_chosen() -> None:
    assert options().lengths is None
    assert suite.FULL.with_lengths(None) == suite.FULL
    scale = suite.FULL.with_lengths(options('--lengths', '2048,128,512').lengths)
    assert scale.lengths == (128, 512, 2048)
    # The longest as often as asked, shorter ones more often, but not without end.
    assert [scale.runs_of(tokens) // scale.length_runs for tokens in scale.lengths] == [3, 3, 1]


def test_an_unknown_part_is_refused_with_those_that_exist(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        options('--parts', 'decode,cook')
    assert 'cook: there are decode, prefill' in capsys.readouterr().err
