"""
Everything this package raises on purpose.

* RobotLlmError
  - ConfigError               bad parameter, profile or file; found at configure
  - IllegalTransitionError    our own bug: an event that cannot happen in this status
  - RequestError              this request only; the engine keeps running (codes 100 to 199)
    + ContextOverflowError
    + UnknownProfileError
    + QueueFullError
    + MalformedFieldError
    + DeadlineTooShortError
    + SceneMissingError
  - AnswerError               the model's answer is refused; the engine keeps running (200s)
    + SchemaNotMetError
    + LimitInDetailError
  - EngineError               the engine is no longer usable; goals end in ERROR (300s)
    + ModelLoadError
    + DecodeError
    + OutOfMemoryError
    + EngineHungError
    + NotActiveError

The families say how far the damage goes; every error that ends a goal carries the code that
goes over the wire.
"""

from enum import IntEnum
from typing import ClassVar


class ErrorCode(IntEnum):
    """``error_code`` of a result; append only, never renumber."""

    NONE = 0
    CONTEXT_OVERFLOW = 101
    UNKNOWN_PROFILE = 102
    BAD_SCHEMA = 103
    QUEUE_FULL = 104
    MALFORMED_FIELD = 105
    DEADLINE_TOO_SHORT = 106
    SCENE_MISSING = 107
    SCHEMA_NOT_MET = 201
    LIMIT_IN_DETAIL = 202
    MODEL_NOT_LOADED = 301
    DECODE_FAILED = 302
    OUT_OF_MEMORY = 303
    ENGINE_HUNG = 304
    NOT_ACTIVE = 305


class RobotLlmError(Exception):
    """Root of the tree."""

    code: ClassVar[ErrorCode] = ErrorCode.NONE


class ConfigError(RobotLlmError):
    """
    A parameter, a profile or a file is wrong.

    :param problems: one sentence each, with the name, the value, the limit and the remedy
    """

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__('; '.join(problems))


class IllegalTransitionError(RobotLlmError):
    """An event has no row in the transition table; the request is unchanged."""


class RequestError(RobotLlmError):
    """This request cannot be served; the engine keeps running."""


class ContextOverflowError(RequestError):
    """The prompt and the answer do not fit the context window."""

    code = ErrorCode.CONTEXT_OVERFLOW

    def __init__(self, num_prompt_tokens: int, max_tokens: int, n_ctx: int) -> None:
        super().__init__(
            f'prompt {num_prompt_tokens} + answer {max_tokens} tokens exceed n_ctx={n_ctx}; '
            'shorten the prompt, lower max_tokens or raise model.n_ctx')


class UnknownProfileError(RequestError):
    """The goal names a profile that is not loaded."""

    code = ErrorCode.UNKNOWN_PROFILE


class QueueFullError(RequestError):
    """No room for another waiting request."""

    code = ErrorCode.QUEUE_FULL


class MalformedFieldError(RequestError):
    """A field of the goal is out of its limits."""

    code = ErrorCode.MALFORMED_FIELD


class DeadlineTooShortError(RequestError):
    """By the measured rates the decision cannot be there in time."""

    code = ErrorCode.DEADLINE_TOO_SHORT

    def __init__(self, predicted_s: float, deadline_s: float) -> None:
        super().__init__(
            f'the decision is expected after {predicted_s:.3f} s and decision_deadline='
            f'{deadline_s:.3f} s; shorten the prompt, give more time, or set admission.policy '
            'to off')


class SceneMissingError(RequestError):
    """There is no scene to decide on: it did not arrive in time, or nobody vouches for it."""

    code = ErrorCode.SCENE_MISSING


class AnswerError(RobotLlmError):
    """The model's answer cannot be used; the next request can be served."""


class SchemaNotMetError(AnswerError):
    """The detail does not meet the profile's schema."""

    code = ErrorCode.SCHEMA_NOT_MET


class LimitInDetailError(AnswerError):
    """The token limit was reached inside a detail that has to be whole."""

    code = ErrorCode.LIMIT_IN_DETAIL


class EngineError(RobotLlmError):
    """The engine is no longer usable; the node must leave ``active``."""

    code = ErrorCode.DECODE_FAILED


class ModelLoadError(EngineError):
    """The model file cannot be opened, does not fit, or is not where it was asked to be."""

    code = ErrorCode.MODEL_NOT_LOADED


class DecodeError(EngineError):
    """``llama_decode`` failed; what the memory holds is unknown."""

    code = ErrorCode.DECODE_FAILED


class OutOfMemoryError(EngineError):
    """The runtime could not allocate what the model or the context needs."""

    code = ErrorCode.OUT_OF_MEMORY


class EngineHungError(EngineError):
    """The engine made no progress for ``engine.hang_s``; its thread is left behind."""

    code = ErrorCode.ENGINE_HUNG


class NotActiveError(EngineError):
    """The node is not in the lifecycle state ``active``; it takes no goals."""

    code = ErrorCode.NOT_ACTIVE
