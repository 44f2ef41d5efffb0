"""What the model says of a decision where it knows nothing, to be divided out."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from robot_llm.core.decision import decide
from robot_llm.core.prompt import PromptRenderer
from robot_llm.engine.backend import Backend
from robot_llm.engine.kv_cache import KVCache
from robot_llm.engine.prompt_tokens import CompiledProfile, tokenize_segments
from robot_llm.engine.scoring import score_words

EMPTY_SCENES: Final = ('', 'N/A')
EMPTY_GOAL: Final = 'N/A'
"""Prompts without content; the mean over two is steadier than either. Source: Zhao et al. 2021."""


def measure_bias(
    backend: Backend, cache: KVCache, compiled: CompiledProfile, renderer: PromptRenderer, *,
    first_branch: int, evaluate: Callable[[Sequence[int]], None],
) -> NDArray[np.float64]:
    """
    Return the logarithm of each word's mean probability among the words, without any content.

    Runs at configure, behind the pinned prefix; leaves the working sequence empty.

    :param first_branch: the first sequence id that branches may use
    :param evaluate: evaluates the rest of a prompt behind the working sequence
    :returns: shape (num_words,)
    :raises EngineError: if a decode fails
    """
    words, probabilities = compiled.profile.words, []
    for scene in EMPTY_SCENES:
        token_ids = tokenize_segments(backend, compiled.segments(renderer, scene, EMPTY_GOAL))
        evaluate(token_ids[cache.reuse(compiled.profile.name, token_ids):])
        log_probs, _ = score_words(backend, compiled.decision_set, position=cache.num_tokens,
                                   first_branch=first_branch)
        said = decide(words, log_probs, fallback=words[0], min_confidence=0.0,
                      min_probability_mass=0.0).probabilities
        probabilities.append(said or (1 / len(words),) * len(words))
    cache.clear()
    # No word may get the whole set because the empty prompt gave it nothing.
    bias: NDArray[np.float64] = np.log(np.maximum(np.mean(probabilities, axis=0), 1e-6))
    return bias
