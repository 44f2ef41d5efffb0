"""Between messages and values; plain functions, no node."""

from collections.abc import Iterator, Mapping
import dataclasses
import math
import secrets
from typing import Any, Protocol

from builtin_interfaces.msg import Duration, Time
from robot_llm.core.decision import Decision
from robot_llm.core.request import Request, Scene
from robot_llm.core.session import Session, Token
from robot_llm.core.timing import GenerationStats, Stage
from robot_llm.errors import ErrorCode, MalformedFieldError, UnknownProfileError
from robot_llm.profile import merge_sampling, ResponseProfile
from robot_llm.settings import Settings
from robot_llm_msgs import msg
from robot_llm_msgs.action import Generate
from unique_identifier_msgs.msg import UUID


class Catalog(Protocol):
    """What a goal is checked against."""

    @property
    def settings(self) -> Settings:
        """The parameters."""

    @property
    def profiles(self) -> Mapping[str, ResponseProfile]:
        """The loaded profiles by name."""


def duration_s(duration: Duration) -> float:
    """Return a duration message in seconds."""
    return float(duration.sec) + duration.nanosec * 1e-9


def goal_problems(goal: Any, catalog: Catalog) -> Iterator[str]:
    """Yield what is wrong with a goal's fields: value, limit and remedy, one sentence each."""
    limits = catalog.settings.limits
    num_bytes = len(goal.prompt.encode('utf-8', 'replace'))
    if not goal.prompt.strip():
        yield 'prompt is empty; say what to decide'
    if num_bytes > limits.prompt_bytes:
        yield (f'prompt has {num_bytes} bytes and limits.prompt_bytes={limits.prompt_bytes}; '
               'shorten it')
    if not (goal.temperature < 0 or 0 <= goal.temperature <= 2):  # also refuses NaN
        yield f"temperature={goal.temperature} is not in 0..2; negative takes the profile's"
    if goal.max_tokens > limits.max_tokens:
        yield (f'max_tokens={goal.max_tokens} is above limits.max_tokens={limits.max_tokens}; '
               "lower it, 0 takes the profile's")
    if len(goal.stop) > limits.stop_strings:
        yield (f'{len(goal.stop)} stop strings and limits.stop_strings={limits.stop_strings}; '
               'give fewer')
    for text in goal.stop:
        size = len(text.encode('utf-8', 'replace'))
        if not 0 < size <= limits.stop_bytes:
            yield (f'stop string {text[:20]!r} has {size} bytes, not '
                   f'1..{limits.stop_bytes} (limits.stop_bytes)')
    for name in ('decision_deadline', 'total_deadline'):
        if duration_s(getattr(goal, name)) < 0:
            yield f"{name}={duration_s(getattr(goal, name))} s is negative; 0 takes the profile's"


def check_goal(goal: Any, catalog: Catalog) -> ResponseProfile:
    """
    Return the profile of a goal whose fields are all in their limits.

    :raises UnknownProfileError: if no such profile is loaded
    :raises MalformedFieldError: with every problem
    """
    name = goal.profile or catalog.settings.profiles.default
    profile = catalog.profiles.get(name)
    if profile is None:
        known = ', '.join(sorted(catalog.profiles))
        raise UnknownProfileError(f'profile {name!r} is not loaded; there are {known}')
    problems = list(goal_problems(goal, catalog))
    if goal.stop and profile.detail.kind == 'json':
        problems.append('stop would cut the JSON detail of this profile; leave it empty')
    if problems:
        raise MalformedFieldError('; '.join(problems))
    return profile


def request_from_goal(
    goal: Any, profile: ResponseProfile, settings: Settings, *, scene: Scene, now_s: float,
) -> Request:
    """
    Put a request together: the goal's own fields over the profile's over the parameters.

    Its id is empty: rclpy tells it once the goal is accepted.

    A goal that names an epoch is bound to it, whatever the current one is.

    :param goal: checked by ``check_goal``
    :param scene: the current one
    :param now_s: when the goal was received, monotonic [s]
    """
    changes: dict[str, object] = {}
    sampling = merge_sampling(settings.sampling, profile)
    if goal.temperature >= 0:
        changes['temperature'] = float(goal.temperature)
    if goal.max_tokens:
        changes['max_tokens'] = int(goal.max_tokens)
    # 0 means "draw one"; the result reports which, so that any answer can be repeated.
    changes['seed'] = int(goal.seed) or sampling.seed or 1 + secrets.randbelow(2**32 - 1)
    decision_timeout_s = _timeout_s(goal.decision_deadline, profile.deadlines.decision_s)
    request = Request(
        request_id=b'',
        profile=profile,
        prompt=goal.prompt,
        sampling=sampling.model_copy(update=changes),
        scene=Scene(int(goal.scene_epoch) or scene.epoch, scene.description),
        stop_strings=tuple(goal.stop) or profile.stop,
        decision_timeout_s=decision_timeout_s,
        decision_deadline_s=now_s + decision_timeout_s,
        total_deadline_s=now_s + _timeout_s(goal.total_deadline, profile.deadlines.total_s),
        client=goal.client and '/' + goal.client.lstrip('/'))
    request.clock.mark(Stage.RECEIVED, now_s)
    return request


def _timeout_s(asked: Duration, default_s: float) -> float:
    return duration_s(asked) or default_s or math.inf


def token_message(
    token: Token, request: Request, stamp: Time, *, scene_epoch: int, elapsed_s: float,
) -> msg.Token:
    """Return the message of one token."""
    return msg.Token(
        stamp=stamp, goal_id=UUID(uuid=list(request.request_id)),
        scene_epoch=scene_epoch, seq=token.seq, kind=int(token.kind), text=token.text,
        num_tokens=token.num_tokens, elapsed_s=elapsed_s,
        finish_reason=int(token.finish_reason or 0))


def decision_message(
    decision: Decision, request: Request, stamp: Time, *, scene_epoch: int, latency_s: float,
) -> msg.Decision:
    """Return the message of one decision."""
    return msg.Decision(
        stamp=stamp, goal_id=UUID(uuid=list(request.request_id)),
        scene_epoch=scene_epoch, word=decision.word, source=int(decision.source),
        words=list(decision.words), probabilities=list(decision.probabilities),
        confidence=decision.confidence, probability_mass=decision.probability_mass,
        uncalibrated_probabilities=list(decision.uncalibrated), latency_s=latency_s)


def stats_message(stats: GenerationStats) -> msg.GenerationStats:
    """Return the message of the statistics; the field names are the same."""
    return msg.GenerationStats(**dataclasses.asdict(stats))


def result_message(session: Session, stats: GenerationStats) -> Generate.Result:
    """Return the result of a finished session."""
    request = session.request
    standing = request.latch.standing
    code = request.error.code if request.error is not None else ErrorCode.NONE
    return Generate.Result(
        decision=standing.word if standing else '',
        decision_source=int(standing.source) if standing else 0,
        decision_confidence=standing.confidence if standing else 0.0,
        text=session.text,
        detail_json=request.detail_json,
        finish_reason=int(request.finish_reason or 0),
        error_code=int(code),
        error_msg=str(request.error) if request.error is not None else '',
        seed=request.sampling.seed,
        stats=stats_message(stats))
