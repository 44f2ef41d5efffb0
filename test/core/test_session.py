"""Whatever happens to a goal, its listeners get one decision first, one END last, and no gap."""

from collections import deque
import math

from engine_requests import make_profile, make_request
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, RuleBasedStateMachine
import pytest
from robot_llm.core.decision import Decision, DecisionSource
from robot_llm.core.event import Decided, Delta, Event, Finished, Restarted, Stopping
from robot_llm.core.request import FinishReason, Request, Scene
from robot_llm.core.session import Output, Session, SOURCE_OF_REASON, Token, TokenKind
from robot_llm.core.timing import Stage
from robot_llm.errors import DecodeError, LimitInDetailError, SchemaNotMetError

DRIVE = make_profile('drive')
ERRORS = (None, LimitInDetailError('cut'), SchemaNotMetError('wrong'), DecodeError('broken'))


def model_says(word: str) -> Decision:
    return Decision(word, DecisionSource.MODEL, DRIVE.words, (0.1, 0.1, 0.8), 0.8, 0.5)


def decided(request: Request, word: str, num_tokens: int = 1) -> Decided:
    """Latch a word as the engine does, and return the event."""
    decision = model_says(word)
    request.latch.offer(decision)
    return Decided(request, decision, num_tokens)


@pytest.fixture
def session() -> Session:
    return Session(make_request(DRIVE))


def test_a_whole_answer(session: Session) -> None:
    request = session.request
    first = session.decide(decided(request, 'continue', 2), 0.0)
    assert first.decision == model_says('continue')
    assert first.tokens == (Token(0, TokenKind.DECISION, 'continue', 2),)
    assert session.append(Delta(request, '\nyes', 3)).tokens == (
        Token(1, TokenKind.DETAIL, '\nyes', 3),)
    request.finish(FinishReason.STOP)
    assert session.finish() == Output(
        None, (Token(2, TokenKind.END, '', 0, FinishReason.STOP),))
    assert (session.text, session.is_over, session.must_stop) == ('continue\nyes', True, False)


def test_tokens_without_text_are_counted_with_the_next_message(session: Session) -> None:
    request = session.request
    session.decide(decided(request, 'stop'), 0.0)
    assert session.append(Delta(request, '', 2)) == Output()
    assert session.append(Delta(request, 'x', 1)).tokens[0].num_tokens == 3
    session.append(Delta(request, '', 4))
    request.finish(FinishReason.STOP)
    assert session.finish().tokens[-1].num_tokens == 4


def test_a_missed_deadline_publishes_the_fallback_and_drops_the_models_word(
    session: Session,
) -> None:
    request = session.request
    output = session.miss_decision_deadline(math.inf)
    assert output.decision is not None
    assert (output.decision.word, output.decision.source) == ('stop', DecisionSource.DEADLINE)
    assert output.tokens == (Token(0, TokenKind.DECISION, 'stop', 0),)
    assert session.miss_decision_deadline(math.inf) == Output()
    assert session.decide(decided(request, 'continue'), 0.0) == Output()
    assert session.append(Delta(request, '\nx', 2)).tokens[0].num_tokens == 3


@pytest.mark.parametrize(('word', 'must_stop'), [('continue', True), ('stop', False)])
def test_a_decision_that_comes_late_gives_way_to_the_fallback(
    session: Session, word: str, must_stop: bool,
) -> None:
    session.decision_deadline_s = 5.0
    output = session.decide(decided(session.request, word), 5.1)
    assert output.decision is not None
    assert (output.decision.word, output.decision.source) == ('stop', DecisionSource.DEADLINE)
    assert output.tokens[0].text == 'stop'
    assert session.must_stop is must_stop


def test_a_decision_that_was_latched_in_time_does_not_miss_its_deadline(session: Session) -> None:
    event = decided(session.request, 'continue')
    assert session.miss_decision_deadline(math.inf) == Output()
    assert session.decide(event, 0.0).tokens[0].text == 'continue'


