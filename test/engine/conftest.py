"""One loaded model for all tests of the engine; a test that needs its own opens its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from engine_requests import make_profile, SPEED_SCHEMA, STANDSTILL_SCHEMA
from engine_running import open_runtime
import pytest
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.runtime import Runtime
from robot_llm.profile import ResponseProfile
from robot_llm.settings import Settings

PROFILES = (
    make_profile('word'),
    make_profile('json', schema=SPEED_SCHEMA),
    make_profile('word_json', schema=SPEED_SCHEMA, schema_of={'stop': STANDSTILL_SCHEMA}),
    make_profile('text', words=('answer', 'decline'), fallback='decline', text=True,
                 system_prompt='You are a friendly robot. Answer in short sentences.'),
    # The first tokens of these are the same: go, _, left; go, _, right.
    make_profile('turn', words=('go_left', 'go_right', 'wait')),
    make_profile('prefix', words=('stop', 'stopover', 'stopping', 'slow')),
)


def pytest_configure(config: pytest.Config) -> None:
    """Silence llguidance, which makes llama-cpp-python warn once per token of the vocabulary."""
    config.addinivalue_line('filterwarnings', 'ignore:llama_token_get_attr is deprecated')


@pytest.fixture(scope='session')
def profiles() -> dict[str, ResponseProfile]:
    """Return the profiles of ``runtime`` by name."""
    return {profile.name: profile for profile in PROFILES}


@pytest.fixture(scope='session')
def make_settings(model_path: Path) -> Callable[..., Settings]:
    """Return what makes settings; parameters by their flat names."""
    def make(flat: dict[str, Any] | None = None) -> Settings:
        # Whether a guess pays depends on the machine; who tests guesses turns them on.
        return Settings.from_flat({
            'model.path': str(model_path), 'speculation.policy': 'off', **(flat or {})})
    return make


@pytest.fixture(scope='session')
def open_backend(
    make_settings: Callable[..., Settings],
) -> Iterator[Callable[..., LlamaCppBackend]]:
    """Return what loads the model; the tests' end closes it."""
    with ExitStack() as stack:
        def load(flat: dict[str, Any] | None = None) -> LlamaCppBackend:
            backend = LlamaCppBackend(make_settings(flat), num_cores=2)
            stack.callback(backend.close)
            return backend
        yield load


@pytest.fixture(scope='session')
def shared_runtime(
    open_backend: Callable[..., LlamaCppBackend], make_settings: Callable[..., Settings],
) -> Runtime:
    """Load the model once, with every profile above."""
    return open_runtime(open_backend(), make_settings(), *PROFILES)


@pytest.fixture
def runtime(shared_runtime: Runtime) -> Runtime:
    """Return the loaded model with nothing but its pinned prefixes in the memory."""
    shared_runtime.backend.abort.clear()
    shared_runtime.cache.clear()
    return shared_runtime
