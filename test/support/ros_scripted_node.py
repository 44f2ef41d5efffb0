"""
An inference node whose model is scripted: its prompts say what it answers, where it waits, fails.

``hold-STAGE:NAME`` in a prompt holds the engine in that stage until the line ``open NAME`` comes
on standard input; ``gate NAME reached`` on standard output tells that it is held. ``fail-STAGE``
makes the decode fail there. ``say-WORD`` is the decision, ``long`` makes the detail long,
``detail-{…}`` gives it. The stages are those of ``STAGES``. ``hold-load`` in ``model.path`` holds
the loading until it is given up, ``hang-hold-load`` for ever.
"""

import os
import re
import sys
from threading import Event, Lock, Thread

from robot_llm.engine.llama_log import LogSink
from robot_llm.engine.model import ShouldStop
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.engine.scripted_fault import DecodeCall, fail, Gate
from robot_llm.engine.scripted_vocab import ANSWER_HEADER, split_turn
from robot_llm.errors import ModelLoadError
from robot_llm.ros.main import run
from robot_llm.ros.node import RobotLlmNode
from robot_llm.settings import Settings

STAGES = ('prefill', 'decision', 'detail', 'last', 'hang', 'deaf')
"""
The first chunk that holds the key; the last one of the prompt; the first decode behind the first
piece of the detail; the decode whose logits give the last token; the first chunk and the detail
again, without obedience to the abort flag.
"""

KEY = re.compile(r'(hold|fail)-(\w+)(?::(\w+))?')

TEXT = b' I can help you with that.'
REASON = b'all of it'
CLOSING = b'"}'
"""The last sampled token of a detail in JSON, and the one that is forced behind it."""


def answer(prompt: str) -> bytes:
    """Return what the scripted model says to a prompt."""
    asked = prompt.rpartition('<|im_start|>user')[2]
    repeat = 12 if 'long' in asked else 1
    said = re.search(r'say-(\w+)', asked)
    if 'JSON' in prompt:
        word = said[1].encode() if said else b'continue'
        if given := re.search(r'detail-({.*?})', asked):
            return word + b'\n' + given[1].encode()
        reason = (REASON * repeat)[:60]
        return word + b'\n{"target_speed_mps":0.5,"reason":"' + reason + b'"}'
    return (said[1].encode() if said else b'Sure') + b'\n' + TEXT * repeat


def tell_gate(name: str) -> None:
    """Say that the engine is held, in one piece: other threads write as well."""
    os.write(sys.stdout.fileno(), f'gate {name} reached\n'.encode())


class Faults:
    """The faults that the prompts ask for, and the gates between them."""

    def __init__(self) -> None:
        self._gates: dict[str, Gate] = {}
        self._lock = Lock()

    def gate(self, name: str, *, obeys_abort: bool = True) -> Gate:
        """Return the gate of that name."""
        with self._lock:
            return self._gates.setdefault(name, Gate(obeys_abort=obeys_abort))

    def __call__(self, call: DecodeCall) -> None:
        """Hold or fail, as the prompt says."""
        for kind, stage, name in KEY.findall(call.text):
            if not self._is_at(stage, call):
                continue
            if kind == 'fail':
                fail(call)
            gate = self.gate(name, obeys_abort=stage not in ('hang', 'deaf'))
            if not gate.opened.is_set():
                tell_gate(name)
            gate(call)

    @staticmethod
    def _is_at(stage: str, call: DecodeCall) -> bool:
        prompt, said = split_turn(call.sequence)
        if stage == 'last':
            detail = answer(prompt).partition(b'\n')[2]
            num_last = len(CLOSING) if detail.endswith(CLOSING) else 1
            return said.partition(b'\n')[2] == detail[:-num_last]
        if stage in ('detail', 'deaf'):
            return b'\n' in said and not said.endswith(b'\n')
        if stage == 'decision':
            return list(call.sequence[-len(ANSWER_HEADER):]) == ANSWER_HEADER
        return not said


def main() -> int:
    """Run the node; its gates are opened on standard input."""
    faults = Faults()

    def open_backend(
        settings: Settings, should_stop: ShouldStop, log_sink: LogSink,
    ) -> ScriptedBackend:
        if 'hold-load' in settings.model.path:
            tell_gate('load')
            while not should_stop() or 'hang' in settings.model.path:
                Event().wait(0.01)
            raise ModelLoadError('loading was given up')
        return ScriptedBackend(settings, answer, on_decode=faults)

    def read_commands() -> None:
        for line in sys.stdin:
            faults.gate(line.split()[1]).opened.set()

    Thread(target=read_commands, daemon=True).start()
    return run(lambda: RobotLlmNode(open_backend))


if __name__ == '__main__':
    raise SystemExit(main())
