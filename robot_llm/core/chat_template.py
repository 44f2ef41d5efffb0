"""The chat template of a GGUF file → the control texts around the contents of the messages."""

from collections.abc import Sequence
from datetime import datetime
import json
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from robot_llm.errors import ConfigError

REMEDY = 'use an instruct GGUF whose tokenizer.chat_template takes a user turn as plain text'

# A reasoning model's template may open the block in which it thinks aloud. The decision comes
# first here, so the block is closed at once; llama.cpp's reasoning budget of 0 does the same.
THINKING_CLOSED_BY = {'<think>': '\n</think>\n\n', '<|START_THINKING|>': '<|END_THINKING|>'}


class ChatTemplate:
    """
    Evaluate a Jinja chat template on sentinels, never on what somebody wrote.

    What the template writes depends on the roles alone, so it runs once per sequence of roles
    and the result is kept: no Jinja at request time, and nothing in a prompt can reach it.
    Not thread-safe; the worker's thread owns it.

    :param source: the Jinja source; foreign code, therefore sandboxed
    :param bos_token: its text, '' if the vocabulary has none
    :param eos_token: its text, '' if the vocabulary has none
    :param nonce: makes the sentinels unique: some random hexadecimal digits, at least 8, so
        that no date or number that a template writes holds them by chance
    :param now: what ``strftime_now`` formats; fixed, so that a prefix stays the same overnight
    :raises ConfigError: if there is no template, or it is not Jinja
    """

    def __init__(
        self, source: str | None, *, bos_token: str, eos_token: str, nonce: str, now: datetime,
    ) -> None:
        if not source or not source.strip():
            raise ConfigError(f'the model has no chat template; {REMEDY}')
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True,
            extensions=['jinja2.ext.loopcontrols', _GenerationBlock])
        environment.filters['tojson'] = _tojson
        environment.globals['raise_exception'] = _raise_exception
        environment.globals['strftime_now'] = now.strftime
        try:
            self._template = environment.from_string(source)
        except Exception as error:  # noqa: B902  foreign code may raise anything
            raise ConfigError(f'chat template does not compile: {error}; {REMEDY}') from error
        while nonce in source + bos_token + eos_token:
            nonce += 'x'
        self._nonce = nonce
        self._variables = {
            'bos_token': bos_token, 'eos_token': eos_token,
            # Variables of HF and llama.cpp: no thinking before the decision. ``tools`` stays
            # undefined as in llama.cpp; Hermes and Command R iterate over it without a look.
            'enable_thinking': False,
        }
        self._controls: dict[tuple[str, ...], tuple[str, ...]] = {}

    def controls(self, roles: tuple[str, ...]) -> tuple[str, ...]:
        """
        Return the texts before, between and behind the contents of the messages.

        The last one ends with the header of the assistant's turn, verbatim.

        :param roles: of the messages, in order, the user's last
        :returns: shape (num_messages + 1,); '' where contents touch
        :raises ConfigError: if the template raises, or drops, changes, repeats or reorders a
            content
        """
        if roles not in self._controls:
            *head, closing = self._split(roles, add_generation_prompt=True)
            closing = self._with_assistant_header(roles, closing)
            for opener, closer in THINKING_CLOSED_BY.items():
                if closing.rstrip().endswith(opener):
                    closing = closing.rstrip() + closer
            self._controls[roles] = (*head, closing)
        return self._controls[roles]

    def _with_assistant_header(self, roles: tuple[str, ...], closing: str) -> str:
        """Add the header that a template without ``add_generation_prompt`` writes by itself."""
        try:
            if closing != self._split(roles, add_generation_prompt=False)[-1]:
                return closing
            *_, between, _ = self._split((*roles, 'assistant'), add_generation_prompt=False)
        except ConfigError:
            return closing
        # Families with no header at all (Mistral) differ in white space at most.
        if between.startswith(closing) and between[len(closing):].strip():
            return between
        return closing

    def _split(self, roles: Sequence[str], *, add_generation_prompt: bool) -> list[str]:
        sentinels = [f'\ue000{self._nonce}{i}\ue001' for i in range(len(roles))]
        messages = [{'role': r, 'content': s} for r, s in zip(roles, sentinels, strict=True)]
        try:
            rest = self._template.render(
                self._variables, messages=messages, add_generation_prompt=add_generation_prompt)
        except Exception as error:  # noqa: B902  foreign code may raise anything
            raise ConfigError(
                f'chat template refuses {"+".join(roles)} turns: '
                f'{type(error).__name__}: {error}; {REMEDY}') from error
        controls = []
        for role, sentinel in zip(roles, sentinels, strict=True):
            control, found, rest = rest.partition(sentinel)
            if not found:
                raise ConfigError(
                    f'chat template drops, changes or moves the text of the {role}; {REMEDY}')
            controls.append(control)
        controls.append(rest)
        if any(self._nonce in control for control in controls):
            raise ConfigError(f'chat template repeats the text of a message; {REMEDY}')
        return controls


class _GenerationBlock(Extension):
    """``{% generation %}`` marks training data for HF; the text inside is all that counts."""

    tags = {'generation'}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(('name:endgeneration',), drop_needle=True)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None,
    separators: tuple[str, str] | None = None, sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes for HTML and sorts keys; models were trained on plain JSON.
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
        sort_keys=sort_keys)
