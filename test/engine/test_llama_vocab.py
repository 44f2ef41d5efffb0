"""Whatever comes in is tokenised, by whichever regular expressions the model asks for."""

from collections.abc import Callable
from pathlib import Path
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st
import pytest
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.llama_vocab import LONGEST_PIECE, split_text

PROSE = (
    "It's 3.5 m (or 11 ft) to the door, 12.5% \u2013 \u4e00\u76f4\u8d70!  Then:\n- stop\n\n")

TOKENIZE = """
from pathlib import Path
import sys
from threading import Thread
import llama_cpp.llama_cpp as llama
from robot_llm.engine.llama_vocab import LlamaVocab

params = llama.llama_model_default_params()
params.vocab_only = True
model = llama.llama_model_load_from_file(sys.argv[1].encode(), params)
vocab = LlamaVocab(model)

def check():
    for text in [character * 65_536 for character in 'a!1 \\n\\u4e00']:
        token_ids = vocab.tokenize(text, parse_special=False)
        assert b''.join(map(vocab.token_bytes, token_ids)).decode() == text
    prose = Path(sys.argv[2]).read_text()
    assert vocab.tokenize(prose, parse_special=False) == vocab._tokenize(prose, False)
    print('whole')

thread = Thread(target=check)
thread.start()
thread.join()
"""


def write_vocabulary(path: Path, pre: str, source: Path) -> None:
    """Write the vocabulary of another model under another name of its pre-tokenizer."""
    gguf = pytest.importorskip('gguf')
    writer, tokens = gguf.GGUFWriter(path, 'llama'), []
    for key, field in gguf.GGUFReader(source).fields.items():
        if key.startswith('tokenizer.'):
            value = pre if key == 'tokenizer.ggml.pre' else field.contents()
            tokens = value if key == 'tokenizer.ggml.tokens' else tokens
            writer.add_key_value(key, value, field.types[0], *field.types[1:2])
    writer.add_vocab_size(len(tokens))
    writer.add_block_count(1)
    writer.add_context_length(4096)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(128)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


@pytest.mark.parametrize('pre', ['gpt-4o', 'tekken', 'deepseek-llm', 'qwen2'])
def test_a_long_run_of_one_kind_of_character_is_tokenised_and_prose_as_it_always_was(
    pre: str, model_path: Path, tmp_path: Path,
) -> None:
    """The process ended with a segmentation fault: one recursion for every character."""
    path, prose = tmp_path / 'vocabulary.gguf', tmp_path / 'prose.txt'
    write_vocabulary(path, pre, model_path)
    prose.write_text(PROSE * 200)
    child = subprocess.run(
        [sys.executable, '-c', TOKENIZE, path, prose], capture_output=True, text=True, timeout=120)
    assert (child.returncode, child.stdout) == (0, 'whole\n'), child.stderr[-2000:]


@given(st.lists(st.tuples(st.sampled_from(['a', ' ', '\n', 'go ', ', so', '1']),
                          st.integers(1, 2 * LONGEST_PIECE)), max_size=4))
def test_the_pieces_are_the_text_and_none_is_long(runs: list[tuple[str, int]]) -> None:
    text = ''.join(piece * count for piece, count in runs)
    pieces = list(split_text(text))
    assert ''.join(pieces) == text
    assert max(map(len, pieces)) <= LONGEST_PIECE
    assert not any(piece == '' for piece in pieces[1:])


def test_a_cut_is_in_front_of_a_single_space_where_there_is_one() -> None:
    text = 'go on  ' * LONGEST_PIECE
    assert all(piece.startswith(' on') for piece in list(split_text(text))[1:])


def test_control_text_is_never_cut(open_backend: Callable[..., LlamaCppBackend]) -> None:
    backend = open_backend()
    controls = '<|im_start|>' * 1000
    token_ids = backend.tokenize(controls, parse_special=True)
    assert len(token_ids) == 1000 and len(set(token_ids)) == 1
    backend.close()
