"""What a client's times of arrival come to, beside the node's own stages."""

import math

import pytest
from robot_llm.bench.timeline import (
    Arrival, OF_NODE, share, STAGES, Timeline, wasted_tokens)

STATS = {**dict.fromkeys(OF_NODE, 0.0), 'prefill_s': 0.1, 'queue_s': 0.02, 'publish_s': 0.008,
         'tpot_s': 0.01}


def timeline(**changes):
    arrivals = (Arrival(10.15, 0.002, 1), Arrival(10.16, 0.003, 1), Arrival(10.18, 0.004, 2))
    return Timeline(**{
        'sent_s': 10.0, 'decision_s': 10.149, 'result_s': 10.2, 'goal_way_s': 0.02,
        'latency_s': 0.128, 'arrivals': arrivals, 'stats': STATS, **changes})


def test_the_parts_stand_in_their_order_and_none_is_a_remainder() -> None:
    split = timeline().split_s
    assert tuple(split) == STAGES
    assert split['goal sent to received'] == 0.02
    assert split['queue'] == 0.02 and split['prefill'] == 0.1
    assert split['publish'] == 0.008
    assert split['published to received'] == 0.002
    assert timeline().split_ratio == pytest.approx(1.0)
    assert timeline().handed_s == pytest.approx(0.008)


def test_a_node_that_hides_a_tenth_of_the_time_shows_in_the_ratio() -> None:
    assert timeline(stats={**STATS, 'prefill_s': 0.085}).split_ratio == pytest.approx(0.9)


def test_the_tokens_of_one_message_share_the_gap_before_it() -> None:
    line = timeline()
    assert line.num_tokens == 4
    assert line.gaps_s == pytest.approx((0.01, 0.01, 0.01))
    assert line.tpot_s == pytest.approx(0.01)
    assert math.fsum(line.gaps_s) == pytest.approx(line.answer_s - line.ttft_s)


def test_the_end_is_foretold_from_the_first_token_and_the_nodes_time_per_token() -> None:
    line = timeline()
    assert line.ttft_s == pytest.approx(0.15)
    assert line.time_to_decision_s == pytest.approx(0.149)
    assert line.predicted_answer_s == pytest.approx(line.answer_s)


def test_an_answer_of_one_message_has_no_time_per_token() -> None:
    line = timeline(arrivals=(Arrival(10.15, 0.002, 1),))
    assert line.tpot_s == 0.0 and line.gaps_s == ()


@pytest.mark.parametrize(
    ('num_clients', 'expected'), [(1000, (60_000, 740_000)), (10, (600, 7400))])
def test_one_client_in_ten_leaving_after_a_quarter_wastes_what_the_issue_says(
    num_clients: int, expected: tuple[int, int],
) -> None:
    assert wasted_tokens(
        num_clients, leaving=0.1, after_tokens=200, answer_tokens=800) == expected


@pytest.mark.parametrize(('flags', 'expected'), [((), 0.0), ((True, False), 0.5), ((True,), 1.0)])
def test_a_share_is_between_nothing_and_everything(
    flags: tuple[bool, ...], expected: float,
) -> None:
    assert share(flags) == expected
