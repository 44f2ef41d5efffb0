"""The time per token: whoever is compared has as many decodes as tokens that are counted."""

import pytest
from robot_llm.bench.engine.decoding import tpot_s
from robot_llm.bench.ours import Ours
from robot_llm.bench.prompts import PROFILES, STORY
from robot_llm.bench.system import Answer, Prompt
from robot_llm.settings import Settings

NUM_TOKENS = 12


def test_the_first_text_may_hold_tokens_that_no_decode_gave() -> None:
    stamps_s = (1.0, 2.0, 3.0, 4.0)
    assert Answer(0.0, stamps_s, 4, '').tpot_s == 1.0
    assert Answer(0.0, stamps_s, 5, '', 2).tpot_s == 1.0
    assert Answer(0.0, (1.0,), 2, '', 2).tpot_s == 0.0


@pytest.mark.filterwarnings('ignore:llama_token_get_attr is deprecated')
def test_ours_counts_the_tokens_that_had_a_decode(model_path) -> None:
    ours = Ours(Settings.from_flat({
        'model.path': str(model_path), 'model.n_ctx': 512, 'speculation.policy': 'off'}), PROFILES)
    try:
        request = ours.submit(Prompt('talk', '', STORY, NUM_TOKENS))
        answer = ours.follow(request, 0.0)
        counts = request.counts
        num_decodes = counts.num_decode_calls - counts.num_prefill_chunks
        assert answer.num_tokens == NUM_TOKENS
        assert num_decodes == NUM_TOKENS - answer.num_first
        elapsed_s = answer.stamps_s[-1] - answer.stamps_s[0]
        assert answer.tpot_s == pytest.approx(elapsed_s / num_decodes)
        assert tpot_s(ours.runtime, request) == pytest.approx(answer.tpot_s)
    finally:
        ours.close()
