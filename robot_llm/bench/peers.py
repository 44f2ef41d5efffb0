"""What a robot would run instead of ours: ``llama_cpp.Llama`` and two servers over SSE."""

from collections.abc import Iterator
import contextlib
from http.client import HTTPConnection, HTTPException, HTTPResponse
from importlib.util import find_spec
import json
import shutil
import socket
import subprocess
import sys
import tempfile
from threading import Thread
import time
from typing import Any, Final

import llama_cpp
from robot_llm.bench.system import Answer, Cancelled, Prompt
from robot_llm.errors import EngineError
from robot_llm.settings import Settings

START_TIMEOUT_S: Final = 120.0
ANSWER_TIMEOUT_S: Final = 300.0
SERVER_PACKAGES: Final = (
    'fastapi', 'uvicorn', 'sse_starlette', 'starlette_context', 'pydantic_settings')


class InProcess:
    """``llama_cpp.Llama.create_completion``, streamed, in this process."""

    name = 'llama_cpp.Llama'
    stops_prefill = False

    def __init__(self, settings: Settings, n_threads: int) -> None:
        model = settings.model
        self._prefill: Thread | None = None
        self._llama = llama_cpp.Llama(
            model.path, n_ctx=model.n_ctx, n_batch=model.n_batch, n_ubatch=model.n_ubatch,
            n_threads=n_threads, n_threads_batch=n_threads, n_gpu_layers=model.n_gpu_layers,
            flash_attn=model.flash_attn != 'off', verbose=False)

    def _pieces(self, prompt: Prompt) -> Iterator[str]:
        grammar = llama_cpp.LlamaGrammar.from_string(
            prompt.grammar, verbose=False) if prompt.grammar else None
        token_ids = self._llama.tokenize(prompt.text.encode(), add_bos=False, special=True)
        for chunk in self._llama.create_completion(
                token_ids, max_tokens=prompt.max_tokens, temperature=0.0, stream=True,
                grammar=grammar):
            yield chunk['choices'][0]['text']

    def complete(self, prompt: Prompt) -> Answer:
        """Answer a prompt, greedily."""
        return _answer(time.monotonic(), self._pieces(prompt))

    def cancel(self, long: Prompt, after_s: float, following: Prompt) -> Cancelled:
        """Give up: nothing stops the prefill, so that the next request waits for its end."""
        pieces = self._pieces(long)
        self._prefill = Thread(target=next, args=(pieces, ''), daemon=True)
        self._prefill.start()
        self._prefill.join(after_s)
        given_up_s = time.monotonic()
        self._prefill.join()
        pieces.close()  # type: ignore[attr-defined]  # a generator
        answer = self.complete(following)
        return Cancelled(answer.stamps_s[0] - given_up_s)

    def close(self) -> None:
        """Free the model, not under a prefill that somebody interrupted waiting for."""
        if self._prefill is not None:
            self._prefill.join()
        self._llama.close()


