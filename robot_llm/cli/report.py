"""A finished goal as a JSON object and as lines for people."""

from collections.abc import Iterator
import json
from typing import Any

from robot_llm.cli.monitor_text import printable
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.core.timing import Stage
from robot_llm.ros.answer import Answer
from robot_llm_msgs.msg import GenerationStats


def stats_dict(stats: GenerationStats) -> dict[str, float | int]:
    """Return every field of the statistics, floats rounded to a microsecond."""
    fields = stats.get_fields_and_field_types()
    return {
        name: round(value, 6) if isinstance(value := getattr(stats, name), float) else value
        for name in fields}


def answer_report(answer: Answer) -> dict[str, Any]:
    """
    Return all there is to say of a finished goal.

    ``stream_equals_result`` compares what this process received on the topic with the result.
    """
    result = answer.result
    assert result is not None, 'only a goal with a result can be reported'
    decision = answer.decisions[-1] if answer.decisions else None
    return {
        'goal_id': answer.goal_id.hex(),
        'decision': result.decision,
        'decision_source': DecisionSource(result.decision_source).name,
        'decision_confidence': round(result.decision_confidence, 6),
        'probabilities': {} if decision is None else {
            word: round(p, 6) for word, p in zip(decision.words, decision.probabilities)},
        'probability_mass': 0.0 if decision is None else round(decision.probability_mass, 6),
        'text': result.text,
        'detail': json.loads(result.detail_json) if result.detail_json else None,
        'finish_reason': FinishReason(result.finish_reason).name,
        'error_code': result.error_code,
        'error_msg': result.error_msg,
        'seed': result.seed,
        'num_messages': len(answer.tokens),
        'stream_equals_result': answer.text == result.text,
        'stats': stats_dict(result.stats),
    }


def stage_sum_s(stats: dict[str, float | int]) -> float:
    """Return the sum of the stages that make up ``ttft_s`` [s]."""
    return sum(stats[stage.value] for stage in list(Stage)[1:])


def result_lines(answer: Answer) -> Iterator[str]:
    """Yield what a person wants to know: who decided, how soon, what it cost; fit to print."""
    yield from map(printable, _result_lines(answer))


def _result_lines(answer: Answer) -> Iterator[str]:
    report = answer_report(answer)
    stats = report['stats']
    odds = ', '.join(f'{word} {p:.0%}' for word, p in report['probabilities'].items())
    # A head that decides before the model has read the goal leaves no mass to tell.
    mass = report['probability_mass']
    words = f'; the words had {mass:.1%} of all' if mass else ''
    yield f'decision  {report["decision"]}  by {report["decision_source"]}' + (
        f'  ({odds}{words})' if odds else '')
    if report['detail'] is not None:
        yield f'detail    {json.dumps(report["detail"], ensure_ascii=False)}'
    yield (f'end       {report["finish_reason"]}'
           + (f', error {report["error_code"]}: {report["error_msg"]}'
              if report['error_code'] else ''))
    yield (f'time      decision after {stats["ttft_s"] * 1e3:.0f} ms, then '
           f'{stats["tpot_s"] * 1e3:.1f} ms a token, {stats["e2e_s"]:.2f} s in all')
    yield (f'tokens    prompt {stats["num_prompt_tokens"]} ({stats["num_cached_tokens"]} cached), '
           f'answer {stats["num_completion_tokens"]} ({stats["num_forced_tokens"]} forced) in '
           f'{stats["num_decode_calls"]} decode calls'
           + (f', {stats["num_accepted_tokens"]} of {stats["num_draft_tokens"]} guesses right'
              if stats['num_draft_tokens'] else ''))
    if stats['cancel_latency_s']:
        yield (f'cancel    engine idle after {stats["cancel_latency_s"] * 1e3:.1f} ms, '
               f'{stats["num_wasted_tokens"]} tokens wasted')
