"""Chat templates are foreign code: sandboxed, run on sentinels, and made ready to answer."""

from datetime import datetime

import pytest
from robot_llm.core.chat_template import ChatTemplate
from robot_llm.errors import ConfigError

USER = ('user',)
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    '{% endfor %}')
ASSISTANT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"


def controls_of(source: str, roles: tuple[str, ...] = USER, nonce: str = '5eed5eed') -> list[str]:
    template = ChatTemplate(
        source, bos_token='<s>', eos_token='</s>', nonce=nonce, now=datetime(2025, 1, 2))
    return list(template.controls(roles))


def test_white_space_behind_the_assistant_header_is_kept() -> None:
    assert controls_of('[{{ messages[0].content }}]\n\nA: \n\n') == ['[', ']\n\nA: \n']


def test_a_template_that_ignores_add_generation_prompt_gets_its_own_assistant_header() -> None:
    assert controls_of(CHATML) == controls_of(CHATML + ASSISTANT)
    assert controls_of(CHATML)[-1] == '<|im_end|>\n<|im_start|>assistant\n'


@pytest.mark.parametrize(('source', 'expected'), [
    ('[INST]{{ messages[0].content }}[/INST]', '[/INST]'),
    ("{% for m in messages %}{{ '[INST] ' + m.content + ' [/INST]' if m.role == 'user' else ' '"
     ' + m.content + eos_token }}{% endfor %}', ' [/INST]'),
    ("{% if messages | length > 1 %}{{ raise_exception('one turn') }}{% endif %}"
     '{{ messages[0].content }}[/INST]', '[/INST]'),
])
def test_a_family_without_an_assistant_header_gets_none(source: str, expected: str) -> None:
    assert controls_of(source)[-1] == expected


@pytest.mark.parametrize(('ending', 'expected'), [
    ('<think>\\n', '<think>\n</think>\n\n'),
    ('<|START_THINKING|>', '<|START_THINKING|><|END_THINKING|>'),
    ('<think></think>', '<think></think>'),
])
def test_an_opened_thinking_block_is_closed_before_the_decision(
    ending: str, expected: str,
) -> None:
    assert controls_of("{{ messages[0].content + 'A:%s' }}" % ending)[-1] == f'A:{expected}'


def test_templates_are_told_not_to_think() -> None:
    source = '{{ messages[0].content }}{% if enable_thinking is false %}/no_think{% endif %}'
    assert controls_of(source)[-1] == '/no_think'


@pytest.mark.parametrize(('source', 'expected'), [
    ('{{ {"b": "<é>", "a": 1} | tojson }}', '{"b": "<é>", "a": 1}'),
    ('{{ [1] | tojson(indent=2) }}', '[\n  1\n]'),
    ('{{ strftime_now("%d %b %Y") }}', '02 Jan 2025'),
    ('{% generation %}x{{ eos_token }}{% endgeneration %}', 'x</s>'),
    ('{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}', '01'),
    ('    {% if true %}\nx{% endif %}', 'x'),
    ('{{ tools is defined }}', 'False'),
])
def test_templates_see_what_transformers_and_llama_cpp_offer(source: str, expected: str) -> None:
    assert controls_of(source + '{{ messages[0].content }}')[0] == expected


@pytest.mark.parametrize('source', [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    '{{ messages.append(1) }}',
    '{{ raise_exception.__globals__.json }}',
    '{{ strftime_now.__self__.year }}',
])
def test_a_template_cannot_leave_the_sandbox(source: str) -> None:
    with pytest.raises(ConfigError, match='refuses user turns: SecurityError'):
        controls_of(source + '{{ messages[0].content }}')


def test_a_template_that_knows_the_nonce_gets_another() -> None:
    source = '\ue0005eed5eed0\ue001{{ messages[0].content }}'
    assert controls_of(source) == ['\ue0005eed5eed0\ue001', '']


def test_contents_in_another_order_are_refused() -> None:
    source = '{{ messages[1].content }}{{ messages[0].content }}'
    with pytest.raises(ConfigError, match='moves the text of the user'):
        controls_of(source, ('system', 'user'))


def test_the_template_runs_once_per_sequence_of_roles() -> None:
    calls = []

    class Now(datetime):

        def strftime(self, format: str) -> str:  # noqa: A002  the name datetime gave it
            calls.append(format)
            return super().strftime(format)

    template = ChatTemplate(
        '{{ strftime_now("%Y") }}{% for m in messages %}{{ m.content }}{% endfor %}'
        '{% if add_generation_prompt %}A:{% endif %}',
        bos_token='', eos_token='', nonce='5eed5eed', now=Now(2025, 1, 2))
    first = template.controls(USER)
    num_calls = len(calls)
    assert template.controls(USER) == first == ('2025', 'A:')
    assert len(calls) == num_calls
