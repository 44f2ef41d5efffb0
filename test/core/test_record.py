"""What a finished request leaves for learning."""

from engine_requests import make_profile, make_request
import numpy as np
from robot_llm.core.decision import Decision, DecisionSource, Evidence
from robot_llm.core.record import record_of
from robot_llm.core.request import FinishReason

WORDS = ('stop', 'slow', 'continue')
SLOW = Decision('slow', DecisionSource.MODEL, WORDS, (0.1, 0.7, 0.2), 0.7, 0.3)


def decided_request():
    request = make_request(make_profile('drive'), 'Go on.', scene='Wet floor.')
    request.evidence = Evidence(np.zeros(3), np.ones(4, np.float32))
    request.latch.offer(SLOW)
    return request


def test_a_record_says_what_was_seen_decided_and_how_it_ended():
    request = decided_request()
    request.finish(FinishReason.STOP)
    record = record_of(request, SLOW, 12.5)
    digest = record.pop('hidden_sha256')
    assert len(digest) == 64
    assert record == {
        'stamp_s': 12.5, 'profile': 'drive', 'scene': 'Wet floor.', 'epoch': 0, 'goal': 'Go on.',
        'words': list(WORDS), 'probabilities': [0.1, 0.7, 0.2], 'confidence': 0.7,
        'word': 'slow', 'source': 'MODEL', 'stands': 'slow', 'finish_reason': 'STOP'}


def test_a_revoked_decision_is_kept_beside_what_stands():
    request = decided_request()
    request.latch.fall(DecisionSource.ERROR)
    record = record_of(request, SLOW, 0.0)
    assert (record['word'], record['stands']) == ('slow', 'stop')


def test_a_goal_that_the_model_did_not_decide_leaves_nothing():
    request = make_request(make_profile('drive'))
    assert record_of(request, None, 0.0) is None
    request.latch.fall(DecisionSource.DEADLINE)
    assert record_of(request, None, 0.0) is None
