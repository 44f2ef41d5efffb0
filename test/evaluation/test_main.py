"""The four commands from end to end, on a backend without a model."""

import json
from pathlib import Path

import pytest
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.evaluation.engine import EvaluationEngine
from robot_llm.evaluation.main import main
from robot_llm.profile_file import load_profiles
from robot_llm.record_file import RecordFile
from robot_llm.settings import Settings
import yaml

pytest.importorskip('sklearn')

CONFIG = Path(__file__).parents[2] / 'config'
WORDS = ('stop', 'slow', 'continue')
# The scripted hidden state counts letters: these differ in them.
LETTERS = {'stop': 'aq', 'slow': 'cs', 'continue': 'ew'}

PROFILE = """
description: 'for tests'
system_prompt: 'Decide.'
decision:
  words:
    - {word: stop, meaning: danger}
    - {word: slow, meaning: care}
    - {word: continue, meaning: free}
  fallback: stop
  # The bar.
  min_confidence: 0.34
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a folder with a profile and scenes; the engine in it needs no model."""
    def open_engine(model, profiles):
        settings = Settings()
        return EvaluationEngine(ScriptedBackend(settings, {'': b'slow\n'}), settings, profiles)

    monkeypatch.setattr(EvaluationEngine, 'open', open_engine)
    (tmp_path / 'profiles').mkdir()
    (tmp_path / 'profiles' / 'drive.yaml').write_text(PROFILE)
    groups = [
        {'name': f'{word}-{n}', 'label': word,
         'texts': [f'{LETTERS[word][0] * 9} {n}', f'{LETTERS[word][1] * 9} {n}']}
        for word in WORDS for n in range(45)]
    (tmp_path / 'scenes.yaml').write_text(yaml.safe_dump(
        {'profile': 'drive', 'guideline': 'as the letters say', 'groups': groups}))
    return tmp_path


def run(place: Path, *args: str) -> int:
    return main([args[0], *args[1:], '--profiles', str(place / 'profiles'), '--scenes',
                 str(place / 'scenes.yaml'), '--cache', str(place / 'cache.jsonl'), '--model',
                 'none.gguf', '--quiet'])


def use_head(place: Path) -> None:
    path = place / 'profiles' / 'drive.yaml'
    path.write_text(path.read_text().replace(
        '  fallback: stop\n', '  fallback: stop\n  method: head\n  head: drive.npz\n'))


def test_fit_threshold_and_evaluate_work_together(place, capsys):
    head = place / 'profiles' / 'drive.npz'
    assert run(place, 'fit', '--output', str(head), '--json') == 0
    fitted = json.loads(capsys.readouterr().out)
    assert fitted['figures']['accuracy'] > 0.95
    assert fitted['num_bytes'] < head.stat().st_size
    assert fitted['figures']['told']['strangers'] > 0.9
    use_head(place)

    assert run(place, 'threshold', '--max-unsafe', '0.2', '--write', '--json') == 0
    chosen = json.loads(capsys.readouterr().out)
    assert chosen['bound'] <= 0.2
    assert 'min_confidence_of: {slow:' in (place / 'profiles' / 'drive.yaml').read_text()

    assert run(place, 'threshold', '--max-unsafe', '0.2', '--confidence', '0.9', '--json') == 0
    surer = json.loads(capsys.readouterr().out)
    assert surer['bound'] <= 0.2 and surer['bars']['slow'] >= chosen['bars']['slow']
    assert 'probability of 90%' in surer['guarantee']

    assert run(place, 'evaluate', '--json', '--html', str(place / 'r.html'), '--png',
               str(place / 'png'), '--order-scenes', '6') == 0
    result = json.loads(capsys.readouterr().out)
    by_method = {method['method']: method['figures'] for method in result['methods']}
    assert by_method['head']['accuracy']['value'] > 0.9
    assert by_method['words']['accuracy']['value'] < 0.5
    assert result['strangers']['num_texts'] == 100
    assert result['strangers']['unfamiliar'] > 0.9
    assert len(result['order_bias']) == 3
    assert result['head']['is_of_these_scenes']
    page = (place / 'r.html').read_text()
    assert page.count('data:image/png;base64,') == 4
    assert 'http' not in page.replace('http-equiv', '')
    assert {path.name for path in (place / 'png').iterdir()} == {
        'reliability.png', 'confusion.png', 'risk_coverage.png', 'learning_curve.png'}


def test_fit_writes_where_the_profile_looks_and_over_no_head(place, capsys):
    assert run(place, 'fit') == 0
    out = capsys.readouterr().out
    assert '  head: heads/drive.npz' in out
    head = place / 'profiles' / 'heads' / 'drive.npz'
    assert str(head) in out
    path = place / 'profiles' / 'drive.yaml'
    path.write_text(path.read_text().replace(
        '  fallback: stop\n',
        '  fallback: stop\n  method: head\n  head: heads/drive.npz\n'))
    assert load_profiles(place / 'profiles')['drive'].decision.head == str(head)
    before = head.stat().st_mtime_ns
    assert run(place, 'fit') == 1
    assert f'{head} is there already; give --output {head} to replace' in capsys.readouterr().err
    assert head.stat().st_mtime_ns == before
    assert run(place, 'fit', '--output', str(head)) == 0
    assert head.stat().st_mtime_ns > before


