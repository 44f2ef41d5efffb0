"""What one kind of goal asks the model, and what may come back."""

from typing import Annotated, Any, Literal
import unicodedata

from pydantic import AfterValidator, Field, model_validator
from robot_llm.detail_schema import schema_problems
from robot_llm.parameter_group import Group, SamplingParams
from typing_extensions import Self

RevokeReason = Literal['error', 'deadline', 'refused_detail', 'scene_change']
DecisionMethod = Literal['words', 'head', 'both']
Share = Annotated[float, Field(ge=0.0, le=1.0)]

# One word is no decision; 64 are plenty for a robot. Short words keep their tokens, and with them
# the rows of logits that the decision needs, few.
MIN_WORDS, MAX_WORDS = 2, 64
MAX_WORD_BYTES, MAX_MEANING_BYTES = 32, 256


def _printable(text: str) -> str:
    if any(c == '\0' or '\ud800' <= c <= '\udfff' for c in text):
        raise ValueError('holds a NUL or half a surrogate pair; remove it')
    return text


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError('is empty; write a text')
    return text


def _one_word(word: str) -> str:
    # Category C: control, format (zero width), surrogate, private use, unassigned.
    if not word or any(c.isspace() or unicodedata.category(c).startswith('C') for c in word):
        raise ValueError('is not one visible word; write it without spaces and line breaks')
    if len(word.encode()) > MAX_WORD_BYTES:
        raise ValueError(f'has more than {MAX_WORD_BYTES} bytes; shorten it')
    return word


def _short_meaning(text: str) -> str:
    if len(text.encode()) > MAX_MEANING_BYTES or '\n' in text:
        raise ValueError(f'is not one line of at most {MAX_MEANING_BYTES} bytes; shorten it')
    return text


Text = Annotated[str, AfterValidator(_printable)]
FilledText = Annotated[Text, AfterValidator(_filled)]


class DecisionWord(Group):
    """A word the model may decide for, and what it means."""

    word: Annotated[str, AfterValidator(_one_word)]
    meaning: Annotated[FilledText, AfterValidator(_short_meaning)]


class DecisionRules(Group):
    """Which words there are, and when the fallback is published instead of the model's word."""

    # strict=False: YAML has lists only; what is in them stays strict.
    words: Annotated[tuple[DecisionWord, ...], Field(strict=False)]
    fallback: str
    min_confidence: Share
    #: a bar of its own for a word that moves the robot; see `evaluate threshold`
    min_confidence_of: dict[str, Share] = {}
    min_probability_mass: Share = 0.0
    #: the model's own words, a fitted head on its last hidden state, or both weighed
    method: DecisionMethod = 'words'
    #: `contextual` divides out what the model says where it knows nothing, for the method `words`
    calibration: Literal['none', 'contextual'] = 'none'
    #: where the head reads the hidden state: behind the whole prompt, or behind the scene
    reads: Literal['prompt', 'scene'] = 'prompt'
    #: file of the fitted head, relative to the profile's folder or the one above it
    head: str = ''
    #: right word -> decided word -> what that costs; 1 for what is not given, 0 for what is right
    costs: dict[str, dict[str, Annotated[float, Field(ge=0.0, le=1000.0)]]] = {}
    revoke_on: Annotated[frozenset[RevokeReason], Field(strict=False)] = frozenset(
        ('error', 'deadline', 'refused_detail', 'scene_change'))

    @model_validator(mode='after')
    def _check_words(self) -> Self:
        words = [item.word for item in self.words]
        # `Stop` beside `stop` would share one probability between two meanings.
        folded = [word.casefold() for word in words]
        problems = [
            f'words: {word!r} stands twice; keep one' for index, word in enumerate(words)
            if word.casefold() in folded[:index]]
        if not MIN_WORDS <= len(words) <= MAX_WORDS:
            problems.append(f'words has {len(words)} items, allowed are {MIN_WORDS} to '
                            f'{MAX_WORDS}; add or remove some')
        if self.fallback not in words:
            problems.append(
                f'fallback={self.fallback!r} is not one of the words {", ".join(words)}; '
                'choose the word that is safe when nothing is known')
        problems += self._method_problems() + self._strange_words(words)
        if problems:
            raise ValueError('\n'.join(problems))
        return self

    def _method_problems(self) -> list[str]:
        if self.calibration != 'none' and self.method != 'words':
            return [f'calibration is for the method words, not {self.method!r}; remove it']
        if (self.method == 'words') == (not self.head):
            return []
        if self.head:
            return ["head is given but method='words' does not use it; set method to head or "
                    'both, or remove the head']
        return [f'method={self.method!r} needs a head; fit one with `evaluate fit` and name its '
                'file in head']

    def _strange_words(self, words: list[str]) -> list[str]:
        places = [('min_confidence_of', word) for word in self.min_confidence_of]
        for right, row in self.costs.items():
            places += [('costs', right), *((f'costs.{right}', word) for word in row)]
        problems = [f'{place}: {word!r} is not one of the words {", ".join(words)}; correct it'
                    for place, word in places if word not in words]
        if self.fallback in self.min_confidence_of:
            problems.append(
                f'min_confidence_of: {self.fallback!r} is the fallback, which goes out anyway; '
                'remove it')
        return problems

    @property
    def needs_scene_alone(self) -> bool:
        """Whether the decision is made where the scene ends, before the goal is read."""
        return self.method == 'head' and self.reads == 'scene' and not self.min_probability_mass

    def cost(self, right: str, decided: str) -> float:
        """Return what it costs to decide one word where another is right."""
        return 0.0 if right == decided else self.costs.get(right, {}).get(decided, 1.0)

    def is_unsafe(self, right: str, decided: str) -> bool:
        """Whether a decision is worse than the fallback would have been."""
        return self.cost(right, decided) > self.cost(right, self.fallback)


