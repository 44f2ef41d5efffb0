"""The parameters of speculation: tokens that are guessed, and checked in one decode."""

from typing import Annotated, Literal

from pydantic import Field
from robot_llm.parameter_group import Group


class SpeculationSettings(Group):
    """``speculation.*``: prompt lookup; the names are vLLM's."""

    policy: Annotated[Literal['auto', 'on', 'off'], Field(
        description=(
            'Propose tokens that followed the same tokens before, and check several in one '
            'decode; auto: only where that is faster on this device.'))] = 'auto'
    num_speculative_tokens: Annotated[int, Field(
        ge=1, le=32, description='Most tokens proposed for one decode [tokens].')] = 8
    # One token alone says little of what follows; beyond five every match is as good.
    prompt_lookup_min: Annotated[int, Field(
        ge=1, le=16, description='Shortest match that proposes anything [tokens].')] = 2
    prompt_lookup_max: Annotated[int, Field(
        ge=1, le=16, description='Longest match that is told from shorter ones [tokens].')] = 5
