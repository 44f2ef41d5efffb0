"""The decision set and the detail's grammar, in the tokens of the model."""

from engine_requests import make_profile, SPEED_SCHEMA
import numpy as np
import pytest
from robot_llm.engine.constraint import (
    compile_grammars, DecisionSet, DetailConstraint, SEPARATOR)
from robot_llm.engine.runtime import Runtime
from robot_llm.errors import ConfigError, DecodeError

JSON = make_profile('json', schema=SPEED_SCHEMA)


@pytest.fixture
def constraint(runtime: Runtime) -> DetailConstraint:
    grammar = compile_grammars(JSON)['stop']
    return DetailConstraint(runtime.backend, grammar)


def ids(runtime: Runtime, text: str) -> list[int]:
    return runtime.backend.tokenize(text, parse_special=False)


def test_a_words_tokens_are_those_that_the_model_would_write(runtime: Runtime) -> None:
    words = ('stop', 'stopover', 'go_left', 'weiter', 'あお', 'weiß')
    decision_set = DecisionSet(runtime.backend, words)
    for word in decision_set.words:
        spelled = b''.join(map(runtime.backend.token_bytes, word.token_ids + word.separator_ids))
        assert spelled.decode() == word.word + SEPARATOR
        assert decision_set[word.word] is word
        assert word.token_ids and word.separator_ids


def test_words_are_grouped_by_their_first_token(runtime: Runtime) -> None:
    decision_set = DecisionSet(
        runtime.backend, ('stop', 'slow', 'stopover', 'go_left', 'go_right'))
    assert decision_set.shared == [[0, 2], [3, 4]]
    assert decision_set.num_branches == 2
    # go _ left newline, without the last; twice. The two stops need 1 + 2.
    assert decision_set.num_branch_tokens == 6
    alone = DecisionSet(runtime.backend, ('stop', 'slow'))
    assert (alone.shared, alone.num_branches, alone.num_branch_tokens) == ([], 0, 0)


def test_the_same_word_twice_is_refused(runtime: Runtime) -> None:
    with pytest.raises(ConfigError, match=r"\('stop', 'stop'\) are not distinct in the tokens"):
        DecisionSet(runtime.backend, ('stop', 'stop'))


def test_a_word_without_tokens_is_refused(runtime: Runtime) -> None:
    with pytest.raises(ConfigError, match="decision word '' has no tokens"):
        DecisionSet(runtime.backend, ('', 'stop'))


def test_words_that_need_more_than_one_batch_are_refused(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type(runtime.backend), 'n_batch', 5)
    with pytest.raises(ConfigError, match='need 6 tokens in one batch and model.n_batch=5; raise'):
        DecisionSet(runtime.backend, ('go_left', 'go_right'))
    DecisionSet(runtime.backend, ('stop', 'slow'))


def test_only_a_json_detail_has_a_grammar() -> None:
    assert compile_grammars(make_profile('word')) == {}
    assert compile_grammars(make_profile('text', text=True)) == {}


def test_the_keys_come_in_the_order_of_the_schema(runtime: Runtime) -> None:
    properties = SPEED_SCHEMA['properties']
    for names in (('reason', 'target_speed_mps'), ('target_speed_mps', 'reason')):
        schema = SPEED_SCHEMA | {'properties': {name: properties[name] for name in names}}
        grammar = compile_grammars(make_profile('json', schema=schema))['stop']
        forced = DetailConstraint(runtime.backend, grammar).forced()
        text = b''.join(map(runtime.backend.token_bytes, forced)).decode()
        assert text.startswith(f'{{"{names[0]}'), text


def test_the_mask_and_the_single_question_agree(
    runtime: Runtime, constraint: DetailConstraint,
) -> None:
    constraint.accept(constraint.forced())
    allowed = constraint.allowed()
    assert allowed.shape == (runtime.backend.info.n_vocab,)
    asked = np.random.default_rng(1).integers(0, len(allowed), 500)
    for token_id in {*map(int, asked), *map(int, np.flatnonzero(allowed)[:50])}:
        assert constraint.allows(token_id) == allowed[token_id]
    assert 0 < allowed.sum() < 1000


def test_a_detail_is_complete_when_nothing_but_the_end_may_follow(
    runtime: Runtime, constraint: DetailConstraint,
) -> None:
    for token_id in ids(runtime, '{"target_speed_mps":0.5,"reason":"a dog"}'):
        assert not constraint.is_complete
        assert constraint.allows(token_id)
        constraint.accept([token_id])
    assert constraint.is_complete
    assert constraint.forced() == []


@pytest.mark.parametrize('text', [
    '{"reason"', '{ "target', '{"target_speed_mps":1.6', '{"target_speed_mps":-',
    '{"target_speed_mps":0.55', '{"target_speed_mps":1e', '{"target_speed_mps":0.5,"reason":""',
    '{"target_speed_mps":0.5,"reason":"a\n', '{"target_speed_mps":0.5,"target'])
def test_what_the_schema_forbids_cannot_be_written(
    runtime: Runtime, constraint: DetailConstraint, text: str,
) -> None:
    for token_id in ids(runtime, text):
        if not constraint.allows(token_id):
            return
        constraint.accept([token_id])
    pytest.fail(f'{text!r} was accepted')


def test_an_unchecked_token_that_is_refused_is_our_own_bug(
    runtime: Runtime, constraint: DetailConstraint,
) -> None:
    with pytest.raises(DecodeError, match='the constraint refused'):
        constraint.accept(ids(runtime, 'no'))


def test_two_answers_do_not_share_their_state(
    runtime: Runtime, constraint: DetailConstraint,
) -> None:
    opening = ids(runtime, '{"')[0]
    first, fresh = constraint.begin(), constraint.begin()
    constraint.accept(constraint.forced())
    assert fresh.allows(opening)
    assert not constraint.allows(opening)
    fresh.accept(fresh.forced())
    assert constraint.begin().allows(opening) is constraint.allows(opening) is False
    assert first.allows(opening)