class DetailRules(Group):
    """What follows the decision: nothing, free text for people, or JSON that meets a schema."""

    kind: Literal['none', 'text', 'json'] = 'none'
    #: the order of the properties is the order of generation
    json_schema: dict[str, Any] | None = None
    #: package.module:Class, a pydantic model that gives the schema and checks the whole detail;
    #: profile_file fills json_schema from it
    model: str = ''
    #: a schema of its own behind a word, so that no detail contradicts it
    json_schema_of: dict[str, dict[str, Any]] = {}
    #: longest answer, decision word included [tokens]; 0 = sampling.max_tokens
    max_tokens: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode='after')
    def _check_schema(self) -> Self:
        if self.model and self.kind != 'json':
            raise ValueError(f'model={self.model!r} does not fit kind={self.kind!r}; '
                             'set kind to json, or remove the model')
        if (self.kind == 'json') != (self.json_schema is not None):
            raise ValueError(f'json_schema does not fit kind={self.kind!r}; '
                             'give a schema exactly when kind is json')
        if self.json_schema_of and self.json_schema is None:
            raise ValueError(
                'json_schema_of is given without json_schema; give the schema of all other words')
        problems = [
            f'{f"model={self.model!r}" if self.model and key == "json_schema" else key}: {problem}'
            for key, schema in self.json_schemas.items() for problem in schema_problems(schema)]
        if problems:
            raise ValueError('\n'.join(problems))
        return self

    @property
    def json_schemas(self) -> dict[str, dict[str, Any]]:
        """Every schema by its key in the file; none unless the detail is JSON."""
        schemas = {} if self.json_schema is None else {'json_schema': self.json_schema}
        return schemas | {
            f'json_schema_of.{word}': schema for word, schema in self.json_schema_of.items()}

    def schema_behind(self, word: str) -> dict[str, Any] | None:
        """Return the schema of the detail behind a decision word; None without JSON."""
        return self.json_schema_of.get(word, self.json_schema)


class Deadlines(Group):
    """How long an answer may take, from the goal's arrival [s]; 0 is no deadline."""

    decision_s: Annotated[float, Field(ge=0.0, le=3600.0)] = 0.0
    total_s: Annotated[float, Field(ge=0.0, le=3600.0)] = 0.0

    @model_validator(mode='after')
    def _check_order(self) -> Self:
        if 0.0 < self.total_s < self.decision_s:
            raise ValueError(
                f'decision_s={self.decision_s} is above total_s={self.total_s}; lower it')
        return self


class ResponseProfile(Group):
    """
    One file of the profile folder, without the file's suffix in ``name``.

    The prompt is static text, then the scene, then the goal: in this order the static part is
    prefilled once and kept.
    """

    name: str
    description: FilledText
    system_prompt: FilledText
    decision: DecisionRules
    detail: DetailRules = DetailRules()
    #: only the fields that the file gives; see merge_sampling
    sampling: SamplingParams = SamplingParams()
    deadlines: Deadlines = Deadlines()
    stop: Annotated[tuple[FilledText, ...], Field(strict=False)] = ()
    #: verbatim and tokenised alone: a newline at the seams, not a space (see core/prompt.py)
    scene_header: Text = 'Scene:\n'
    goal_header: Text = '\nTask:\n'

    @property
    def words(self) -> tuple[str, ...]:
        """The decision words, in the file's order."""
        return tuple(item.word for item in self.decision.words)

    @property
    def static_prompt(self) -> str:
        """The system prompt and one line per decision word: the same for every goal."""
        lines = [f'{item.word}: {item.meaning}' for item in self.decision.words]
        return '\n'.join([self.system_prompt.rstrip(), *lines])

    @model_validator(mode='after')
    def _check_relations(self) -> Self:
        problems = []
        if 'max_tokens' in self.sampling.model_fields_set:
            problems.append(
                'sampling.max_tokens is given in a profile; write detail.max_tokens instead')
        if self.stop and self.detail.kind == 'json':
            problems.append('stop would cut the JSON detail; remove it')
        problems += [
            f'detail.json_schema_of: {word!r} is not one of the words {", ".join(self.words)}; '
            'correct it' for word in self.detail.json_schema_of if word not in self.words]
        if problems:
            raise ValueError('\n'.join(problems))
        return self


def merge_sampling(base: SamplingParams, profile: ResponseProfile) -> SamplingParams:
    """Return ``base`` with what the profile gives in its place."""
    given = profile.sampling.model_dump(include=profile.sampling.model_fields_set)
    if profile.detail.max_tokens:
        given['max_tokens'] = profile.detail.max_tokens
    return SamplingParams.model_validate(base.model_dump() | given)
