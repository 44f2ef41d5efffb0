"""The node's own engine behind a resumable cache, on a backend without a model."""

from engine_requests import make_profile
import numpy as np
import pytest
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.evaluation.dataset import EvidenceCache, extract
from robot_llm.evaluation.engine import EvaluationEngine
from robot_llm.evaluation.scenes import LabelledScene
from robot_llm.settings import Settings

WORDS = ('stop', 'slow', 'continue')
SCENES = [LabelledScene('A dog.', 'stop', 'dog'), LabelledScene('Some dog.', 'stop', 'dog'),
          LabelledScene('Nothing.', 'continue', 'free')]
GOALS = ('Go on.', 'Turn left.')


def open_engine(profile):
    settings = Settings()
    backend = ScriptedBackend(settings, {'dog': b'stop\n', '': b'continue\n'})
    engine = EvaluationEngine(backend, settings, {profile.name: profile})
    asked, decide = [], engine.decide

    def counted(*args, **options):
        asked.append(args)
        return decide(*args, **options)

    engine.decide = counted
    return engine, asked


@pytest.fixture(params=['prompt', 'scene'])
def profile(request):
    return make_profile('drive', reads=request.param)


def test_rows_stand_by_group_scene_and_goal(profile):
    engine, _ = open_engine(profile)
    with engine:
        data = extract(engine, 'drive', WORDS, SCENES, GOALS, cache=EvidenceCache(None, 'x'))
    assert data.labels.tolist() == [0, 0, 0, 0, 2, 2]
    assert data.groups.tolist() == [0, 0, 0, 0, 1, 1]
    assert data.scenes.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.num_groups == 2
    assert np.argmax(data.log_probs, axis=1).tolist() == [0, 0, 0, 0, 2, 2]
    # Behind the scene the goal has not been read; behind the prompt it has.
    is_equal = np.array_equal(data.hidden[0], data.hidden[1])
    assert is_equal == (profile.decision.reads == 'scene')
    assert not np.array_equal(data.hidden[0], data.hidden[2])


def test_the_state_behind_the_scene_is_the_same_from_the_cache_or_fresh():
    profile = make_profile('drive', reads='scene')
    states = []
    for scenes in (['A dog.'], ['A dog.', 'A dog.'], ['Nothing.', 'A dog and more.', 'A dog.']):
        engine, _ = open_engine(profile)
        with engine:
            for number, scene in enumerate(scenes):
                outcome = engine.decide(
                    'drive', scene, f'goal {number}', gathers_all=True)
        states.append(outcome.evidence.hidden)
    assert np.array_equal(states[0], states[1])
    assert np.array_equal(states[0], states[2])


def test_an_interrupted_run_goes_on_and_a_broken_line_costs_one_prompt(tmp_path, profile):
    path = tmp_path / 'deep' / 'cache.jsonl'
    runs = []
    for round_number in range(3):
        engine, asked = open_engine(profile)
        cache = EvidenceCache(path, 'x')
        with engine:
            scenes = SCENES[:2] if round_number == 0 else SCENES
            data = extract(engine, 'drive', WORDS, scenes, GOALS[:1], cache=cache)
        cache.close()
        runs.append((len(asked), data))
        with path.open('a') as file:
            file.write('{"key": "cut sh')
            file.write('\n' if round_number == 0 else '')
    assert [num_asked for num_asked, _ in runs] == [2, 1, 0]
    assert np.array_equal(runs[1][1].hidden, runs[2][1].hidden)
    assert runs[1][1].log_probs == pytest.approx(runs[2][1].log_probs)


def test_another_model_or_prompt_finds_nothing(tmp_path, profile):
    path = tmp_path / 'cache.jsonl'
    engine, asked = open_engine(profile)
    with engine:
        for identity in ('x', 'y'):
            cache = EvidenceCache(path, identity)
            extract(engine, 'drive', WORDS, SCENES[:1], GOALS[:1], cache=cache)
            cache.close()
    assert len(asked) == 2


def test_progress_is_told_per_prompt(profile):
    engine, _ = open_engine(profile)
    told = []
    with engine:
        extract(engine, 'drive', WORDS, SCENES, GOALS, cache=EvidenceCache(None, 'x'),
                progress=lambda done, total: told.append((done, total)))
    assert told == [(n, 6) for n in range(1, 7)]


def test_a_prompt_with_its_words_in_another_order_gives_the_same_columns():
    profile = make_profile('drive', words=('continue', 'stop', 'slow'), fallback='stop')
    engine, _ = open_engine(profile)
    with engine:
        data = extract(engine, 'drive', WORDS, SCENES, GOALS[:1],
                       cache=EvidenceCache(None, 'x'), prompt_words=profile.words)
    assert np.argmax(data.log_probs, axis=1).tolist() == [0, 0, 2]


def test_scenes_alone_give_what_a_head_behind_the_scene_sees(tmp_path):
    decision = {'reads': 'scene'}
    profile = make_profile('drive', words=WORDS, fallback='stop', **decision)
    path = tmp_path / 'cache.jsonl'
    found = []
    for goals in (GOALS[:1], (), ()):
        engine, asked = open_engine(profile)
        with engine:
            cache = EvidenceCache(path, 'x')
            found.append(extract(engine, 'drive', WORDS, SCENES, goals, cache=cache))
            cache.close()
    assert np.array_equal(found[0].hidden, found[1].hidden)
    assert np.array_equal(found[1].hidden, found[2].hidden)
    assert np.isnan(found[1].log_probs).all() and not asked
    assert found[1].texts == tuple(scene.text for scene in SCENES)
