"""Where the models with random weights are kept, and how a setting comes to name one."""

from collections.abc import Callable
from pathlib import Path
import tempfile

from robot_llm.errors import ConfigError
from robot_llm.settings import Settings


def random_path(settings: Settings, name: str, say: Callable[[str], None]) -> Path:
    """
    Return a model with random weights in the cache folder; written where it is not there yet.

    :param settings: ``model.path`` gives the tokenizer, ``cache.folder`` the place
    :param name: such as ``0.5B-Q4_0``; see ``random_model.NAMES``
    :param say: told how far the writing is
    :raises ConfigError: if there is no such model, or the package that writes it is missing
    """
    try:
        # Only who asks for such a model needs the package gguf.
        from robot_llm.bench.random_model import random_model
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'a random model needs the Python package gguf ({error}); pip install gguf') from error
    folder = Path(settings.cache.folder or tempfile.gettempdir()).expanduser() / 'bench'
    return random_model(name, Path(settings.model.path), folder, say)


def with_random_model(settings: Settings, name: str, say: Callable[[str], None]) -> Settings:
    """Return the settings with that model instead of the one they name; '' changes nothing."""
    if not name:
        return settings
    return settings.with_changes({'model.path': str(random_path(settings, name, say))})
