"""A token is drawn from the masked distribution, whichever way it is drawn."""

from collections.abc import Sequence

from engine_requests import make_request
from engine_running import borrowed, generate, WorkerHarness
import numpy as np
import pytest
from robot_llm.core.event import Delta, Event
from robot_llm.core.request import FinishReason
from robot_llm.engine import sampler as sampler_module
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.sampler import Sampler
from robot_llm.errors import DecodeError
from robot_llm.profile import ResponseProfile
from robot_llm.settings import SamplingParams

N_VOCAB = 50
NUM_DRAWS = 4000
PLAIN = {'temperature': 1.0, 'top_k': 0, 'top_p': 1.0, 'min_p': 0.0}


class Mask:
    """A constraint on a toy vocabulary that counts how often the whole mask was asked for."""

    def __init__(self, allowed: Sequence[int], n_vocab: int = N_VOCAB) -> None:
        self._mask = np.isin(np.arange(n_vocab), allowed)
        self.num_masks = 0

    def allows(self, token_id: int) -> bool:
        return bool(self._mask[token_id])

    def allowed(self) -> np.ndarray:
        self.num_masks += 1
        return self._mask


@pytest.fixture
def logits() -> np.ndarray:
    return np.random.default_rng(7).normal(0, 1.5, N_VOCAB).astype(np.float32)


def draw(params: SamplingParams, logits: np.ndarray, mask: Mask | None) -> np.ndarray:
    sampler = Sampler(N_VOCAB, params)
    counts = np.zeros(N_VOCAB, int)
    for _ in range(NUM_DRAWS):
        counts[sampler.sample(logits, mask)] += 1
    sampler.close()
    return counts


def assert_drawn_from(counts: np.ndarray, logits: np.ndarray, allowed: np.ndarray) -> None:
    """Chi-square over the tokens that are expected at least five times, the rest as one."""
    weights = np.where(allowed, np.exp(logits.astype(float)), 0.0)
    expected = NUM_DRAWS * weights / weights.sum()
    assert counts[~allowed].sum() == 0
    is_big = expected >= 5
    observed = np.append(counts[is_big], counts[~is_big].sum())
    wanted = np.append(expected[is_big], max(expected[~is_big].sum(), 1e-9))
    chi2 = float(((observed - wanted) ** 2 / wanted).sum())
    degrees = len(wanted) - 1
    # Five standard deviations of the chi-square distribution above its mean.
    assert chi2 < degrees + 5 * np.sqrt(2 * degrees)


@pytest.mark.parametrize('temperature', [0.5, 1.0, 2.0])
def test_without_a_mask_tokens_are_drawn_from_the_softmax(
    logits: np.ndarray, temperature: float,
) -> None:
    counts = draw(SamplingParams(**{**PLAIN, 'temperature': temperature, 'seed': 3}), logits, None)
    assert_drawn_from(counts, logits / temperature, np.ones(N_VOCAB, bool))


@pytest.mark.parametrize('seed', [1, 2, 3])
def test_under_a_mask_tokens_are_drawn_from_the_masked_softmax(
    logits: np.ndarray, seed: int,
) -> None:
    # The likeliest token is refused, so that the second draw happens often.
    allowed = [i for i in range(N_VOCAB) if i % 3 and i != logits.argmax()]
    mask = Mask(allowed)
    counts = draw(SamplingParams(**{**PLAIN, 'seed': seed}), logits, mask)
    assert_drawn_from(counts, logits, mask._mask)
    assert mask.num_masks == NUM_DRAWS


@pytest.mark.parametrize('n_vocab', [N_VOCAB, 4096])
@pytest.mark.parametrize('top_k', [2, 3])
def test_filters_look_at_what_is_allowed(n_vocab: int, top_k: int) -> None:
    """Drawn without the mask first, C came up in 75 of 100 answers instead of 60."""
    logits = np.full(n_vocab, -20.0, np.float32)
    logits[:4] = np.log([0.5, 0.3, 0.15, 0.05])
    mask = Mask(range(1, n_vocab), n_vocab)
    sampler = Sampler(n_vocab, SamplingParams(**{**PLAIN, 'top_k': top_k, 'seed': 5}))
    counts = np.bincount(
        [sampler.sample(logits, mask) for _ in range(NUM_DRAWS)], minlength=n_vocab)
    sampler.close()
    assert_drawn_from(counts, logits, np.isin(np.arange(n_vocab), range(1, top_k + 1)))


@pytest.mark.parametrize('n_vocab', [N_VOCAB, 4096])
def test_where_less_is_allowed_than_top_k_nothing_else_comes_in(n_vocab: int) -> None:
    mask = Mask([n_vocab - 1, 7], n_vocab)
    sampler = Sampler(n_vocab, SamplingParams(**{**PLAIN, 'top_k': 40, 'seed': 5}))
    logits = np.zeros(n_vocab, np.float32)
    assert {sampler.sample(logits, mask) for _ in range(200)} == {7, n_vocab - 1}
    sampler.close()


@pytest.mark.parametrize('params', [
    {'temperature': 0.0}, {'temperature': 0.7}, {'temperature': 0.7, 'top_k': 0},
    {'temperature': 0.0, 'repetition_penalty': 1.2}])
@pytest.mark.parametrize('broken', [[np.nan], [np.inf], np.full(N_VOCAB, -np.inf)])
def test_a_row_that_holds_no_numbers_is_an_engine_error_and_no_token(
    logits: np.ndarray, params: dict[str, float], broken: Sequence[float],
) -> None:
    """llama.cpp ended the process, and greedy said token 0."""
    row = logits.copy()
    row[-len(broken):] = broken
    sampler = Sampler(N_VOCAB, SamplingParams(**{'seed': 1, **params}))
    for mask in (None, Mask([3, 4])):
        with pytest.raises(DecodeError, match='NaN or infinite.*check the model file'):
            sampler.sample(row, mask)
    sampler.close()


