"""A restored prefix answers as a fresh one does; where anything is in doubt it is evaluated."""

from collections.abc import Callable, Iterator
from dataclasses import replace
import os
from pathlib import Path

from engine_requests import make_profile, make_request, SPEED_SCHEMA
from engine_running import generate, TODAY
import pytest
from robot_llm.cache_folder import CacheFolder, DIGEST_BYTES
from robot_llm.engine.backend import Backend
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.llama_state import state_key
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.settings import Settings

JSON = make_profile('json', schema=SPEED_SCHEMA)
TEXT = make_profile('text', words=('answer', 'decline'), fallback='decline', text=True,
                    system_prompt='You are a friendly robot. Answer in short sentences.')
PROFILES = {profile.name: profile for profile in (JSON, TEXT)}


class Start:
    """One configure on a backend: what it said, and what it evaluated."""

    def __init__(self, backend: Backend, folder: Path | None) -> None:
        self.said: list[str] = []
        self.warned: list[str] = []
        cache = CacheFolder(folder, max_bytes=10**9, warn=self.warned.append)
        self.runtime = Runtime(
            backend, Settings(), PROFILES, today=TODAY, folder=cache, say=self.said.append,
            warn=self.warned.append)

    @property
    def how(self) -> list[str]:
        return [sentence.split()[3].rstrip(',') for sentence in self.said]

    def answers(self) -> list[tuple[str, str]]:
        """Return two answers of each profile, the first from the pinned prefix alone."""
        answers = []
        for profile in PROFILES.values():
            for prompt in ('A person stands in the way.', 'Who are you?'):
                answered = generate(self.runtime, make_request(profile, prompt, max_tokens=8))
                num_static = len(self.runtime.profiles[profile.name].static_ids)
                assert answered.request.counts.num_cached_tokens >= num_static
                answers.append((answered.decision.word, answered.detail))
        return answers


@pytest.fixture(scope='module')
def backend(open_backend: Callable[..., LlamaCppBackend]) -> Iterator[LlamaCppBackend]:
    """Return a model of this file's own, whose context every start makes anew."""
    backend = open_backend()
    yield backend
    backend.close()


def entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)


