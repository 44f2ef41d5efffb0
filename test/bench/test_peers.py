"""The other systems: a server that streams, one that fails, one that is not there."""

import sys

import pytest
from robot_llm.bench.compare import grammar
from robot_llm.bench.peers import llama_server, python_server, Server
from robot_llm.bench.system import Answer, best, Prompt
from robot_llm.errors import EngineError
from robot_llm.settings import Settings

# Answers each word of the prompt as one event, in the OpenAI form both servers speak.
SCRIPT = """
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        if body['prompt'] == 'refuse':
            self.send_error(400); return
        self.send_response(200); self.end_headers()
        for word in body['prompt'].split()[:body['max_tokens']] + ['']:
            event = json.dumps({'choices': [{'text': word}]})
            self.wfile.write(f'data: {event}\\n\\n'.encode()); self.wfile.flush()
        self.wfile.write(b'data: [DONE]\\n\\n')
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
"""


def prompt(text: str, max_tokens: int = 8) -> Prompt:
    return Prompt('talk', '', '', max_tokens, text)


@pytest.fixture(scope='module')
def server():
    """Return a server in another process that echoes."""
    running = Server('echo', [sys.executable, '-c', SCRIPT, '{port}'])
    yield running
    running.close()


def test_an_answer_is_stamped_piece_by_piece(server: Server) -> None:
    answer = server.complete(prompt('one two three four', 3))
    assert answer.text == 'onetwothree'
    assert answer.num_tokens == len(answer.stamps_s) == 3
    assert answer.sent_s <= answer.stamps_s[0] <= answer.stamps_s[-1]


def test_behind_a_request_that_was_given_up_the_next_is_served(server: Server) -> None:
    assert server.cancel(prompt('long'), 0.0, prompt('next')).next_s > 0


@pytest.mark.parametrize(('text', 'said'), [
    ('refuse', 'echo answered 400'), ('', 'an answer without text')])
def test_an_answer_that_is_none_is_an_error(server: Server, text: str, said: str) -> None:
    with pytest.raises(EngineError, match=said):
        server.complete(prompt(text))


def test_a_server_that_ends_says_what_it_wrote_last() -> None:
    with pytest.raises(EngineError, match='broken does not come up.*no such option'):
        Server('broken', [sys.executable, '-c', 'raise SystemExit("no such option")'])


def test_a_system_that_is_not_installed_is_named_with_its_remedy(monkeypatch) -> None:
    with pytest.raises(EngineError, match='none-such is not on the PATH'):
        llama_server(Settings(), 1, 'none-such')
    monkeypatch.setattr('robot_llm.bench.peers.find_spec', lambda name: None)
    with pytest.raises(EngineError, match='fastapi.*missing.*requirements/compare.txt'):
        python_server(Settings(), 1)


def test_times_of_an_answer_are_those_of_its_stamps() -> None:
    answer = Answer(10.0, (11.0, 12.0, 14.0), 3, 'abc')
    assert (answer.ttft_s, answer.tpot_s, answer.e2e_s) == (1.0, 1.5, 4.0)
    assert best([('a', 2.0), ('b', 1.0)]) == 'b'


def test_the_grammar_of_the_others_has_our_form_and_one_root() -> None:
    rules = dict(line.split(' ::= ', 1) for line in grammar().splitlines())
    assert rules['root'] == '("stop" | "slow" | "continue") "\\n" detail'
    assert rules['space'] == '""'
    assert 'target-speed-mps-kv' in rules['detail']
    assert len(rules) == len(grammar().splitlines())