def test_greedy_is_argmax_and_asks_for_the_mask_only_when_refused(logits: np.ndarray) -> None:
    best, second = (int(i) for i in np.argsort(-logits)[:2])
    sampler = Sampler(N_VOCAB, SamplingParams(temperature=0.0))
    assert sampler.sample(logits) == best
    open_mask = Mask(range(N_VOCAB))
    assert (sampler.sample(logits, open_mask), open_mask.num_masks) == (best, 0)
    closed = Mask([i for i in range(N_VOCAB) if i != best])
    before = logits.copy()
    assert (sampler.sample(logits, closed), closed.num_masks) == (second, 1)
    assert np.array_equal(logits, before)


@pytest.mark.parametrize('n_vocab', [2560, 4099, 50_000])
@pytest.mark.parametrize('top_k', [1, 40])
def test_only_the_likeliest_are_sorted_and_the_draws_stay_the_same(
    monkeypatch: pytest.MonkeyPatch, n_vocab: int, top_k: int,
) -> None:
    random = np.random.default_rng(n_vocab)
    rows = random.normal(0, 4, (30, n_vocab)).astype(np.float32)
    rows[::3] = np.sort(rows[::3])  # the likeliest all in the last blocks
    rows[1::3, 100:] = 0.0          # ties
    params = SamplingParams(temperature=1.0, top_k=top_k, seed=5)

    def draws(sampler: Sampler) -> list[int]:
        drawn = [sampler.sample(row) for row in rows]
        sampler.close()
        return drawn

    few = draws(Sampler(n_vocab, params))
    monkeypatch.setattr(Sampler, '_likeliest', lambda self, row: np.arange(len(row)))
    assert few == draws(Sampler(n_vocab, params))


def test_greedy_with_a_repetition_penalty_leaves_what_it_said(logits: np.ndarray) -> None:
    logits = np.abs(logits)
    logits[[4, 9]] = 8.0, 7.0
    sampler = Sampler(N_VOCAB, SamplingParams(temperature=0.0, repetition_penalty=1.3))
    assert sampler.sample(logits) == 4
    assert sampler.sample(logits) == 4
    sampler.accept([4])
    assert sampler.sample(logits) == 9
    sampler.accept([9])
    assert sampler.sample(logits) == 4
    assert sampler.sample(logits, Mask([9, 11])) == 9
    sampler.close()
    sampler.close()


@pytest.mark.parametrize('kept', [
    {'top_k': 3}, {'top_p': 0.01}, {'min_p': 1.0}, {'top_k': 1, 'temperature': 2.0}])
def test_filters_keep_the_likeliest(logits: np.ndarray, kept: dict[str, float]) -> None:
    counts = draw(SamplingParams(**{**PLAIN, 'seed': 5, **kept}), logits, None)
    limit = int(kept.get('top_k', 1))
    assert set(np.flatnonzero(counts)) == {int(i) for i in np.argsort(-logits)[:limit]}


def test_a_filter_that_keeps_nothing_allowed_still_gives_an_allowed_token(
    logits: np.ndarray,
) -> None:
    mask = Mask([int(np.argsort(-logits)[30])])
    counts = draw(SamplingParams(**{**PLAIN, 'top_k': 2, 'seed': 5}), logits, mask)
    assert list(np.flatnonzero(counts)) == list(np.flatnonzero(mask._mask))


def test_the_same_seed_draws_the_same_and_another_does_not(logits: np.ndarray) -> None:
    first, again, other = (
        [s.sample(logits) for _ in range(50)]
        for s in (Sampler(N_VOCAB, SamplingParams(**{**PLAIN, 'seed': seed}))
                  for seed in (8, 8, 9)))
    assert first == again != other


@pytest.mark.parametrize('seed', [1, 2**32 - 2, 2**32 - 1])
def test_every_seed_repeats_its_draws(logits: np.ndarray, seed: int) -> None:
    """The last one asks llama.cpp for a seed of its own, which nobody could report."""
    params = SamplingParams(**{**PLAIN, 'seed': seed})
    first, again = ([s.sample(logits) for _ in range(50)]
                    for s in (Sampler(N_VOCAB, params) for _ in range(2)))
    assert first == again


def test_every_sampler_is_freed_also_when_its_request_is_stopped(
    runtime: Runtime, profiles: dict[str, ResponseProfile], monkeypatch: pytest.MonkeyPatch,
) -> None:
    llama = sampler_module.llama
    made, freed = [], []
    init, free = llama.llama_sampler_chain_init, llama.llama_sampler_free
    monkeypatch.setattr(llama, 'llama_sampler_chain_init',
                        lambda params: made.append(init(params)) or made[-1])
    monkeypatch.setattr(llama, 'llama_sampler_free',
                        lambda chain: freed.append(chain) or free(chain))
    generate(runtime, make_request(profiles['text'], temperature=0.7, max_tokens=5))
    generate(runtime, make_request(profiles['json'], temperature=0.7, max_tokens=5))
    generate(runtime, make_request(profiles['text'], temperature=0.0, max_tokens=5))
    stopped = make_request(profiles['text'], temperature=0.7)

    def stop_in_the_detail(event: Event) -> None:
        if isinstance(event, Delta):
            harness.worker.requests.stop(stopped, FinishReason.CANCELED)

    with WorkerHarness(borrowed(runtime), on_event=stop_in_the_detail) as harness:
        harness.answer(stopped)
    assert stopped.finish_reason is FinishReason.CANCELED
    assert len(made) == len(freed) == 3
    assert made == freed
