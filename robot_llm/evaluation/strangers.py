"""Texts that are no scenes: what a decision head must not be sure about."""

from pathlib import Path
from typing import Final

from robot_llm.errors import ConfigError
import yaml

SHIPPED: Final = Path(__file__).with_name('strangers.yaml')


def load_strangers(path: Path = SHIPPED) -> dict[str, tuple[str, ...]]:
    """
    Return the texts by kind.

    :raises ConfigError: if the file is no mapping of lists of texts
    """
    try:
        content = yaml.safe_load(path.read_text(encoding='utf-8'))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f'{path} cannot be read: {error}') from error
    if not isinstance(content, dict) or not all(
            isinstance(texts, list) and texts and all(isinstance(t, str) and t for t in texts)
            for texts in content.values()):
        raise ConfigError(f'{path}: write kinds with a list of texts each, `code: [...]`')
    return {str(kind): tuple(texts) for kind, texts in content.items()}
