"""What stands between two requests: the model, its context, the cache, the compiled profiles."""

from collections.abc import Callable, Mapping, Sequence
import datetime
import secrets

from robot_llm.core.prompt import PromptRenderer
from robot_llm.engine.backend import Backend, DecodeAborted
from robot_llm.engine.kv_cache import KVCache
from robot_llm.engine.prompt_tokens import compile_profile, CompiledProfile
from robot_llm.errors import ModelLoadError
from robot_llm.profile import ResponseProfile
from robot_llm.settings import Settings


def _nothing() -> None:
    return


class Runtime:
    """
    A backend made ready for requests: everything a first goal would otherwise pay for is done.

    Templates are compiled, words and schemas checked, pinned prefixes evaluated. Only the worker
    thread calls it.

    :param backend: loaded, without a context yet; owned from here on
    :param profiles: by name, at least one
    :param today: for templates that write the date
    :param should_stop: asked between prefill chunks; True gives up
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
    ) -> None:
        self.backend = backend
        self.chunk_tokens = min(settings.engine.chunk_tokens, backend.n_batch)
        info = backend.info
        self.renderer = PromptRenderer(
            info.chat_template, bos_token=info.bos_text, eos_token=info.eos_text,
            nonce=secrets.token_hex(8), now=today)
        self.profiles: dict[str, CompiledProfile] = {
            name: compile_profile(backend, self.renderer, profile)
            for name, profile in profiles.items()}
        compiled = self.profiles.values()
        self.first_branch = 1 + len(compiled)
        backend.open_context(
            backend.n_ctx,
            num_reserved_tokens=(
                sum(len(profile.static_ids) for profile in compiled)
                + max(profile.decision_set.num_branch_tokens for profile in compiled)),
            num_sequences=(
                self.first_branch
                + max(profile.decision_set.num_branches for profile in compiled)))
        self.cache = KVCache(backend)
        self.on_progress: Callable[[], None] = _nothing
        """Called after every decode, the sign that the engine lives."""
        for name, profile in self.profiles.items():
            self._pin(name, profile.static_ids, should_stop)

    def _pin(
        self, name: str, token_ids: Sequence[int], should_stop: Callable[[], bool],
    ) -> None:
        """Evaluate a static prefix and keep it; the first one also warms the whole path up."""
        self.cache.clear()
        for start in range(0, len(token_ids), self.chunk_tokens):
            if should_stop():
                raise ModelLoadError('warming up was given up, the node is being stopped')
            self.decode(token_ids[start:start + self.chunk_tokens])
        self.cache.pin(name, token_ids)

    def decode(self, token_ids: Sequence[int]) -> None:
        """
        Evaluate tokens behind the working sequence; the cache stays in step with the memory.

        :param token_ids: shape (num_tokens,), at least one
        :raises DecodeAborted: if the abort flag ended it; what was finished is kept
        :raises EngineError: if the runtime fails
        """
        step = self.backend.n_batch
        for start in range(0, len(token_ids), step):
            part = token_ids[start:start + step]
            try:
                self.backend.decode(part, position=self.cache.num_tokens)
            except DecodeAborted:
                self.cache.recover(part)
                raise
            self.cache.extend(part)
            self.on_progress()

    def close(self) -> None:
        """Free everything; safe to call twice."""
        self.backend.close()
