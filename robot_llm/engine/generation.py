"""Prefill in chunks, decision, decode; yields events; obeys the stop flag."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from robot_llm.core.decision import decide_by, Decision, Evidence
from robot_llm.core.event import Decided, Delta, Event, Started
from robot_llm.core.request import FinishReason, Request, RequestEvent
from robot_llm.core.timing import Stage
from robot_llm.engine.answer import Answer
from robot_llm.engine.backend import DecodeAborted
from robot_llm.engine.constraint import WordTokens
from robot_llm.engine.finite import finite
from robot_llm.engine.prompt_tokens import tokenize_segments
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.scoring import score_words
from robot_llm.errors import (
    AnswerError, ContextOverflowError, DecodeError, EngineError, RequestError)

Clock = Callable[[], float]


class _Stopped(Exception):
    """The request's terminal reason is latched; unwinds to ``run``, never further."""


class Generation:
    """
    One request on its way through the runtime; ``run`` once, on the worker thread.

    :param runtime: the loaded model with its cache and profiles
    :param request: PREFILL; its stages, counts and reason are written here
    :param clock: monotonic seconds
    :param gathers_all: read the whole prompt and give every method's evidence
    """

    def __init__(
        self, runtime: Runtime, request: Request, clock: Clock, *, gathers_all: bool = False,
    ) -> None:
        self._runtime, self._backend = runtime, runtime.backend
        self._gathers_all = gathers_all
        self._request, self._clock = request, clock
        self._counts = request.counts

    def run(self) -> Iterator[Event]:
        """
        Yield what happens, until the request's reason is latched.

        :raises DecodeAborted: if the abort flag ended a decode; the cache must be recovered
        :raises RobotLlmError: if the request or the engine fails; nothing is latched then
        """
        yield Started(self._request)
        self._compiled = self._runtime.compiled(self._request.profile)
        try:
            self._prompt = self._prompt_ids()
            self._prefill()
            decision = self._decide()
            self._counts.num_calls_to_decision = self._counts.num_decode_calls
            standing = self._request.latch.offer(decision)
            word = self._compiled.decision_set[standing.word]
            self._counts.num_completion_tokens += len(word.token_ids)
            yield Decided(self._request, decision, len(word.token_ids))
            if self._request.profile.detail.kind == 'none':
                self._request.finish(FinishReason.STOP)
                return
            self._evaluate(len(self._prompt), is_late=True)
            self._request.apply(RequestEvent.PROMPT_EVALUATED)
            yield from self._detail(word)
        except (_Stopped, DecodeAborted) as stop:
            self._request.stop_clock.acknowledged_s = self._clock()
            if isinstance(stop, DecodeAborted):
                raise

    def _check_stop(self) -> None:
        if self._request.is_stopping:
            raise _Stopped

    def _mark(self, stage: Stage) -> None:
        self._request.clock.mark(stage, self._clock())

    def _prompt_ids(self) -> list[int]:
        """
        Render and tokenise the prompt, and count before anything is evaluated.

        :raises ContextOverflowError: if prompt and answer do not fit; nothing is cut silently
        """
        request = self._request
        self._mark(Stage.STARTED)
        segments = self._compiled.segments(
            self._runtime.renderer, request.scene.description, request.prompt)
        self._mark(Stage.TEMPLATED)
        token_ids = tokenize_segments(self._backend, segments)
        self._mark(Stage.TOKENIZED)
        self._counts.num_prompt_tokens = len(token_ids)
        if len(token_ids) + request.sampling.max_tokens > self._backend.n_ctx:
            raise ContextOverflowError(
                len(token_ids), request.sampling.max_tokens, self._backend.n_ctx)
        return token_ids

    def _prefill(self) -> None:
        """Evaluate the prompt as far as the decision needs it."""
        rules, compiled, token_ids = self._request.profile.decision, self._compiled, self._prompt
        self._needs_words = self._gathers_all or not rules.needs_scene_alone
        # Without a head the last token, whose row of logits is there anyway.
        self._probe = len(token_ids) - 1
        if compiled.head is not None or self._gathers_all:
            self._probe = compiled.probe(self._backend, token_ids, self._request.scene.description)
        known, self._hidden = self._runtime.probed
        is_known = list(known) == token_ids[:self._probe + 1]
        # What is read from the probe is not in the cache: evaluate it again, unless it is at hand.
        self._counts.num_cached_tokens = self._runtime.cache.reuse(
            self._request.profile.name, token_ids, limit=None if is_known else self._probe)
        self._mark(Stage.PREFIX_LOOKED_UP)
        if not is_known or self._needs_words:
            self._evaluate(len(token_ids) if self._needs_words else self._probe + 1)
        self._mark(Stage.PREFILLED)

    def _evaluate(self, end: int, *, is_late: bool = False) -> None:
        """Evaluate up to ``end`` what is not yet, a chunk at a time, so that a stop is obeyed."""
        runtime, counts = self._runtime, self._counts
        while (position := runtime.cache.num_tokens) < end:
            self._check_stop()
            chunk = self._prompt[position:runtime.next_chunk(position, end)]
            is_inside = 0 <= (probe := self._probe - position) < len(chunk)
            # Nobody reads another row of a prompt than its last one, and not every head that one.
            is_read = self._needs_words and position + len(chunk) == len(self._prompt)
            runtime.prefill(chunk, probe=probe if is_inside else None, num_rows=int(is_read))
            if is_inside:
                self._hidden = finite(self._backend.hidden_state())
                runtime.probed = (self._prompt[:self._probe + 1], self._hidden)
            counts.num_decode_calls += 1
            counts.num_prefill_chunks += 1
            counts.num_prefilled_tokens += len(chunk)
            counts.num_late_tokens += len(chunk) * is_late

    def _extend(self, token_ids: Sequence[int], *, num_rows: int) -> None:
        self._runtime.extend(token_ids, num_rows=num_rows)
        self._counts.num_decode_calls += 1

    def _decide(self) -> Decision:
        """Decide from what the prefill gave; no further decode where words differ at once."""
        self._check_stop()
        runtime, profile = self._runtime, self._request.profile
        log_probs = np.full(len(profile.words), np.nan)
        if self._needs_words:
            log_probs, num_calls = score_words(
                self._backend, self._compiled.decision_set, check_stop=self._check_stop,
                position=runtime.cache.num_tokens, first_branch=runtime.first_branch,
                max_tokens=runtime.chunks.limit(self._backend.n_batch))
            self._counts.num_decode_calls += num_calls
        self._request.evidence = Evidence(
            log_probs, self._hidden, self._request.scene.description)
        decision = decide_by(
            profile.decision, self._request.evidence, self._compiled.head,
            runtime.bias.get(profile.name))
        self._mark(Stage.SAMPLED)
        self._check_stop()
        return decision

    def _detail(self, word: WordTokens) -> Iterator[Event]:
        """Generate behind the word that stands until the answer is whole or the limit is met."""
        request, counts = self._request, self._counts
        answer = Answer(self._backend, self._compiled, request, word)
        self._speculator = self._runtime.speculators[request.profile.name]
        try:
            new_ids = answer.begin()
            text = answer.append(new_ids)
            pending = [*word.token_ids, *word.separator_ids, *new_ids]
            self._speculator.begin(self._prompt, pending)
            while not answer.is_over:
                yield Delta(request, text, answer.take_num_tokens())
                self._check_stop()
                draft = self._decode_with_draft(pending, answer)
                if request.is_stopping:
                    # The row for the next token was computed, and nobody wants that token.
                    counts.num_wasted_tokens += 1
                    raise _Stopped
                text, pending = self._choose(answer, draft)
            text += answer.finish()
            yield Delta(request, text, answer.take_num_tokens())
        finally:
            answer.close()

    def _decode_with_draft(self, pending: Sequence[int], answer: Answer) -> Sequence[int]:
        """Evaluate what is certain, and behind it what is worth guessing; return the guess."""
        limit = self._runtime.chunks.limit
        while len(pending) > (most := limit(self._backend.n_batch)):
            # Nothing else bounds a stop here, and what is forced may be many tokens.
            self._extend(pending[:most], num_rows=1)
            pending = pending[most:]
            self._check_stop()
        room = min(answer.room - 1, most - len(pending))
        draft = self._speculator.propose(
            max_tokens=max(room, 0), num_allowed=answer.num_allowed)
        self._extend([*pending, *draft], num_rows=1 + len(draft))
        self._counts.num_draft_tokens += len(draft)
        return draft

    def _choose(self, answer: Answer, draft: Sequence[int]) -> tuple[str, list[int]]:
        """
        Append tokens as long as their rows are there: one, and one for each that was guessed.

        Every token is sampled from its own row, whether it was guessed or not. To draw from the
        distribution and to keep a guess that comes up is speculative sampling where the guess is
        certain of itself: accepted with the probability that it has, else drawn from the rest. So
        the text is the one that would have come without guessing.
        Source: Leviathan et al. 2023; for one seed also llama.cpp's common/sampling.cpp.

        :returns: the text that may be published, and the tokens that are not evaluated yet
        """
        text, num_right = '', 0
        while True:
            new_ids = answer.choose(self._backend.logits(num_right - len(draft) - 1))
            text += answer.append(new_ids)
            num_evaluated = self._speculator.accept(new_ids)
            num_right += num_evaluated
            if answer.is_over or num_evaluated < len(new_ids):
                break
        self._counts.num_accepted_tokens += num_right
        cache = self._runtime.cache
        cache.drop_behind(cache.num_tokens - len(draft) + num_right)
        return text, new_ids[num_evaluated:]


def run_to_end(
    generation: Generation, request: Request, emit: Callable[[Event], None],
) -> Exception | None:
    """
    Run a generation, and latch why its request ended, however it ends.

    :param emit: takes the events
    :returns: what makes the engine unusable; None if the next request can be served
    """
    try:
        for event in generation.run():
            emit(event)
    except DecodeAborted:
        # The usual: its reason was latched before the flag was set, and this changes nothing.
        request.finish(FinishReason.ERROR, error=DecodeError(
            'a decode was aborted that nobody had asked to stop'))
    except (RequestError, AnswerError) as error:
        request.finish(FinishReason.ERROR, error=error)
    except EngineError as error:
        request.finish(FinishReason.ERROR, error=error)
        return error
    except Exception as error:  # noqa: B902  a bug of ours ends the goal, not the thread
        request.finish(FinishReason.ERROR, error=DecodeError(
            f'internal error, please report it: {type(error).__name__}: {error}'))
        return error
    return None
