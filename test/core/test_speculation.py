"""What is proposed stood there before, and it is evaluated only where that pays."""

from hypothesis import given, strategies as st
import pytest
from robot_llm.core.decode_cost import DecodeCost, NUM_NEEDED
from robot_llm.core.speculation import MIN_DECODE_S, PromptLookup, Speculator
from robot_llm.settings import SpeculationSettings

PROMPT = [*range(100, 120)]


def make_lookup(token_ids: list[int], *, least: int = 2, most: int = 5) -> PromptLookup:
    lookup = PromptLookup(prompt_lookup_min=least, prompt_lookup_max=most)
    lookup.extend(token_ids)
    return lookup


def make_cost(single_s: float = 0.02, further_s: float = 0.0) -> DecodeCost:
    cost = DecodeCost()
    for _ in range(NUM_NEEDED):
        cost.observe(1, single_s)
        cost.observe(2, single_s + further_s)
    return cost


def make_speculator(
    cost: DecodeCost | None = None, *, is_possible: bool = True, **settings: object,
) -> Speculator:
    return Speculator(
        SpeculationSettings.model_validate({'policy': 'on'} | settings),
        cost or DecodeCost(), is_possible=is_possible)


def propose(speculator: Speculator, *, max_tokens: int = 99) -> list[int]:
    return speculator.propose(max_tokens=max_tokens, num_allowed=len)


@pytest.mark.parametrize(('context', 'proposed', 'match'), [
    ([1, 2, 3, 9, 9, 1, 2], [3, 9, 9], 2),
    ([5, 1, 2, 3, 7, 1, 2, 4, 5, 1, 2], [3, 7, 1], 3),   # the longest match
    ([1, 2, 3, 7, 1, 2, 4, 8, 1, 2], [4, 8, 1], 2),      # the latest of equally long ones
    ([1, 2, 3, 9, 2], [], 0),                            # one token is no match
    ([1, 1, 1], [1], 2),                                 # a match may overlap what follows it
    ([], [], 0), ([1], [], 0), ([1, 2], [], 0),
])
def test_what_followed_the_longest_and_latest_match_is_proposed(
    context: list[int], proposed: list[int], match: int,
) -> None:
    assert make_lookup(context).propose(3) == (proposed, match)


def slow_match(context: list[int], place: int, most: int) -> int:
    length = 0
    while length < min(most, place + 1) and (
            context[place - length] == context[len(context) - 1 - length]):
        length += 1
    return length


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 4), st.integers(4, 6))
def test_the_lookup_agrees_with_looking_at_every_place(
    context: list[int], least: int, most: int,
) -> None:
    places = [(slow_match(context, place, most), place) for place in range(len(context) - 1)]
    length, place = max(places, default=(0, 0))
    expected = (context[place + 1:place + 9], length) if length >= least else ([], 0)
    assert make_lookup(context, least=least, most=most).propose(8) == expected


def test_the_context_grows_beyond_its_first_size() -> None:
    lookup = make_lookup([7, 8, 9])
    for token_id in range(10_000, 15_000):
        lookup.extend([token_id])
    lookup.extend([7, 8])
    assert lookup.propose(1) == ([9], 2)
    lookup.clear()
    assert lookup.propose(1) == ([], 0)


def test_a_draft_is_taken_as_far_as_it_comes_true() -> None:
    speculator = make_speculator()
    speculator.begin(PROMPT, [100, 101])
    assert propose(speculator, max_tokens=3) == [102, 103, 104]
    assert speculator.accept([102]) == 1
    assert speculator.accept([103, 7]) == 1, 'the second was forced, and is another one'
    assert speculator.accept([8]) == 0


def test_forced_tokens_that_the_draft_had_are_evaluated_already() -> None:
    speculator = make_speculator()
    speculator.begin(PROMPT, [100, 101])
    propose(speculator, max_tokens=3)
    assert speculator.accept([102, 103, 104, 105]) == 3


def test_the_previous_answer_of_the_profile_is_the_nearest_place() -> None:
    speculator = make_speculator()
    speculator.begin(PROMPT, [100, 101])
    speculator.accept([50, 51, 52])
    speculator.begin(PROMPT, [100, 101])
    assert propose(speculator, max_tokens=3) == [50, 51, 52]


def test_never_more_than_asked_for_and_never_what_the_constraint_refuses() -> None:
    speculator = make_speculator(num_speculative_tokens=4)
    speculator.begin(PROMPT, [100, 101])
    assert len(propose(speculator)) == 4
    assert propose(speculator, max_tokens=0) == []
    assert speculator.propose(max_tokens=9, num_allowed=lambda token_ids: 2) == [102, 103]
    assert speculator.propose(max_tokens=9, num_allowed=lambda token_ids: 0) == []


@pytest.mark.parametrize('speculator', [
    make_speculator(policy='off'), make_speculator(is_possible=False)])
def test_off_or_impossible_it_proposes_nothing(speculator: Speculator) -> None:
    speculator.begin(PROMPT, [100, 101])
    assert propose(speculator) == []
    assert speculator.accept([102]) == 0


def repeat(speculator: Speculator, num_tokens: int, *, is_right: bool) -> list[int]:
    """Let proposals come true or not; return the lengths of the drafts."""
    lengths = []
    for index in range(num_tokens):
        speculator.begin(PROMPT, PROMPT[:6])
        lengths.append(len(propose(speculator)))
        speculator.accept(PROMPT[6:7] if is_right else [index])
    return lengths


def test_without_knowing_the_cost_it_learns_and_evaluates_nothing() -> None:
    speculator = make_speculator(policy='auto')
    assert set(repeat(speculator, 20, is_right=True)) == {0}
    assert speculator.rate(5) > 0.9


def test_a_wide_decode_that_costs_nothing_more_pays_at_once() -> None:
    assert repeat(make_speculator(make_cost(), policy='auto'), 1, is_right=True) == [8]


def test_a_wide_decode_that_costs_as_much_as_its_tokens_never_pays() -> None:
    speculator = make_speculator(make_cost(further_s=0.02), policy='auto')
    assert set(repeat(speculator, 50, is_right=True)) == {0}


def test_it_switches_itself_off_while_nothing_comes_true_and_on_again() -> None:
    speculator = make_speculator(make_cost(further_s=0.01), policy='auto')
    assert repeat(speculator, 1, is_right=True) == [0], 'half is too little at this cost'
    assert repeat(speculator, 30, is_right=True)[-1] > 0
    assert repeat(speculator, 30, is_right=False)[-1] == 0
    assert repeat(speculator, 60, is_right=True)[-1] > 0


def test_the_draft_is_as_long_as_each_further_token_pays() -> None:
    lengths = []
    for further_s in (0.004, 0.0176, 0.0179):
        speculator = make_speculator(make_cost(further_s=further_s), policy='auto')
        lengths.append(repeat(speculator, 40, is_right=True)[-1])
    assert lengths == sorted(lengths, reverse=True)
    assert 7 == lengths[0] > lengths[1] > lengths[2] > 0


def test_a_decode_faster_than_python_has_nothing_to_gain() -> None:
    speculator = make_speculator(make_cost(single_s=MIN_DECODE_S / 2), policy='auto')
    assert set(repeat(speculator, 30, is_right=True)) == {0}


def test_the_end_of_the_turn_is_a_guess_that_did_not_come_true() -> None:
    speculator = make_speculator()
    before = speculator.rate(5)
    speculator.begin(PROMPT, PROMPT[:6])
    assert propose(speculator)
    assert speculator.accept([]) == 0
    assert speculator.rate(5) < before