def test_a_refused_detail_revokes_the_published_word(session: Session) -> None:
    request = session.request
    session.decide(decided(request, 'continue'), 0.0)
    request.finish(FinishReason.LENGTH, error=LimitInDetailError('cut'))
    output = session.finish()
    assert output.decision == Decision(
        'stop', DecisionSource.ERROR, DRIVE.words, (0.1, 0.1, 0.8), 0.8, 0.5)
    assert [token.kind for token in output.tokens] == [TokenKind.END]


@pytest.mark.parametrize('reason', FinishReason)
def test_a_goal_that_ends_undecided_publishes_the_fallback_and_its_end(
    session: Session, reason: FinishReason,
) -> None:
    session.request.finish(reason)
    output = session.finish()
    assert output.decision is not None and output.decision.word == 'stop'
    assert output.decision.source is not DecisionSource.MODEL
    assert [(t.seq, t.kind) for t in output.tokens] == [(0, TokenKind.DECISION),
                                                        (1, TokenKind.END)]
    assert output.tokens[1].finish_reason is reason


@pytest.mark.parametrize('word', ['continue', 'stop'])
def test_an_answer_behind_a_word_that_came_too_late_is_no_answer(
    session: Session, word: str,
) -> None:
    request = session.request
    event = decided(request, word)
    request.detail_json = '{}'
    request.finish(FinishReason.STOP)
    session.decision_deadline_s = 5.0
    session.decide(event, 5.1)
    session.append(Delta(request, '{}', 1))
    end = session.finish().tokens[-1]
    if word == 'stop':
        assert (session.text, end.finish_reason, request.detail_json) == (
            'stop{}', FinishReason.STOP, '{}')
    else:
        assert (session.text, end.finish_reason, request.detail_json) == (
            'stop', FinishReason.DEADLINE, '')


STOPS = [reason for reason in FinishReason
         if reason not in (FinishReason.STOP, FinishReason.LENGTH)]


@pytest.mark.parametrize('reason', STOPS)
def test_a_stop_before_the_decision_publishes_the_fallback_before_the_engine_obeys(
    session: Session, reason: FinishReason,
) -> None:
    request = session.request
    request.stop(reason, 1.0)
    output = session.stop(Stopping(request, reason))
    assert output.decision is not None and output.decision.word == 'stop'
    assert output.decision.source is SOURCE_OF_REASON[reason]
    assert output.tokens == (Token(0, TokenKind.DECISION, 'stop', 0),)
    assert session.decide(decided(request, 'continue'), 2.0) == Output()
    assert session.finish() == Output(None, (Token(1, TokenKind.END, '', 1, reason),))


@pytest.mark.parametrize('reason', STOPS)
def test_a_stop_behind_the_decision_revokes_it_at_once_where_it_may_not_stand(
    session: Session, reason: FinishReason,
) -> None:
    request = session.request
    session.decide(decided(request, 'continue'), 0.0)
    request.stop(reason, 1.0, error=DecodeError('x') if reason is FinishReason.ERROR else None)
    output = session.stop(Stopping(request, reason))
    stands = reason in (FinishReason.CANCELED, FinishReason.PREEMPTED, FinishReason.CLIENT_GONE)
    assert (output.decision is None) is stands
    assert stands or output.decision is request.latch.standing
    assert output.tokens == () and session.stop(Stopping(request, reason)) == Output()
    assert session.finish() == Output(None, (Token(1, TokenKind.END, '', 0, reason),))


@pytest.mark.parametrize('reason', STOPS)
def test_a_word_that_was_not_published_when_its_goal_was_stopped_never_is(
    session: Session, reason: FinishReason,
) -> None:
    request = session.request
    event = decided(request, 'continue')
    request.stop(reason, 1.0)
    output = session.decide(event, 1.0)  # the stop itself is behind it in the inbox
    assert output.decision is not None and output.tokens[0].text == 'stop'
    assert output.decision.source is SOURCE_OF_REASON[reason]
    assert session.stop(Stopping(request, reason)) == Output()


