"""What stands between two requests: the model, its context, the cache, the compiled profiles."""

from collections.abc import Callable, Mapping, Sequence
import datetime
import secrets
import time

import numpy as np
from numpy.typing import NDArray
from robot_llm.cache_folder import CacheFolder
from robot_llm.core.chunking import ChunkSizer, STEP
from robot_llm.core.peaks import Peaks
from robot_llm.core.prompt import PromptRenderer
from robot_llm.core.speculation import Speculator
from robot_llm.engine.backend import Backend, DecodeAborted
from robot_llm.engine.calibration import measure_bias
from robot_llm.engine.kv_cache import KVCache
from robot_llm.engine.prefix_store import PrefixStore
from robot_llm.engine.prompt_tokens import compile_profile, CompiledProfile
from robot_llm.errors import EngineError, ModelLoadError, RobotLlmError, UnknownProfileError
from robot_llm.profile import ResponseProfile
from robot_llm.settings import Settings


class Runtime:
    """
    A backend made ready for requests: everything a first goal would otherwise pay for is done.

    Templates are compiled, words and schemas checked, pinned prefixes evaluated. Only the worker
    thread calls it.

    :param backend: loaded, without a context yet; owned from here on
    :param profiles: by name, at least one
    :param today: for templates that write the date
    :param should_stop: asked between prefill chunks; True gives up
    :param folder: where prefixes are kept for the next start; None keeps none
    :param say: takes what the operator wants to know of a configure, a sentence at a time
    :param warn: takes what went wrong on the way and changed nothing
    :param peaks: what the device can do at best; raised by what is faster
    :param clock: monotonic seconds
    :raises ConfigError: if a profile or the chat template does not work with this model
    :raises EngineError: if the context does not fit or the first decode fails
    """

    def __init__(
        self,
        backend: Backend,
        settings: Settings,
        profiles: Mapping[str, ResponseProfile],
        *,
        today: datetime.datetime,
        should_stop: Callable[[], bool] = lambda: False,
        folder: CacheFolder | None = None,
        say: Callable[[str], None] = lambda _sentence: None,
        warn: Callable[[str], None] = lambda _sentence: None,
        peaks: Peaks | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.backend = backend
        most = backend.n_batch
        self.chunks = ChunkSizer(
            min(settings.model.n_ubatch, most), min(settings.engine.chunk_tokens, most),
            is_abortable=backend.aborts_inside, max_stall_s=settings.engine.max_stall_s)
        self.peaks = peaks or Peaks()
        self._clock, self._say = clock, say
        self._store = PrefixStore(backend, folder, warn) if folder is not None else None
        info = backend.info
        self.renderer = PromptRenderer(
            info.chat_template, bos_token=info.bos_text, eos_token=info.eos_text,
            nonce=secrets.token_hex(8), now=today)
        self._should_stop = should_stop
        self._speculation, self._sampling = settings.speculation, settings.sampling
        self.decode_cost = self.chunks.decode_cost
        self.bias: dict[str, NDArray[np.float64]] = {}
        """By profile with contextual calibration; see ``measure_bias``."""
        self.speculators: dict[str, Speculator] = {}
        """By profile; each learns from one answer to the next."""
        self.on_progress: Callable[[], None] = lambda: None
        """Called after every decode, the sign that the engine lives."""
        self.profiles: dict[str, CompiledProfile] = {}
        self.probed: tuple[Sequence[int], NDArray[np.float32]] = ((), np.empty(0, np.float32))
        """The tokens up to the last probe, and the hidden state there."""
        self._open(self._compile(profiles))

    def _compile(self, profiles: Mapping[str, ResponseProfile]) -> dict[str, CompiledProfile]:
        return {name: compile_profile(self.backend, self.renderer, profile, self._sampling)
                for name, profile in profiles.items()}

    def _open(self, profiles: dict[str, CompiledProfile]) -> None:
        """Make a context with room for these profiles, and pin their prefixes."""
        compiled = profiles.values()
        self.first_branch = 1 + len(compiled)
        self.backend.open_context(
            self.backend.n_ctx,
            num_reserved_tokens=(
                sum(len(profile.static_ids) for profile in compiled)
                + max(profile.decision_set.num_branch_tokens for profile in compiled)),
            num_sequences=(
                self.first_branch
                + max(profile.decision_set.num_branches for profile in compiled)))
        self.cache = KVCache(self.backend)
        self.profiles = profiles
        self.speculators = {
            name: Speculator(self._speculation, self.decode_cost,
                             is_possible=self.cache.can_drop_part)
            for name in profiles}
        self._warm_up()
        for name, profile in profiles.items():
            self._pin(name, profile.static_ids)
        self.bias = {
            name: measure_bias(
                self.backend, self.cache, profile, self.renderer,
                first_branch=self.first_branch, evaluate=self._evaluate)
            for name, profile in profiles.items()
            if profile.profile.decision.calibration == 'contextual'}

    def reload(self, profiles: Mapping[str, ResponseProfile]) -> RobotLlmError | None:
        """
        Serve other profiles from now on, or the old ones still if anything is wrong.

        The context is made anew: the prefixes to pin decide how large it has to be.

        :returns: why the old ones are served still; None if the new ones are
        :raises RobotLlmError: if the old ones do not fit any more either; nothing is served then
        """
        old = self.profiles
        try:
            compiled = self._compile(profiles)
        except RobotLlmError as error:
            return error
        try:
            self._open(compiled)
        except Exception as error:  # noqa: B902  whatever it is, the old ones are wanted back
            self._open(old)
            return error if isinstance(error, RobotLlmError) else EngineError(
                f'internal error, please report it: {type(error).__name__}: {error}')
        return None

    def compiled(self, profile: ResponseProfile) -> CompiledProfile:
        """
        Return what was compiled of a request's profile.

        :raises UnknownProfileError: if it was replaced while the request waited
        """
        compiled = self.profiles.get(profile.name)
        if compiled is None or compiled.profile != profile:
            raise UnknownProfileError(
                f'profile {profile.name!r} was reloaded while the goal waited; send it again')
        return compiled

    def _warm_up(self) -> None:
        """Run every shape of decode once, so that no goal pays for pages and buffers."""
        token_ids = range(STEP)
        self._check_stop()
        self.decode(token_ids, probe=-1, num_rows=0)
        self._check_stop()
        self.decode(token_ids[:1])
        # The second call of each shape is timed: it takes what every later one takes.
        for count in (1, STEP):
            self._check_stop()
            self.prefill(token_ids[:count])
        self.cache.clear()

    def _check_stop(self) -> None:
        if self._should_stop():
            raise ModelLoadError('warming up was given up, the node is being stopped')

    def _pin(self, name: str, token_ids: Sequence[int]) -> None:
        """Keep a static prefix: restore it from the disk, or evaluate and save it."""
        self.cache.clear()
        if self._store is not None and self._store.restore(token_ids):
            self.cache.adopt(token_ids)
            self.cache.pin(name, token_ids)
            self._say(f'prefix of {name!r} restored, {len(token_ids)} tokens')
            return
        self._evaluate(token_ids)
        self.cache.pin(name, token_ids)
        self._say(f'prefix of {name!r} evaluated, {len(token_ids)} tokens')
        if self._store is not None:
            self._store.save(token_ids)
            self.cache.clear()

    def _evaluate(self, token_ids: Sequence[int]) -> None:
        position = 0
        while position < len(token_ids):
            self._check_stop()
            end = self.next_chunk(position, len(token_ids))
            self.prefill(token_ids[position:end])
            position = end

    def next_chunk(self, position: int, end: int) -> int:
        """
        Return where the prefill chunk ends that begins at ``position``.

        :param end: length of the prompt
        """
        return min(position + self.chunks.size, end)

    def prefill(
        self, token_ids: Sequence[int], *, probe: int | None = None, num_rows: int = 1,
    ) -> None:
        """Evaluate one chunk, and learn how long it took; else like ``decode``."""
        started_s = self._clock()
        self.decode(token_ids, probe=probe, num_rows=num_rows)
        self.chunks.learn(len(token_ids), self._clock() - started_s)

    def extend(self, token_ids: Sequence[int], *, num_rows: int) -> None:
        """Evaluate a few tokens of an answer, and learn what they cost; else like ``decode``."""
        started_s = self._clock()
        self.decode(token_ids, num_rows=num_rows)
        elapsed_s = self._clock() - started_s
        self.decode_cost.observe(len(token_ids), elapsed_s)
        self.chunks.learn_few(len(token_ids), elapsed_s)

    def decode(
        self, token_ids: Sequence[int], *, probe: int | None = None, num_rows: int = 1,
    ) -> None:
        """
        Evaluate tokens behind the working sequence; the cache stays in step with the memory.

        :param token_ids: shape (num_tokens,), at least one
        :param probe: which of them gives the hidden state, if they fit into one batch; None: none
        :param num_rows: how many of the last ones get logits; more than one in one batch only
        :raises DecodeAborted: if the abort flag ended it; what was finished is kept
        :raises EngineError: if the runtime fails
        """
        step = self.backend.n_batch
        for start in range(0, len(token_ids), step):
            part = token_ids[start:start + step]
            started_s = self._clock()
            try:
                self.backend.decode(
                    part, position=self.cache.num_tokens,
                    probe=probe if len(part) == len(token_ids) else None, num_rows=num_rows)
            except DecodeAborted:
                self.cache.recover(part)
                self.chunks.note_abort(len(part))
                raise
            info = self.backend.info
            if info.shape is not None:
                kv_bytes = info.shape.kv_bytes_read(
                    self.cache.num_tokens, info.kv_bytes_per_token)
                self.peaks.see(info.shape, len(part), kv_bytes, self._clock() - started_s)
            self.cache.extend(part)
            self.on_progress()

    def close(self) -> None:
        """Free everything; safe to call twice."""
        self.backend.close()
