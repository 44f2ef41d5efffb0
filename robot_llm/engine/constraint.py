"""Decision set + detail schema → token masks and forced tokens."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
import json
from typing import Any

from llguidance import LLMatcher
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
import numpy as np
from numpy.typing import NDArray

from robot_llm.engine.backend import Backend
from robot_llm.errors import ConfigError, DecodeError
from robot_llm.profile import ResponseProfile

SEPARATOR = '\n'
"""Between the decision word and the detail."""


@dataclass(frozen=True, slots=True)
class WordTokens:
    """A decision word as the model would write it: ``word`` tokens, then the separator's."""

    word: str
    token_ids: tuple[int, ...]
    separator_ids: tuple[int, ...]


class DecisionSet:
    """
    The words of a profile as whole token sequences, compared once at configure.

    Words whose first tokens differ are told apart by one row of logits. Words that share their
    first token form a group; within it the rest of the sequence decides, separator included, so
    that no word is favoured for being shorter or a prefix of another.
    """

    def __init__(self, backend: Backend, words: Sequence[str]) -> None:
        self.words = tuple(self._tokenize(backend, word) for word in words)
        self.groups: dict[int, list[int]] = {}
        for index, word in enumerate(self.words):
            self.groups.setdefault(word.token_ids[0], []).append(index)
        sequences = {w.token_ids + w.separator_ids for w in self.words}
        if len(sequences) != len(self.words):
            raise ConfigError(
                f'decision words {tuple(words)} are not distinct in the tokens of '
                f'{backend.info.name}; choose words that differ')
        if self.num_branch_tokens > backend.n_batch:
            raise ConfigError(
                f'decision words {tuple(words)} need {self.num_branch_tokens} tokens in one batch '
                f'and model.n_batch={backend.n_batch}; raise it, or choose words whose first '
                'tokens differ')

    @staticmethod
    def _tokenize(backend: Backend, word: str) -> WordTokens:
        alone = backend.tokenize(word, parse_special=False)
        together = backend.tokenize(word + SEPARATOR, parse_special=False)
        if not alone:
            raise ConfigError(
                f'decision word {word!r} has no tokens in {backend.info.name}; choose another')
        if together[:len(alone)] == alone:
            return WordTokens(word, tuple(alone), tuple(together[len(alone):]))
        # The last letters would merge with the separator: the word is published before it.
        separator = backend.tokenize(SEPARATOR, parse_special=False)
        return WordTokens(word, tuple(alone), tuple(separator))

    def __getitem__(self, word: str) -> WordTokens:
        """Return the tokens of one of the words."""
        return next(w for w in self.words if w.word == word)

    @property
    def shared(self) -> list[list[int]]:
        """The groups of indices whose words share their first token."""
        return [group for group in self.groups.values() if len(group) > 1]

    @property
    def num_branches(self) -> int:
        """How many sequences scoring needs beside the working one."""
        return max((len(group) for group in self.shared), default=0)

    @property
    def num_branch_tokens(self) -> int:
        """How many tokens the largest group's continuations take in the memory."""
        return max((sum(len(w.token_ids + w.separator_ids) - 1
                        for w in (self.words[i] for i in group)) for group in self.shared),
                   default=0)


def compile_grammars(profile: ResponseProfile) -> dict[str, str]:
    """
    Turn a profile's detail schemas into llguidance's grammars, by decision word.

    Whitespace is fixed to none, so that more of the text is forced.

    :returns: empty if the detail is not JSON
    :raises ConfigError: if a schema cannot be compiled, with llguidance's reason
    """
    grammars = {key: _compile_grammar(f'profile {profile.name}: detail.{key}', schema)
                for key, schema in profile.detail.json_schemas.items()}
    return {word: grammars.get(f'json_schema_of.{word}', grammars['json_schema'])
            for word in profile.words} if grammars else {}


def _compile_grammar(name: str, schema: Mapping[str, Any]) -> str:
    try:
        # Text, not a dict: the order of properties is the order of generation.
        grammar: str = LLMatcher.grammar_from_json_schema(
            json.dumps(schema), overrides={'whitespace_flexible': False})
        problem = LLMatcher.validate_grammar(grammar, None)
    except ValueError as error:
        problem = str(error)
    if problem:
        raise ConfigError(f'{name} cannot be compiled: {problem}; simplify the schema')
    return grammar


class DetailConstraint:
    """
    What may follow in one answer's detail.

    Only tokens that were checked by ``allows`` or given by ``forced`` are accepted, each once.

    :raises ConfigError: if the grammar does not start
    """

    def __init__(self, backend: Backend, grammar: str) -> None:
        self._matcher: Any = LLMatcher(backend.constraint_tokenizer(), grammar, log_level=0)
        if self._matcher.is_error():
            raise ConfigError(f'the detail constraint does not start: {self._matcher.get_error()}')
        self._n_vocab = backend.info.n_vocab
        # Written anew for every mask, and so shared by all that ``begin`` makes.
        self._bitmask = allocate_token_bitmask(1, self._n_vocab)

    def begin(self) -> 'DetailConstraint':
        """Return this constraint as it is now, for one answer; a copy takes no compiling."""
        constraint = copy(self)
        constraint._matcher = self._matcher.deep_copy()
        return constraint

    @property
    def is_complete(self) -> bool:
        """Nothing may follow but the end of the turn."""
        return bool(self._matcher.is_stopped())

    def forced(self) -> list[int]:
        """Return the tokens that must follow, shape (num_forced,); accept them to go on."""
        return list(self._matcher.compute_ff_tokens())

    def allows(self, token_id: int) -> bool:
        """Whether the token may follow now; cheap beside a whole mask."""
        return bool(self._matcher.validate_tokens([token_id]) == 1)

    def num_allowed(self, token_ids: Sequence[int]) -> int:
        """Return how many of these tokens may follow now, one behind the other."""
        return int(self._matcher.validate_tokens(list(token_ids)))

    def allowed(self) -> NDArray[np.bool_]:
        """Return which tokens may follow, shape (n_vocab,)."""
        fill_next_token_bitmask(self._matcher, self._bitmask)
        bits = np.unpackbits(self._bitmask[0].view(np.uint8), bitorder='little')
        return bits[:self._n_vocab].view(np.bool_)

    def accept(self, token_ids: Sequence[int]) -> None:
        """
        Move behind tokens that ``allows`` or ``forced`` named.

        :raises DecodeError: if the constraint refuses them after all, which is our own bug
        """
        if not self._matcher.consume_tokens(list(token_ids)):
            raise DecodeError(f'the constraint refused {token_ids}: {self._matcher.get_error()}')