@pytest.mark.parametrize('is_decided', [True, False])
def test_a_restart_revokes_the_old_word_at_once_and_lets_no_other_out(
    session: Session, is_decided: bool,
) -> None:
    request = session.request
    event = decided(request, 'continue')
    if is_decided:
        session.decide(event, 0.0)
    request.ask_restart(Scene(7), 3, 1.0)
    output = session.stop(Stopping(request, None))
    if is_decided:
        assert output.decision is not None
        assert (output.decision.word, output.decision.source) == (
            'stop', DecisionSource.STALE_SCENE)
    else:
        assert output == Output()
        assert session.decide(event, 1.0) == Output()
        assert session.append(Delta(request, 'x', 1)) == Output()
    request.take_restart(2.0)
    output = session.restart(Restarted.of(request))
    assert output.decision is None and len(output.tokens) == is_decided
    assert session.decide(decided(request, 'slow'), 3.0).tokens[0].text == 'slow'


def test_nothing_ends_before_its_reason_is_latched(session: Session) -> None:
    assert session.finish() == Output()
    assert not session.is_over


def test_stamping_marks_the_first_decision_and_counts_the_tokens(session: Session) -> None:
    request = session.request
    request.clock.mark(Stage.RECEIVED, 1.0)
    session.stamp(session.decide(decided(request, 'stop'), 0.0), 3.0)
    session.stamp(session.append(Delta(request, 'x', 2)), 5.0)
    request.stop(FinishReason.SCENE_CHANGED, 6.0)
    session.stamp(session.finish(), 9.0)
    assert (request.clock.ttft_s, request.clock.tpot_s) == (2.0, 1.0)


