"""What a scripted backend can be made to do wrong: wait, hang, fail."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Final

from robot_llm.engine.scripted_vocab import spell
from robot_llm.errors import DecodeError

POLL_S: Final = 0.002
"""How often a held decode looks at the abort flag; llama.cpp does so between graph nodes."""


class ScriptedAbort(Event):
    """An abort flag; a test may let ``num_nodes`` rise, as it does in a decode that goes on."""

    num_nodes = 0


@dataclass(frozen=True, slots=True)
class DecodeCall:
    """A part of a decode that is about to be evaluated, at most ``n_ubatch`` tokens."""

    sequence: tuple[int, ...]
    """The whole sequence, the new tokens included."""
    num_new_tokens: int
    abort: ScriptedAbort

    @property
    def text(self) -> str:
        """The sequence with its control tokens spelled out."""
        return spell(self.sequence)


OnDecode = Callable[[DecodeCall], None]
"""Called before each part, on the engine's thread; may wait, or raise ``EngineError``."""


class Gate:
    """
    An ``OnDecode`` that holds the engine until it is opened.

    :param holds: which calls; all of them by default
    :param obeys_abort: False never looks at the abort flag, like a GPU, or a driver that hangs
    """

    def __init__(
        self, holds: Callable[[DecodeCall], bool] = lambda call: True, *,
        obeys_abort: bool = True,
    ) -> None:
        self.reached, self.opened = Event(), Event()
        self._holds, self._obeys_abort = holds, obeys_abort

    def __call__(self, call: DecodeCall) -> None:
        """Wait; ``reached`` tells other threads that a call is held."""
        if self._holds(call):
            self.reached.set()
            while not self.opened.wait(POLL_S):
                if self._obeys_abort and call.abort.is_set():
                    return


def fail(call: DecodeCall) -> None:
    """Fail as a runtime does whose device is gone."""
    raise DecodeError('scripted fault: the decode failed')


def faults_by_prompt(faults: Mapping[str, OnDecode]) -> OnDecode:
    """Return what applies each fault to the prompts that its key stands in."""
    def on_decode(call: DecodeCall) -> None:
        for key, fault in faults.items():
            if key in call.text:
                fault(call)
    return on_decode