def test_a_respawned_node_restores_its_prefixes_and_answers_as_a_fresh_one(
    backend: LlamaCppBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    without = Start(backend, None)
    fresh = Start(backend, tmp_path)
    answers = fresh.answers()
    assert without.how == fresh.how == ['evaluated', 'evaluated']
    lengths = []
    decode = backend.decode
    monkeypatch.setattr(backend, 'decode', lambda token_ids, **rest: (
        lengths.append(len(token_ids)), decode(token_ids, **rest)))
    respawned = Start(backend, tmp_path)
    # The warm-up, and one token behind each of the two prefixes.
    assert lengths == [16, 1, 1, 16, 1, 1]
    num_static = len(respawned.runtime.profiles['text'].static_ids)
    assert respawned.said[-1] == f"prefix of 'text' restored, {num_static} tokens"
    assert respawned.how == ['restored', 'restored']
    assert respawned.answers() == answers
    assert fresh.warned == respawned.warned == []


def scripted_start(folder: Path, **kind: object) -> Start:
    return Start(ScriptedBackend(Settings(), {
        'Who': b'answer\nA robot.', '': b'stop\n{"target_speed_mps": 0.0, "reason": "x"}',
    }, **kind), folder)


def test_a_state_that_the_runtime_or_the_model_disowns_is_ignored_with_a_log_line(
    backend: LlamaCppBackend, tmp_path: Path,
) -> None:
    """With the right key and checksum; what is forged is what llama.cpp wrote."""
    first = Start(backend, tmp_path)
    answers = first.answers()
    other, own = entries(tmp_path)
    folder = CacheFolder(tmp_path, max_bytes=10**9)
    data, foreign = (path.read_bytes()[DIGEST_BYTES:] for path in (own, other))
    third = len(data) // 3
    for forged, reason in (
            (data[:-1000] + bytes(1000), 'the logits behind it differ by'),
            (data[:-50_000], 'the runtime refuses it'),
            (data[:third] + foreign[third:], 'the runtime refuses it')):
        assert folder.write(own.stem, forged)
        again = Start(backend, tmp_path)
        assert again.how == ['restored', 'evaluated']
        assert len(again.warned) == 1 and reason in again.warned[0]
        assert 'evaluated and saved again' in again.warned[0]
    assert again.answers() == answers


@pytest.mark.parametrize('damage', [
    lambda data: data[:len(data) // 2], lambda data: data[:10],
    lambda data: data[:-10] + bytes(10)])
def test_a_damaged_file_is_ignored_with_a_log_line_and_written_anew(
    tmp_path: Path, damage: Callable[[bytes], bytes],
) -> None:
    scripted_start(tmp_path)
    path = entries(tmp_path)[1]
    path.write_bytes(damage(path.read_bytes()))
    again = scripted_start(tmp_path)
    assert again.how == ['restored', 'evaluated']
    assert len(again.warned) == 1 and f'{path} is damaged' in again.warned[0]
    assert scripted_start(tmp_path).how == ['restored', 'restored']


@pytest.mark.parametrize('forge', [lambda own, other: other, lambda own, other: own[:20]])
def test_an_entry_under_another_name_is_ignored_with_a_log_line(
    tmp_path: Path, forge: Callable[[bytes, bytes], bytes],
) -> None:
    answers = scripted_start(tmp_path).answers()
    other, own = entries(tmp_path)
    payloads = [path.read_bytes()[DIGEST_BYTES:] for path in (own, other)]
    assert CacheFolder(tmp_path, max_bytes=10**9).write(own.stem, forge(*payloads))
    again = scripted_start(tmp_path)
    assert again.how == ['restored', 'evaluated']
    assert len(again.warned) == 1
    assert 'belongs to another model, prompt or runtime' in again.warned[0]
    assert again.answers() == answers


def test_the_key_names_the_file_the_cache_and_the_device(
    backend: LlamaCppBackend, tmp_path: Path,
) -> None:
    path = tmp_path / 'model.gguf'
    path.write_bytes(b'weights')
    model, info = Settings().model, backend.info
    key = state_key(path, info, model)
    assert key == state_key(path, info, model.model_copy(update={'n_ctx': 512, 'n_threads': 2}))
    others = [state_key(path, info, model.model_copy(update={name: 'q8_0'}))
              for name in ('type_k', 'type_v')]
    others += [state_key(path, info, model.model_copy(update={'flash_attn': 'off'})),
               state_key(path, replace(info, fingerprint='other'), model),
               state_key(path, replace(info, device='GPU (3/3 layers)'), model)]
    os.utime(path, (1e9, 1e9))
    others.append(state_key(path, info, model))
    assert len({key, *others}) == 7


def test_a_file_that_was_moved_while_it_is_mapped_keeps_its_key(
    make_settings: Callable[..., Settings], model_path: Path, tmp_path: Path,
) -> None:
    """The next reload of the profiles asked for the file, and the engine failed."""
    link = tmp_path / 'model.gguf'
    link.symlink_to(model_path)
    backend = LlamaCppBackend(make_settings({'model.path': str(link)}), num_cores=1)
    key = backend.state_key()
    link.unlink()
    assert backend.state_key() == key != ''
    backend.close()


@pytest.mark.parametrize('kind', [{'is_recurrent': True}, {'n_swa': 16}, {}])
def test_a_memory_that_cannot_drop_a_part_is_restored_as_well(
    tmp_path: Path, kind: dict[str, object],
) -> None:
    fresh, respawned = (scripted_start(tmp_path, **kind) for _ in '12')
    assert (fresh.how, respawned.how) == (['evaluated'] * 2, ['restored'] * 2)
    respawned.runtime.cache.check_integrity()
    assert respawned.answers() == fresh.answers()


def test_an_entry_of_another_length_is_not_believed(tmp_path: Path) -> None:
    scripted_start(tmp_path)
    path = entries(tmp_path)[0]
    CacheFolder(tmp_path, max_bytes=10**9).write(path.stem, path.read_bytes()[DIGEST_BYTES:-4])
    again = scripted_start(tmp_path)
    assert again.how == ['evaluated', 'restored']
    assert 'it holds' in again.warned[0]


def test_a_folder_that_cannot_be_written_costs_the_time_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / 'file').write_bytes(b'')
    backend = ScriptedBackend(Settings(), {'': b'stop\nfine'})
    start = Start(backend, tmp_path / 'file' / 'cache')
    assert start.how == ['evaluated', 'evaluated']
    assert len(start.warned) == 1
