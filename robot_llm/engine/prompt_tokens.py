"""Prompt segments → token ids: control text may hold control tokens, everything else may not."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from robot_llm.core.head import DecisionHead
from robot_llm.core.prompt import (
    build_prompt, NO_SCENE, PromptRenderer, Segment, static_prefix, wrote_bos)
from robot_llm.engine.backend import Backend
from robot_llm.engine.constraint import compile_grammars, DecisionSet, DetailConstraint
from robot_llm.engine.head_file import open_head
from robot_llm.errors import ConfigError
from robot_llm.profile import merge_sampling, ResponseProfile
from robot_llm.settings import SamplingParams


def tokenize_segments(backend: Backend, segments: Iterable[Segment]) -> list[int]:
    """
    Turn segments into token ids, each by itself, BOS in front exactly once if the model wants it.

    :param segments: the whole prompt or its static prefix, in order
    """
    segments = tuple(segments)
    info = backend.info
    token_ids: list[int] = []
    if info.adds_bos and info.bos_token >= 0 and not wrote_bos(segments, info.bos_text):
        token_ids.append(info.bos_token)
    for segment in segments:
        token_ids += backend.tokenize(segment.text, parse_special=segment.is_control)
    return token_ids


@dataclass(frozen=True, slots=True)
class CompiledProfile:
    """What is computed once per profile and model, at configure."""

    profile: ResponseProfile
    static_ids: tuple[int, ...]
    """The tokens every prompt of this profile begins with, shape (num_static_tokens,)."""
    decision_set: DecisionSet
    constraints: Mapping[str, DetailConstraint]
    """What constrains the detail behind each decision word; empty without JSON."""
    head: DecisionHead | None = None
    """What decides on the last hidden state; None where the model's own words do."""

    def segments(
        self, renderer: PromptRenderer, scene: str, prompt: str,
    ) -> tuple[Segment, ...]:
        """Render one prompt of this profile."""
        return build_prompt(
            renderer, system_prompt=self.profile.static_prompt,
            scene_header=self.profile.scene_header, scene=scene,
            goal_header=self.profile.goal_header, prompt=prompt)

    def probe(self, backend: Backend, token_ids: Sequence[int], scene: str) -> int:
        """
        Return which token's hidden state the profile's head reads, or would read.

        For ``reads: scene`` the one in which the scene's text ends: whatever the goal says, it
        has not been read there. Else the last one of the prompt.

        :param token_ids: the whole prompt, shape (num_prompt_tokens,)
        :param scene: its description
        """
        if self.profile.decision.reads == 'prompt':
            return len(token_ids) - 1
        text = scene.rstrip() if scene.strip() else NO_SCENE
        num_scene_tokens = len(backend.tokenize(text, parse_special=False))
        return min(len(self.static_ids) + num_scene_tokens, len(token_ids)) - 1


def compile_profile(
    backend: Backend, renderer: PromptRenderer, profile: ResponseProfile,
    sampling: SamplingParams,
) -> CompiledProfile:
    """
    Check and tokenise what is fixed in a profile.

    :param sampling: of the node, which the profile may override
    :raises ConfigError: if its words, its schema or its head do not work with this model, or its
        own part of the prompt leaves no room for a goal
    """
    prefix = static_prefix(
        renderer, system_prompt=profile.static_prompt, scene_header=profile.scene_header)
    static_ids = tuple(tokenize_segments(backend, prefix))
    max_tokens = merge_sampling(sampling, profile).max_tokens
    if len(static_ids) + max_tokens >= backend.n_ctx:
        name = 'detail.max_tokens' if profile.detail.max_tokens else 'sampling.max_tokens'
        raise ConfigError(
            f'profile {profile.name}: every prompt begins with its {len(static_ids)} tokens, and '
            f'with {name}={max_tokens} for the answer no goal fits into '
            f'model.n_ctx={backend.n_ctx}; shorten its system_prompt, lower {name} or raise '
            'model.n_ctx')
    grammars = compile_grammars(profile)
    # Started here, so that neither its time nor its error comes with the first goal.
    started = {grammar: DetailConstraint(backend, grammar) for grammar in set(grammars.values())}
    return CompiledProfile(
        profile=profile,
        static_ids=static_ids,
        decision_set=DecisionSet(backend, profile.words),
        constraints={word: started[grammar] for word, grammar in grammars.items()},
        head=open_head(profile, backend.info))
