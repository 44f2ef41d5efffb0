"""Prefill in chunks, decision, decode; yields events; obeys the stop flag."""

from collections.abc import Callable, Iterator, Sequence

from robot_llm.core.decision import decide_by, Decision, Evidence
from robot_llm.core.event import Decided, Delta, Event, Started
from robot_llm.core.request import FinishReason, Request, RequestEvent
from robot_llm.core.timing import Stage
from robot_llm.engine.answer import Answer
from robot_llm.engine.backend import DecodeAborted
from robot_llm.engine.constraint import WordTokens
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
    """

    def __init__(self, runtime: Runtime, request: Request, clock: Clock) -> None:
        self._runtime = runtime
        self._backend = runtime.backend
        self._request = request
        self._clock = clock
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
            self._prefill(self._prompt)
            decision = self._decide()
            self._counts.num_calls_to_decision = self._counts.num_decode_calls
            standing = self._request.latch.offer(decision)
            word = self._compiled.decision_set[standing.word]
            self._counts.num_completion_tokens += len(word.token_ids)
            yield Decided(self._request, decision, len(word.token_ids))
            self._request.apply(RequestEvent.PROMPT_EVALUATED)
            if self._request.profile.detail.kind == 'none':
                self._request.finish(FinishReason.STOP)
                return
            yield from self._detail(word)
        except _Stopped:
            self._request.stop_clock.acknowledged_s = self._clock()
        except DecodeAborted:
            self._request.stop_clock.acknowledged_s = self._clock()
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

    def _prefill(self, token_ids: Sequence[int]) -> None:
        """Evaluate what the cache does not hold, a chunk at a time, so that a stop is obeyed."""
        runtime, counts = self._runtime, self._counts
        probe = self._compiled.probe(
            self._backend, token_ids, self._request.scene.description)
        known, self._hidden = runtime.probed
        is_known = list(known) == token_ids[:probe + 1]
        # What is read from the probe is not in the cache: evaluate it again, unless it is at hand.
        counts.num_cached_tokens = runtime.cache.reuse(
            self._request.profile.name, token_ids, limit=None if is_known else probe)
        self._mark(Stage.PREFIX_LOOKED_UP)
        position = counts.num_cached_tokens
        while position < len(token_ids):
            self._check_stop()
            end = runtime.next_chunk(position, len(token_ids))
            is_inside = position <= probe < end
            runtime.prefill(
                token_ids[position:end], probe=probe - position if is_inside else None)
            if is_inside:
                self._hidden = self._backend.hidden_state()
                runtime.probed = (token_ids[:probe + 1], self._hidden)
            counts.num_decode_calls += 1
            counts.num_prefill_chunks += 1
            counts.num_prefilled_tokens += end - position
            position = end
        self._mark(Stage.PREFILLED)

    def _extend(self, token_ids: Sequence[int], *, num_rows: int) -> None:
        self._runtime.extend(token_ids, num_rows=num_rows)
        self._counts.num_decode_calls += 1

    def _decide(self) -> Decision:
        """Decide from the last row of the prefill; no further decode where words differ."""
        self._check_stop()
        log_probs, num_calls = score_words(
            self._backend, self._compiled.decision_set,
            position=self._runtime.cache.num_tokens,
            first_branch=self._runtime.first_branch,
            max_tokens=self._runtime.chunks.limit(self._backend.n_batch),
            check_stop=self._check_stop)
        self._counts.num_decode_calls += num_calls
        self._request.evidence = Evidence(
            log_probs, self._hidden, self._request.scene.description)
        decision = decide_by(
            self._request.profile.decision, self._request.evidence, self._compiled.head,
            self._runtime.bias.get(self._request.profile.name))
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
