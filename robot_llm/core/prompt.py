"""Profile + scene + user text → segments, each either control or plain text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Final, Literal

from robot_llm.core.chat_template import ChatTemplate
from robot_llm.errors import ConfigError

SegmentRole = Literal['static', 'scene', 'goal']

# How long the tokens of a segment stay valid in the KV cache, longest first.
_ROLES: Final[tuple[SegmentRole, ...]] = ('static', 'scene', 'goal')

# Stands where the scene's text would: the prompt keeps its shape, and the pinned prefix holds.
NO_SCENE = 'unknown'


@dataclass(frozen=True, slots=True)
class Segment:
    """
    A piece of the prompt that is tokenised alone.

    :param is_control: written by the template, tokenised with ``parse_special``; everything
        else never is, so that nobody can write ``<|im_end|>`` by writing it
    :param role: the input with the shortest life that this segment, or one before it, comes
        from: 'static' the profile, 'scene', 'goal'; it never falls from segment to segment
    """

    text: str
    is_control: bool
    role: SegmentRole


@dataclass(frozen=True, slots=True)
class Message:
    """
    One turn of a conversation.

    :param role: 'system' (only first), 'user' or 'assistant'
    :param content: pieces in order; plain text, whatever they say of themselves
    """

    role: str
    content: tuple[Segment, ...]


class PromptRenderer:
    """
    Render conversations with the chat template of one model; built once, at configure.

    A template that has no place for a system turn (gemma refuses it, others drop it) gets the
    system text at the start of the first user turn, behind it an empty line; see
    ``merges_system``. Parameters are those of ``ChatTemplate``.

    :raises ConfigError: if the template is missing, raises, or loses the user's text
    """

    def __init__(
        self, chat_template: str | None, *, bos_token: str, eos_token: str, nonce: str,
        now: datetime,
    ) -> None:
        self._template = ChatTemplate(
            chat_template, bos_token=bos_token, eos_token=eos_token, nonce=nonce, now=now)
        try:
            self._template.controls(('system', 'user'))
            self.merges_system = False
        except ConfigError:
            self._template.controls(('user',))
            self.merges_system = True

    def render(self, messages: Sequence[Message]) -> tuple[Segment, ...]:
        """
        Return the whole prompt, ready for the first token of the answer.

        Both ends of every content are stripped, as many templates do it and all should look
        alike. No segment is empty; neighbours that are alike in kind and role are one.

        :param messages: oldest first, the last one the user's
        :raises ConfigError: if the template refuses this sequence of roles
        """
        messages = self._merged(messages)
        *controls, closing = self._template.controls(tuple(m.role for m in messages))
        segments: list[Segment] = []
        for control, message in zip(controls, messages, strict=True):
            _add(segments, control, is_control=True)
            for piece in _stripped(message.content):
                _add(segments, piece.text, is_control=False, role=piece.role)
        _add(segments, closing, is_control=True)
        return tuple(segments)

    def _merged(self, messages: Sequence[Message]) -> Sequence[Message]:
        if not self.merges_system or len(messages) < 2 or messages[0].role != 'system':
            return messages
        system, user, *others = messages
        content = (
            *_stripped(system.content), Segment('\n\n', False, 'static'),
            *_stripped(user.content))
        return [Message(user.role, content), *others]


def build_prompt(
    renderer: PromptRenderer, *, system_prompt: str, scene_header: str, scene: str,
    goal_header: str, prompt: str,
) -> tuple[Segment, ...]:
    """
    Return the prompt of one goal: static → scene → goal, what changes most comes last.

    The tokens of all segments with role 'static' are a true prefix of every prompt of the
    profile, those up to role 'scene' of every goal in the same scene: nothing is merged across
    roles. Headers are verbatim and cut off from the text behind them, so end them with a
    newline; a space there is a token of its own.

    :param system_prompt: '' leaves the system turn out, and the model's own default comes in
    :param scene_header: static text before the scene
    :param scene: what the robot sees; blank becomes ``NO_SCENE``
    :param goal_header: static text before the goal; begin it with a newline
    :param prompt: the goal's text, untrusted, not blank
    :raises ConfigError: if the template refuses the roles
    """
    messages = [Message('user', (
        Segment(scene_header, False, 'static'),
        Segment(scene if scene.strip() else NO_SCENE, False, 'scene'),
        Segment(goal_header, False, 'scene'),
        Segment(prompt, False, 'goal')))]
    if system_prompt.strip():
        messages.insert(0, Message('system', (Segment(system_prompt, False, 'static'),)))
    return renderer.render(messages)


def static_prefix(
    renderer: PromptRenderer, *, system_prompt: str, scene_header: str,
) -> tuple[Segment, ...]:
    """Return the segments with which every prompt of a profile begins; what gets pinned."""
    segments = build_prompt(
        renderer, system_prompt=system_prompt, scene_header=scene_header, scene=NO_SCENE,
        goal_header='', prompt='.')
    return tuple(takewhile(lambda segment: segment.role == 'static', segments))


def wrote_bos(segments: Sequence[Segment], bos_token: str) -> bool:
    """Return whether the template wrote BOS at the very start, so that nobody adds another."""
    return bool(
        bos_token and segments and segments[0].is_control
        and segments[0].text.startswith(bos_token))


def _add(
    segments: list[Segment], text: str, *, is_control: bool, role: SegmentRole = 'static',
) -> None:
    """Append a text; its role is at least that of the segment before it."""
    if not text:
        return
    if segments:
        last = segments[-1]
        role = max(last.role, role, key=_ROLES.index)
        if (last.is_control, last.role) == (is_control, role):
            text = segments.pop().text + text
    segments.append(Segment(text, is_control, role))


def _stripped(content: Iterable[Segment]) -> list[Segment]:
    """Drop the white space at both ends of a content; pieces may vanish, the middle stays."""
    pieces = [piece for piece in content if piece.text]
    while pieces and not (text := pieces[0].text.lstrip()):
        del pieces[0]
    if pieces:
        pieces[0] = Segment(text, False, pieces[0].role)
    while pieces and not (text := pieces[-1].text.rstrip()):
        del pieces[-1]
    if pieces:
        pieces[-1] = Segment(text, False, pieces[-1].role)
    return pieces