class Server:
    """
    A server with ``/v1/completions`` in a process of its own, asked over SSE.

    :param command: starts it; ``{port}`` stands for a free port
    :param stops_prefill: whether it looks for clients that left before a prompt's end
    :raises EngineError: if it does not come up, with the last line it wrote
    """

    def __init__(self, name: str, command: list[str], *, stops_prefill: bool = True) -> None:
        self.name, self.stops_prefill = name, stops_prefill
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            self._port = free.getsockname()[1]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process
        self._process = subprocess.Popen(
            [part.replace('{port}', str(self._port)) for part in command],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT)
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def _wait_until_ready(self) -> None:
        end_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end_s and self._process.poll() is None:
            with contextlib.suppress(OSError, HTTPException):
                connection = HTTPConnection('127.0.0.1', self._port, timeout=5)
                connection.request('GET', '/v1/models')
                # llama-server answers 503 while it loads.
                if connection.getresponse().status == 200:
                    return
            time.sleep(0.1)
        self._log.seek(0)
        lines = self._log.read().decode('utf-8', 'replace').split('\n')
        said = next((line for line in reversed(lines) if line.strip()), 'nothing')
        raise EngineError(f'{self.name} does not come up; it said last: {said}')

    def _send(self, prompt: Prompt) -> HTTPConnection:
        connection = HTTPConnection('127.0.0.1', self._port, timeout=ANSWER_TIMEOUT_S)
        body: dict[str, Any] = {
            'prompt': prompt.text, 'max_tokens': prompt.max_tokens, 'temperature': 0.0,
            'stream': True}
        if prompt.grammar:
            body['grammar'] = prompt.grammar
        connection.request('POST', '/v1/completions', json.dumps(body),
                           {'Content-Type': 'application/json'})
        return connection

    def _pieces(self, response: HTTPResponse) -> Iterator[str]:
        if response.status != 200:
            raise EngineError(f'{self.name} answered {response.status}: {response.read(300)!r}')
        for line in response:
            if line.startswith(b'data: {'):
                chunk = json.loads(line[len('data: '):])
                if 'choices' not in chunk:
                    raise EngineError(f'{self.name} answered {line[:300]!r}')
                yield chunk['choices'][0]['text']

    def complete(self, prompt: Prompt) -> Answer:
        """Answer a prompt, greedily."""
        sent_s = time.monotonic()
        try:
            with contextlib.closing(self._send(prompt)) as connection:
                return _answer(sent_s, self._pieces(connection.getresponse()))
        except (OSError, HTTPException) as error:
            raise EngineError(f'{self.name} does not answer: {error!r}') from None

    def cancel(self, long: Prompt, after_s: float, following: Prompt) -> Cancelled:
        """Give up as a client does: the connection is closed."""
        connection = self._send(long)
        time.sleep(after_s)
        given_up_s = time.monotonic()
        connection.close()
        answer = self.complete(following)
        return Cancelled(answer.stamps_s[0] - given_up_s)

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def _answer(sent_s: float, pieces: Iterator[str]) -> Answer:
    stamps_s, texts = [], []
    for piece in pieces:
        # The last chunk carries the reason and no text; a token that is half a character waits.
        if piece:
            stamps_s.append(time.monotonic())
            texts.append(piece)
    if not texts:
        raise EngineError('an answer without text; take another model')
    return Answer(sent_s, tuple(stamps_s), len(texts), ''.join(texts))


def python_server(settings: Settings, n_threads: int) -> Server:
    """
    Start ``python -m llama_cpp.server``.

    :raises EngineError: if it does not come up, or is not installed
    """
    if missing := [name for name in SERVER_PACKAGES if find_spec(name) is None]:
        raise EngineError(
            f'{", ".join(missing)} missing; scripts/bench compare installs them, or: pip install '
            '-r scripts/requirements/compare.txt')
    model = settings.model
    return Server('llama_cpp.server', [
        sys.executable, '-m', 'llama_cpp.server', '--model', model.path, '--host', '127.0.0.1',
        '--port', '{port}', '--n_ctx', str(model.n_ctx), '--n_batch', str(model.n_batch),
        '--n_ubatch', str(model.n_ubatch), '--n_threads', str(n_threads),
        '--n_threads_batch', str(n_threads), '--n_gpu_layers', str(model.n_gpu_layers),
        '--flash_attn', str(model.flash_attn != 'off')], stops_prefill=False)


def llama_server(settings: Settings, n_threads: int, program: str = 'llama-server') -> Server:
    """
    Start llama.cpp's own server.

    :raises EngineError: if it does not come up, or is not on the PATH
    """
    path = shutil.which(program)
    if path is None:
        raise EngineError(f'{program} is not on the PATH; build it from llama.cpp')
    model = settings.model
    return Server('llama-server', [
        path, '-m', model.path, '--host', '127.0.0.1', '--port', '{port}', '-c', str(model.n_ctx),
        '-b', str(model.n_batch), '-ub', str(model.n_ubatch), '-t', str(n_threads),
        '-tb', str(n_threads), '-ngl', str(model.n_gpu_layers), '-fa', model.flash_attn,
        '-np', '1', '--no-webui'])
