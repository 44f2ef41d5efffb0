"""``topics.*``, ``history.*``, ``status.*``, ``record.*``: what the node publishes and keeps."""

from typing import Annotated

from pydantic import Field

from robot_llm.parameter_group import Group


class TopicSettings(Group):
    """``topics.*``: quality of service of what the node publishes."""

    # A late or slow reader loses the first messages, so the depth holds a whole answer.
    token_depth: Annotated[int, Field(
        ge=3, le=65_536, description=(
            'Messages kept on ~/tokens, at least limits.max_tokens + 2.'))] = 1024
    decision_lifespan_s: Annotated[float, Field(
        ge=0.01, le=60.0, description=(
            'DDS lifespan of ~/decision; set the same on the subscriber, or a slow one gets '
            'old decisions late [s].'))] = 1.0


class HistorySettings(Group):
    """``history.*``: what ``~/replay`` can give back."""

    goals: Annotated[int, Field(
        ge=1, le=1000, description='Token streams kept for ~/replay, the newest [goals].')] = 32


class StatusSettings(Group):
    """``status.*``: the heartbeat."""

    rate_hz: Annotated[float, Field(
        ge=0.1, le=50.0, description=(
            'Rate of ~/status while the engine works; at least three times in status.lease_s '
            '[Hz].'))] = 5.0
    # On a GPU longer than the longest call of the model.
    lease_s: Annotated[float, Field(
        ge=0.1, le=60.0, description=(
            'DDS deadline and liveliness lease of ~/status: silence means a hang; read once, at '
            'start [s].'))] = 3.0
    # 1 % of a core at 10 Hz, 7 % at 100 Hz, measured on x86; what is shorter than a period may
    # go unseen.
    stall_probe_hz: Annotated[float, Field(
        ge=0.0, le=1000.0, description=(
            'How often the lateness of the executor is measured for /diagnostics; 0 never '
            '[Hz].'))] = 10.0


class RecordSettings(Group):
    """``record.*``: decided scenes kept for labelling; nothing is kept by default."""

    path: Annotated[str, Field(
        description='File of decided scenes, a JSON object a line; empty records nothing.')] = ''
    max_bytes: Annotated[int, Field(
        ge=4096, le=2**40, description='Longest file; what is more goes into a new one [bytes].',
    )] = 10_000_000
    num_old: Annotated[int, Field(
        ge=0, le=1000, description='Full files kept beside the newest one.')] = 4