def test_the_shipped_head_is_not_written_over(place, capsys):
    before = (CONFIG / 'heads' / 'drive.npz').stat().st_mtime_ns
    assert main(['fit', '--profiles', str(CONFIG / 'embedded'), '--scenes',
                 str(place / 'scenes.yaml'), '--quiet', '--model', 'none.gguf']) == 1
    assert 'drive.npz is there already' in capsys.readouterr().err
    assert (CONFIG / 'heads' / 'drive.npz').stat().st_mtime_ns == before


@pytest.mark.parametrize(('file', 'name'), [
    ('profiles/x.npz', 'x.npz'), ('heads/x.npz', 'heads/x.npz'), ('../x.npz', '{}')])
def test_the_printed_lines_find_the_head(place, capsys, file, name):
    path = (place / file).resolve()
    assert run(place, 'fit', '--output', str(path)) == 0
    assert f'  head: {name.format(path)}\n' in capsys.readouterr().out


def test_words_alone_need_no_head(place, capsys):
    assert run(place, 'evaluate', '--order-scenes', '0', '--no-timing') == 0
    table = capsys.readouterr().out
    for part in ('right', 'ECE', 'unsafe', 'paraphrases agree', 'strangers'):
        assert part in table


def test_too_few_scenes_for_a_level_are_told(place, capsys):
    assert run(place, 'threshold', '--max-unsafe', '0.001') == 1
    assert 'are missing' in capsys.readouterr().err


def test_texts_that_are_no_scenes_may_be_ones_own(place, capsys):
    (place / 'mine.yaml').write_text('joke: [knock knock, who is there, a horse goes in]')
    head = place / 'h.npz'
    assert run(place, 'fit', '--output', str(head), '--json', '--strangers',
               str(place / 'mine.yaml')) == 0
    assert 'joke' in json.loads(capsys.readouterr().out)['figures']['told']
    assert run(place, 'fit', '--output', str(head), '--strangers', str(place / 'no.yaml')) == 1
    assert 'no.yaml cannot be read' in capsys.readouterr().err


def test_problems_are_told_without_a_traceback(place, capsys):
    (place / 'scenes.yaml').write_text('groups: 3')
    assert run(place, 'fit') == 1
    assert 'scenes.yaml:1: groups is missing or no list' in capsys.readouterr().err


@pytest.mark.parametrize('share', ['0', '1', '-1', 'x'])
def test_a_level_that_is_no_share_is_refused(place, share):
    with pytest.raises(SystemExit):
        run(place, 'threshold', '--max-unsafe', share)


def test_a_text_in_two_scene_files_is_refused(place, capsys):
    (place / 'more.yaml').write_text(yaml.safe_dump({
        'profile': 'drive', 'guideline': 'g',
        'groups': [{'name': 'other', 'label': 'stop', 'texts': ['  AAAAAAAAA 3 ']}]}))
    assert main(['fit', '--profiles', str(place / 'profiles'), '--quiet', '--scenes',
                 str(place / 'scenes.yaml'), str(place / 'more.yaml')]) == 1
    assert 'stands in the groups stop-3 and other' in capsys.readouterr().err


def test_a_label_file_that_was_left_at_once_may_be_gone_on_with(place, capsys, monkeypatch):
    records = RecordFile(place / 'records.jsonl', max_bytes=10_000, num_old=1)
    records.append({'scene': 'new', 'words': list(WORDS), 'probabilities': [0.4, 0.3, 0.3],
                    'word': 'stop'})
    given = iter(['q', '1', ''])
    monkeypatch.setattr('builtins.input', lambda prompt: next(given))
    for _ in range(2):
        assert run(place, 'label', str(place / 'records.jsonl'), '--output',
                   str(place / 'mine.yaml')) == 0
    assert len(yaml.safe_load((place / 'mine.yaml').read_text())['groups']) == 1


def test_label_turns_records_into_scenes(place, capsys, monkeypatch):
    records = RecordFile(place / 'records.jsonl', max_bytes=10_000, num_old=1)
    for text in ('new one', 'new two'):
        records.append({'scene': text, 'words': list(WORDS), 'probabilities': [0.4, 0.3, 0.3],
                        'word': 'stop'})
    given = iter(['1', '', 'q', '2', 'said again'])
    monkeypatch.setattr('builtins.input', lambda prompt: next(given))
    for _ in range(2):  # the second time goes on where the first one ended
        assert run(place, 'label', str(place / 'records.jsonl'), '--output',
                   str(place / 'mine.yaml')) == 0
    groups = yaml.safe_load((place / 'mine.yaml').read_text())['groups']
    assert [(group['label'], group['texts']) for group in groups] == [
        ('stop', ['new one']), ('slow', ['new two', 'said again'])]
