"""
The groups of parameters: each parameter is declared here once, with range, unit and meaning.

ROS, ``config/robot_llm.yaml``, the README's table and the tests derive from these models.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

CacheType = Literal['f32', 'f16', 'q8_0', 'q4_0']


class Group(BaseModel):
    """A frozen group of parameters; unknown names and implicit conversions are refused."""

    model_config = ConfigDict(frozen=True, extra='forbid', strict=True, allow_inf_nan=False)
    IS_LIVE: ClassVar[bool] = False
    """Its parameters may change while the node is configured; they count for the next goal."""


class ModelSettings(Group):
    """``model.*``: the file, and how llama.cpp runs it."""

    path: Annotated[str, Field(
        description='GGUF file; empty is refused at configure.')] = ''
    n_ctx: Annotated[int, Field(
        ge=256, le=1_048_576, description='Context window, prompt and answer together [tokens].',
        json_schema_extra={'remedy': (
            'give the window you need: with 0 llama.cpp would take the length of the training, '
            'and its KV cache may not fit')})] = 4096
    # n_batch and n_ubatch: the defaults of llama.cpp.
    n_batch: Annotated[int, Field(
        ge=1, le=65_536, description='Largest batch of one llama_decode call [tokens].')] = 2048
    n_ubatch: Annotated[int, Field(
        ge=1, le=65_536, description='Part of a batch that is computed at once [tokens].')] = 512
    n_threads: Annotated[int, Field(
        ge=0, le=1024, description=(
            'CPU threads; 0 takes the cores this process may use minus one, at least 1.'))] = 0
    n_gpu_layers: Annotated[int, Field(
        ge=-1, le=1024, description='Layers on the GPU; 0 is none, -1 is all.')] = 0
    use_mmap: Annotated[bool, Field(
        description='Map the file into memory instead of reading it.')] = True
    use_mlock: Annotated[bool, Field(
        description='Lock the model in memory, so that it is never paged out.')] = False
    flash_attn: Annotated[Literal['auto', 'on', 'off'], Field(
        description='Flash attention; a quantised type_v needs it.')] = 'auto'
    type_k: Annotated[CacheType, Field(description='Type of the keys in the KV cache.')] = 'f16'
    type_v: Annotated[CacheType, Field(description='Type of the values in the KV cache.')] = 'f16'


class EngineSettings(Group):
    """``engine.*``: how a generation is cut into pieces that can be stopped."""

    # llama.cpp computes n_ubatch tokens at once: a longer chunk gains nothing, and what an abort
    # throws away is the ubatch that was being computed. Below it, the chunk follows max_stall_s.
    chunk_tokens: Annotated[int, Field(ge=0, le=65_536, description=(
        'Largest prefill chunk, at most model.n_batch; 0 lets the engine choose [tokens].'))] = 0
    # One step of a controller that runs at 30 Hz.
    max_stall_s: Annotated[float, Field(
        ge=0.001, le=10.0, json_schema_extra={'is_live': True}, description=(
            'How long a stop may wait for a call of the model where none can be aborted (GPU), '
            'in prefill and answer; at least 1.25 times what one token takes [s].'),
    )] = 0.03
    use_abort_callback: Annotated[bool, Field(
        description='Stop inside a running llama_decode; works on the CPU only.')] = True
    # A model of some gigabytes on a memory card takes minutes.
    load_timeout_s: Annotated[float, Field(
        ge=0.0, le=3600.0, description=(
            'Longest time to load the model in; 0 waits for ever [s].'))] = 300.0
    # On a GPU a whole call of the model is silent, on a CPU a graph node; a hang lasts for ever.
    hang_s: Annotated[float, Field(
        ge=0.0, le=600.0, description=(
            'An engine without progress for this long has hung; 0 never gives up [s].'))] = 30.0
    exit_on_hang: Annotated[bool, Field(
        description='End the process behind a hang, for launch to respawn it.')] = False


class SamplingParams(Group):
    """``sampling.*``: how one answer is sampled; a profile and a goal may override it."""

    IS_LIVE = True

    temperature: Annotated[float, Field(
        ge=0.0, le=2.0, description='Softmax temperature; 0 picks the likeliest token.')] = 0.0
    # top_k, top_p, min_p: the defaults of llama.cpp.
    top_k: Annotated[int, Field(
        ge=0, le=1000, description='Keep this many of the likeliest tokens; 0 is off.')] = 40
    top_p: Annotated[float, Field(
        ge=0.0, le=1.0, description='Keep the tokens that make up this probability; 1 is off.',
    )] = 0.95
    min_p: Annotated[float, Field(
        ge=0.0, le=1.0, description=(
            'Drop tokens less likely than this share of the likeliest; 0 is off.'))] = 0.05
    repetition_penalty: Annotated[float, Field(
        ge=0.5, le=2.0, description='Divide the logits of repeated tokens; 1 is off.')] = 1.0
    seed: Annotated[int, Field(
        ge=0, le=2**32 - 1, description=(
            'Random seed; 0 draws one from the operating system and reports it.'))] = 0
    max_tokens: Annotated[int, Field(
        ge=1, le=32_768, description='Longest answer, decision word included [tokens].')] = 256


class ProfileSettings(Group):
    """``profiles.*``: where the response profiles are."""

    folder: Annotated[str, Field(
        description='Folder of profile files (*.yaml); empty takes the shipped ones.')] = ''
    default: Annotated[str, Field(
        description='Profile of a goal that names none.')] = 'drive'


class PreemptSettings(Group):
    """``preempt.*``: what a goal does to the one that runs."""

    IS_LIVE = True

    policy: Annotated[Literal['newest_wins', 'queue', 'reject'], Field(
        description='A newer goal stops the running one, waits for it, or is rejected.',
    )] = 'newest_wins'
    max_queue: Annotated[int, Field(
        ge=1, le=64, description='Longest queue; a further goal is rejected [goals].')] = 4


class SceneSettings(Group):
    """``scene.*``: what a change of the scene does to the running goal."""

    IS_LIVE = True

    policy: Annotated[Literal['abort', 'restart'], Field(
        description='A newer scene ends the running goal, or starts it again.')] = 'abort'
    max_restarts: Annotated[int, Field(
        ge=0, le=100, description='A goal that was restarted this often is ended instead.')] = 3
    wait_s: Annotated[float, Field(
        ge=0.0, le=10.0, description=(
            'How long a goal waits for a scene that has not arrived [s].'))] = 0.2
    max_age_s: Annotated[float, Field(
        ge=0.0, le=3600.0, description=(
            'A scene that was not repeated for this long moves nobody: its goals get the '
            'fallback; 0 takes every scene for current until the next one [s].'))] = 0.0


class ClientSettings(Group):
    """``client.*``: what happens to the goals of a client that leaves."""

    grace_s: Annotated[float, Field(
        ge=0.0, le=60.0, description=(
            'A goal ends this long after its client left the graph; 0 never looks [s].'))] = 1.0


class AdmissionSettings(Group):
    """``admission.*``: what happens to a goal that cannot meet its decision deadline."""

    IS_LIVE = True

    policy: Annotated[Literal['off', 'refuse', 'fallback'], Field(
        description=(
            'By the measured prefill rate: try all the same, reject the goal, or publish the '
            'fallback at once.'))] = 'off'


class Limits(Group):
    """``limits.*``: what may enter; more is refused with value and limit."""

    IS_LIVE = True

    prompt_bytes: Annotated[int, Field(
        ge=1, le=1_048_576, description='Longest prompt of a goal, UTF-8 [bytes].')] = 65_536
    scene_bytes: Annotated[int, Field(
        ge=1, le=65_536, description=(
            'Longest scene description, UTF-8 [bytes]. A decision head falls back on any that is '
            'longer than all it was fitted to.'))] = 8192
    stop_strings: Annotated[int, Field(
        ge=0, le=64, description='Most stop strings of a goal or a profile.')] = 8
    stop_bytes: Annotated[int, Field(
        ge=1, le=1024, description='Longest stop string, UTF-8 [bytes].')] = 64
    schema_bytes: Annotated[int, Field(
        ge=64, le=65_536, description='Largest detail schema as JSON [bytes].')] = 16_384
    # The largest round number whose answer fits the default token_depth of 1024 messages.
    max_tokens: Annotated[int, Field(
        ge=1, le=32_768, description=(
            'Longest answer a goal or a profile may ask for [tokens].'))] = 1000


class DeviceSettings(Group):
    """``device.*``: what the hardware could do at best; the floors are computed from it."""

    peak_flops: Annotated[float, Field(
        ge=0.0, description=(
            'Peak compute [FLOP/s]; 0 measures the CPU, and is unknown on a GPU.'))] = 0.0
    memory_bandwidth: Annotated[float, Field(
        ge=0.0, description=(
            'Peak memory bandwidth [byte/s]; 0 measures the CPU, and is unknown on a GPU.'),
    )] = 0.0


class CacheSettings(Group):
    """``cache.*``: what a node that starts again need not compute again."""

    folder: Annotated[str, Field(
        description='Folder for what may be lost at any time; empty keeps nothing on disk.',
    )] = '~/.cache/robot_llm'
    max_bytes: Annotated[int, Field(
        ge=0, le=2**40, description=(
            'Largest size of that folder; what was not used for longest goes first [bytes].'))] = (
                1_000_000_000)
