"""Messages as a node would send them, for tests that need neither a node nor a terminal."""

from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from robot_llm.core.session import TokenKind
from robot_llm_msgs.msg import Decision, Status, Token
from unique_identifier_msgs.msg import UUID

NODE = '/robot_llm'


def goal_uuid(number: int) -> UUID:
    """Return the id of a test's goal; 0 is none."""
    return UUID(uuid=[number] * 16)


class Sender:
    """Says what a node would say of one goal, in order."""

    def __init__(self, number: int = 1, *, epoch: int = 0) -> None:
        self.uuid, self.epoch = goal_uuid(number), epoch
        self.goal_id = bytes(self.uuid.uuid)
        self.seq = 0
        self.elapsed_s = 0.0

    def token(self, kind: TokenKind, text: str = '', *, num_tokens: int = 1,
              finish_reason: int = 0) -> Token:
        """Return the next message of the stream, 0.25 s behind the last one."""
        self.elapsed_s += 0.25
        token = Token(
            goal_id=self.uuid, scene_epoch=self.epoch, seq=self.seq, kind=int(kind), text=text,
            num_tokens=num_tokens, elapsed_s=self.elapsed_s, finish_reason=finish_reason)
        self.seq += 1
        return token

    def stream(self, *texts: str, finish_reason: int = 1) -> list[Token]:
        """Return a whole stream; the first text is the decision word."""
        return [
            self.token(TokenKind.DECISION, texts[0]),
            *(self.token(TokenKind.DETAIL, text) for text in texts[1:]),
            self.token(TokenKind.END, num_tokens=0, finish_reason=finish_reason)]

    def decision(self, word: str, *, source: int = Decision.SOURCE_MODEL,
                 odds: dict[str, float] | None = None, latency_s: float = 0.25) -> Decision:
        """Return a decision; the model was sure unless ``odds`` say otherwise."""
        odds = {'stop': 0.125, 'slow': 0.125, 'continue': 0.75} if odds is None else odds
        return Decision(
            goal_id=self.uuid, scene_epoch=self.epoch, word=word, source=source,
            words=list(odds) or ['stop', 'continue'], probabilities=list(odds.values()),
            confidence=max(odds.values(), default=0.0), probability_mass=0.5,
            latency_s=latency_s)

    def status(self, state: int = Status.STATE_DECODE, **fields: Any) -> Status:
        """Return a heartbeat while this goal runs."""
        return Status(**({
            'state': state, 'goal_id': self.uuid, 'num_prompt_tokens': 80,
            'num_cached_tokens': 52, 'num_prefilled_tokens': 28, 'elapsed_s': 0.5,
            'model': 'SmolLM2', 'device': 'CPU'} | fields))


def idle(**fields: Any) -> Status:
    """Return a heartbeat while nothing runs."""
    return Status(**({'state': Status.STATE_IDLE, 'model': 'SmolLM2', 'device': 'CPU'} | fields))


def diagnostics(level: bytes = DiagnosticStatus.OK, message: str = 'active', *,
                node: str = NODE, part: str = 'inference', **values: str) -> DiagnosticArray:
    """Return what a node says of its health."""
    return DiagnosticArray(status=[DiagnosticStatus(
        level=level, name=f'{node}: {part}', message=message,
        values=[KeyValue(key=key, value=value) for key, value in values.items()])])