class SessionMachine(RuleBasedStateMachine):
    """
    Any interleaving of the engine, the streamer, and whoever ends the goal or changes its scene.

    The engine's events keep their order (Decided, Deltas, Restarted or Finished) and are delivered
    late, stops among them; deadlines pass at any time.
    """

    @initialize(deadline_s=st.sampled_from((math.inf, 5.0)),
                revoke_on=st.frozensets(st.sampled_from(
                    ('error', 'deadline', 'refused_detail', 'scene_change'))))
    def start(self, deadline_s: float, revoke_on: frozenset[str]) -> None:
        self.request = make_request(make_profile('drive', revoke_on=revoke_on))
        self.request.decision_timeout_s = self.request.decision_deadline_s = deadline_s
        self.session = Session(self.request)
        self.inbox: deque[Event] = deque()
        self.engine_stage = 'prefill'
        self.now_s = 0.0
        self.begin()

    def begin(self) -> None:
        """Begin to note what is published about one scene."""
        self.latch = self.session._latch
        self.decisions: list[Decision] = []
        self.tokens: list[Token] = []
        self.num_given = 0
        self.is_stopped = False

    @precondition(lambda self: self.engine_stage == 'prefill')
    @rule(word=st.sampled_from(DRIVE.words), num_tokens=st.integers(1, 3))
    def engine_decides(self, word: str, num_tokens: int) -> None:
        self.inbox.append(decided(self.request, word, num_tokens))
        self.engine_stage = 'detail'

    @precondition(lambda self: self.engine_stage == 'detail')
    @rule(text=st.sampled_from(('', 'a', 'bc')), num_tokens=st.integers(0, 3))
    def engine_goes_on(self, text: str, num_tokens: int) -> None:
        self.inbox.append(Delta(self.request, text, num_tokens))

    @precondition(lambda self: self.engine_stage != 'over' and self.request.next_scene is None)
    @rule(reason=st.sampled_from(FinishReason), error=st.sampled_from(ERRORS))
    def engine_ends(self, reason: FinishReason, error: Exception | None) -> None:
        self.request.finish(reason, error=error)
        self.inbox.append(Finished(self.request))
        self.engine_stage = 'over'

    @precondition(lambda self: self.engine_stage != 'over')
    @rule()
    def engine_starts_again(self) -> None:
        if self.request.take_restart(self.now_s):
            self.inbox.append(Restarted.of(self.request))
            self.engine_stage = 'prefill'
        self.request.next_scene = None  # one that ends does not start again

    @rule(reason=st.sampled_from(FinishReason), error=st.sampled_from(ERRORS))
    def somebody_stops(self, reason: FinishReason, error: Exception | None) -> None:
        if self.request.stop(reason, self.now_s, error=error) and self.engine_stage != 'over':
            self.inbox.append(Stopping(self.request, reason))

    @precondition(lambda self: self.engine_stage != 'over')
    @rule()
    def scene_changes(self) -> None:
        if self.request.ask_restart(Scene(self.request.scene.epoch + 1), 9, self.now_s):
            self.inbox.append(Stopping(self.request, None))

    @rule(seconds=st.floats(0.0, 4.0))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds

    @rule()
    def decision_deadline_passes(self) -> None:
        self.take(self.session.miss_decision_deadline(math.inf))

    @precondition(lambda self: self.inbox)
    @rule()
    def deliver(self) -> None:
        match self.inbox.popleft():
            case Decided() as event:
                self.num_given += event.num_tokens
                self.take(self.session.decide(event, self.now_s))
                if self.session.must_stop:
                    self.somebody_stops(FinishReason.DEADLINE, None)
            case Delta() as event:
                self.num_given += event.num_tokens
                self.take(self.session.append(event))
            case Stopping() as event:
                self.take(self.session.stop(event))
                self.is_stopped = True
            case Restarted() as event:
                self.take(self.session.restart(event))
                self.check_part(TokenKind.RESTART)
                self.begin()
            case Finished():
                self.take(self.session.finish())

    @precondition(lambda self: self.session.is_over)
    @rule()
    def something_comes_behind_the_end(self) -> None:
        for output in (self.session.finish(), self.session.miss_decision_deadline(math.inf),
                       self.session.append(Delta(self.request, 'x', 0)),
                       self.session.stop(Stopping(self.request, FinishReason.SHUTDOWN)),
                       self.session.decide(decided(self.request, 'continue', 0), self.now_s)):
            assert output == Output()

    def take(self, output: Output) -> None:
        if output.decision is not None:
            assert not self.is_stopped or output.decision.word == 'stop'
            self.decisions.append(output.decision)
        self.tokens += output.tokens

    def check_part(self, last: TokenKind) -> None:
        """Hold what was published about one scene against the promises."""
        if last is TokenKind.RESTART and not self.tokens:
            return
        kinds = [token.kind for token in self.tokens]
        assert kinds[0] is TokenKind.DECISION and kinds.count(TokenKind.DECISION) == 1
        assert kinds[-1] is last and kinds.count(last) == 1
        first = self.tokens[0].seq
        assert [token.seq for token in self.tokens] == list(range(first, first + len(kinds)))
        assert sum(token.num_tokens for token in self.tokens) == self.num_given
        words = [decision.word for decision in self.decisions]
        assert words[0] == self.tokens[0].text
        assert words[1:] in ([], ['stop'])
        assert self.decisions[-1] is self.latch.standing

    def teardown(self) -> None:
        """Deliver the rest, then hold everything that is left against the promises."""
        if not hasattr(self, 'session'):
            return
        if self.engine_stage != 'over':
            self.engine_starts_again()
            self.engine_ends(FinishReason.STOP, None)
        while self.inbox:
            self.deliver()
        self.check_part(TokenKind.END)
        assert self.tokens[-1].finish_reason is self.request.finish_reason
        assert self.session.text == ''.join(token.text for token in self.tokens)
        assert self.latch is self.request.latch


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
