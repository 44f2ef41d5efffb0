"""Models with random weights: they load, decode, and speak the tokenizer's tokens."""

from pathlib import Path

import numpy as np
import pytest

gguf = pytest.importorskip('gguf')

from robot_llm.bench.bare import BareLoop  # noqa: E402  needs gguf
from robot_llm.bench.random_model import NAMES, random_model, SHAPES  # noqa: E402
from robot_llm.bench.random_path import with_random_model  # noqa: E402
from robot_llm.engine.gguf_header import read_header  # noqa: E402
from robot_llm.engine.llama_backend import LlamaCppBackend  # noqa: E402
from robot_llm.errors import ConfigError  # noqa: E402
from robot_llm.ros.process import EMBEDDED, profiles_for  # noqa: E402
from robot_llm.settings import Settings  # noqa: E402


@pytest.fixture(scope='module')
def settings(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp('cache')
    return Settings.from_flat({'model.path': str(model_path), 'cache.folder': str(folder)})


def test_a_random_model_loads_decodes_and_keeps_the_tokens(settings: Settings) -> None:
    made = with_random_model(settings, 'vocab150k-Q4_0', print)
    backends = [LlamaCppBackend(given, num_cores=2) for given in (settings, made)]
    try:
        small, large = (backend.tokenize('A robot, über 12 m.', parse_special=False)
                        for backend in backends)
        assert large == small
        assert backends[1].info.n_vocab == SHAPES['vocab150k'].n_vocab
        assert backends[1].info.chat_template == backends[0].info.chat_template
    finally:
        for backend in backends:
            backend.close()
    bare = BareLoop(made.model.path, n_ctx=256, n_batch=256, n_threads=1)
    row = bare.evaluate([1, 2, 3])
    assert np.isfinite(row).all()
    assert row.std() > 0
    bare.close()


def test_a_model_is_written_once_and_nothing_is_left_half_written(settings: Settings) -> None:
    told: list[str] = []
    path = Path(with_random_model(settings, 'vocab150k-Q4_0', told.append).model.path)
    written = path.stat().st_mtime_ns
    assert with_random_model(settings, 'vocab150k-Q4_0', told.append).model.path == str(path)
    assert path.stat().st_mtime_ns == written
    assert sorted(item.suffix for item in path.parent.iterdir()) == ['.gguf']
    assert read_header(path).metadata['general.name'] == 'random vocab150k-Q4_0'


def test_an_unknown_model_is_refused_with_those_that_exist(model_path, tmp_path) -> None:
    assert {'0.5B-Q4_0', '0.5B-Q8_0', '1B-Q4_0', '1B-Q8_0'} <= set(NAMES)
    with pytest.raises(ConfigError, match="'7B-Q4_0' is not among 0.5B-Q4_0, 0.5B-Q8_0"):
        random_model('7B-Q4_0', model_path, tmp_path)
    assert with_random_model(Settings(), '', print) == Settings()


def test_a_random_model_gets_the_profiles_without_a_head(tmp_path: Path) -> None:
    # Its file name holds the tokenizer's: no head was fitted to it all the same.
    assert profiles_for(tmp_path / f'{EMBEDDED}.gguf').name == 'embedded'
    assert profiles_for(tmp_path / f'random-0.5B-Q4_0-{EMBEDDED}.gguf').name == 'profiles'
