"""The parameters of the node as one value, checked as a whole."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator
from robot_llm.errors import ConfigError
from robot_llm.parameter_doc import markdown_table, yaml_text
from robot_llm.parameter_group import (
    AdmissionSettings, CacheSettings, ClientSettings, DeviceSettings, EngineSettings, Group,
    Limits, ModelSettings, PreemptSettings, ProfileSettings, SamplingParams, SceneSettings)
from robot_llm.parameter_output import (
    HistorySettings, RecordSettings, StatusSettings, TopicSettings)
from robot_llm.parameter_spec import convert_flat, nest, ParameterSpec, specs_from_model
from robot_llm.parameter_speculation import SpeculationSettings
from typing_extensions import Self

__all__ = [
    'AdmissionSettings', 'CacheSettings', 'ClientSettings', 'DeviceSettings',
    'EngineSettings', 'HistorySettings', 'Limits', 'ModelSettings', 'PreemptSettings',
    'ProfileSettings', 'RecordSettings', 'SamplingParams', 'SceneSettings', 'Settings',
    'SpeculationSettings', 'StatusSettings', 'TopicSettings', 'all_specs', 'model_file',
    'parameter_table_markdown', 'parameter_yaml', 'resolve_n_threads',
]


class Settings(Group):
    """All parameters; a field that is a group has its name as prefix, ``group.field``."""

    autostart: Annotated[bool, Field(
        description='Configure and activate the node by itself at start.')] = True
    executor: Annotated[Literal['single_threaded', 'multi_threaded'], Field(
        description='rclpy executor of the process; read once, at start.')] = 'single_threaded'
    model: ModelSettings = ModelSettings()
    engine: EngineSettings = EngineSettings()
    speculation: SpeculationSettings = SpeculationSettings()
    sampling: SamplingParams = SamplingParams()
    profiles: ProfileSettings = ProfileSettings()
    preempt: PreemptSettings = PreemptSettings()
    scene: SceneSettings = SceneSettings()
    limits: Limits = Limits()
    topics: TopicSettings = TopicSettings()
    history: HistorySettings = HistorySettings()
    client: ClientSettings = ClientSettings()
    admission: AdmissionSettings = AdmissionSettings()
    status: StatusSettings = StatusSettings()
    record: RecordSettings = RecordSettings()
    device: DeviceSettings = DeviceSettings()
    cache: CacheSettings = CacheSettings()

    @classmethod
    def from_flat(cls, mapping: Mapping[str, object]) -> Self:
        """
        Build the settings from flat names; what is missing keeps its default.

        :param mapping: ``group.field`` → value as ROS or YAML gave it
        :raises ConfigError: with all problems at once, one sentence each
        """
        values, problems = convert_flat(all_specs(), mapping)
        try:
            # A refused value stands at its default here, so the relations are checked as well.
            settings = cls.model_validate(nest(values))
        except ConfigError as error:
            problems.extend(error.problems)
        if problems:
            raise ConfigError(*problems)
        return settings

    def with_changes(self, changes: Mapping[str, object]) -> Self:
        """
        Return these settings with some values changed.

        :param changes: ``group.field`` → value as ROS gave it
        :raises ConfigError: with all problems at once; nothing is changed then
        """
        current = {}
        for spec in all_specs():
            group, _, field = spec.name.rpartition('.')
            current[spec.name] = getattr(getattr(self, group) if group else self, field)
        return self.from_flat({**current, **changes})

    @model_validator(mode='after')
    def _check_relations(self) -> Self:
        if problems := _relation_problems(self):
            raise ConfigError(*problems)
        return self


def _relation_problems(settings: Settings) -> list[str]:
    model, limits = settings.model, settings.limits
    problems = []
    if settings.engine.chunk_tokens > model.n_batch:
        # llama.cpp aborts the process on a larger batch.
        problems.append(
            f'engine.chunk_tokens={settings.engine.chunk_tokens} is above '
            f'model.n_batch={model.n_batch}; lower the chunk or raise the batch')
    if settings.sampling.max_tokens >= model.n_ctx:
        problems.append(
            f'sampling.max_tokens={settings.sampling.max_tokens} leaves no room for a prompt in '
            f'model.n_ctx={model.n_ctx}; lower max_tokens or raise n_ctx')
    if settings.sampling.max_tokens > limits.max_tokens:
        problems.append(
            f'sampling.max_tokens={settings.sampling.max_tokens} is above '
            f'limits.max_tokens={limits.max_tokens}; lower it or raise the limit')
    # One message per token, one for a restart or a revoked answer's rest, one END.
    if settings.topics.token_depth < limits.max_tokens + 2:
        problems.append(
            f'topics.token_depth={settings.topics.token_depth} is below limits.max_tokens + 2 = '
            f'{limits.max_tokens + 2}, so a slow reader would lose the decision; '
            'raise the depth or lower limits.max_tokens')
    if 0.0 < settings.engine.hang_s < 2.0:
        # A worker without work shows its pulse once a second.
        problems.append(
            f'engine.hang_s={settings.engine.hang_s} is below 2 s, too short to tell a hang from '
            'a slow decode; raise it, or set it to 0 to never give up')
    if settings.speculation.prompt_lookup_min > settings.speculation.prompt_lookup_max:
        problems.append(
            f'speculation.prompt_lookup_min={settings.speculation.prompt_lookup_min} is above '
            f'speculation.prompt_lookup_max={settings.speculation.prompt_lookup_max}; lower it')
    if model.flash_attn == 'off' and model.type_v.startswith('q'):
        problems.append(
            f"model.type_v={model.type_v!r} needs flash attention, but model.flash_attn='off'; "
            "set flash_attn to 'auto' or type_v to 'f16'")
    return problems


def resolve_n_threads(n: int, cores: int) -> int:
    """
    Return how many threads llama.cpp gets.

    :param n: ``model.n_threads``; 0 leaves one core free
    :param cores: cores this process may use, >= 1

    Source: with all cores taken, llama.cpp's spinning barrier made single decodes 10 to 100
    times slower whenever another process ran.
    """
    return n or max(1, cores - 1)


def model_file(settings: Settings) -> Path:
    """
    Return the model's path, with ``~`` expanded; the loader checks what is in the file.

    :raises ConfigError: if no path is given, or no file is there
    """
    if not settings.model.path:
        raise ConfigError(
            "model.path='' names no model; give a GGUF file: model:=/path/to/model.gguf at "
            'launch, or model.path in the parameter file')
    path = Path(settings.model.path).expanduser()
    if not path.is_file():
        raise ConfigError(
            f'model.path={settings.model.path!r} is not a file; check the path, and that this '
            'user may read it')
    return path


@cache
def all_specs() -> tuple[ParameterSpec, ...]:
    """Return every parameter of the node, in the order of the groups."""
    return tuple(specs_from_model(Settings))


def parameter_table_markdown() -> str:
    """Return the table between the parameter markers of README.md."""
    return markdown_table(all_specs())


def parameter_yaml() -> str:
    """Return the text of ``config/robot_llm.yaml``."""
    return yaml_text(all_specs())


if __name__ == '__main__':
    print(parameter_yaml(), end='')
