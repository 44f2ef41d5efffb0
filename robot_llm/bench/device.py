"""A model file and a device: memory, floors, and the deadline that this pair can promise."""

import argparse
from collections.abc import Iterator
from contextlib import closing
import os
from typing import Final

from robot_llm.bench.constants import add_constant_options, Constants, constants_of
from robot_llm.bench.jetson import MODULES
from robot_llm.bench.ours import Ours
from robot_llm.bench.plot import Plot, Series
from robot_llm.bench.prompts import DECIDE, GOAL, PROFILES, scene
from robot_llm.bench.sample import Figure, highest
from robot_llm.bench.suite import Context, Finding
from robot_llm.bench.system import Prompt
from robot_llm.core.memory_plan import Available, BYTES_PER_VALUE, plan_memory
from robot_llm.core.model_shape import ModelShape
from robot_llm.engine.gguf_header import read_shape
from robot_llm.engine.memory import available_memory
from robot_llm.roofline import prefill_floor_s, tpot_floor_s

SYSTEM_SHARE: Final = 0.25
"""Of a module's memory, what system, ROS and the rest of the robot are supposed to take."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what only this suite takes."""
    add_constant_options(parser)
    parser.add_argument('--memory', type=float, default=0.0, metavar='BYTES',
                        help='memory that is free on a robot that is not here, such as 6e9')
    parser.add_argument('--prompt-tokens', type=int, default=256, metavar='N',
                        help='tokens that a cold decision evaluates (%(default)s)')
    parser.add_argument('--goals', type=int, default=0, metavar='N',
                        help='decisions to measure; default: 100, with --quick 30')


def run(context: Context) -> Iterator[Finding]:
    """Yield memory, floors, what was measured here, and the table of modules."""
    options, shape = context.options, read_shape(context.model)
    is_elsewhere = bool(options.flops or options.bandwidth or options.memory)
    available = (Available(host=int(options.memory)) if options.memory else available_memory())
    plan = plan_memory(shape, context.settings.model, available=available)
    yield f'Memory plan for n_ctx={context.settings.model.n_ctx}:\n{plan.table()}'
    for row in plan.rows:
        yield Figure(f'memory: {row.what}', 'MiB', ((row.host + row.gpu) / 2**20,))
    if plan.shortage:
        yield f'It does not fit: {plan.shortage}'
    known = constants_of(context)
    yield known.note
    yield from floors(shape, context, known)
    if is_elsewhere:
        yield ('The constants are those of another device: what it can promise has to be measured '
               'on it. A floor is a lower bound and no forecast.')
    else:
        yield from _promise(context)
    yield from module_table(shape, context)


def kv_bytes_read(shape: ModelShape, context: Context, depth: int) -> int:
    """Return what a token reads of the KV cache at a depth, with the set types [bytes]."""
    model = context.settings.model
    return int(shape.kv_bytes_read(depth, shape.kv_bytes_per_token(
        BYTES_PER_VALUE[model.type_k], BYTES_PER_VALUE[model.type_v])))


def floors(shape: ModelShape, context: Context, known: Constants) -> Iterator[Figure]:
    """Yield what no software can beat on this device."""
    num_tokens = context.options.prompt_tokens
    depths = {'an empty context': 0, 'a full context': context.settings.model.n_ctx}
    if known.bandwidth:
        for what, depth in depths.items():
            kv_bytes = kv_bytes_read(shape, context, depth)
            yield Figure(f'floor: a token in {what}', 's', (
                tpot_floor_s(shape.read_per_token, kv_bytes, known.bandwidth),))
    if known.flops:
        yield Figure(f'floor: prefill of {num_tokens} tokens', 's', (
            prefill_floor_s(shape.active_layers.num_params, num_tokens, known.flops),))


def _promise(context: Context) -> Iterator[Figure]:
    """Measure decisions, and yield the deadline that 99 of 100 of them, or all of fewer, kept."""
    num_goals = context.options.goals or (30 if context.is_quick else 100)
    num_cold = max(num_goals // 5, 5)
    with closing(Ours(context.settings, PROFILES)) as ours:
        nonce = os.urandom(4).hex()

        def decide(name: str, about: str, goal: str) -> float:
            return ours.complete(Prompt(name, about, goal, 1)).ttft_s

        decide('decide', scene(0, nonce), GOAL)
        warm_s = []
        for run_index in range(num_goals):
            context.say(f'decisions on a new scene: {run_index + 1} of {num_goals}')
            warm_s.append(decide('decide', scene(run_index, f'{nonce}{run_index}'), GOAL))
        sentence = 'Go on. '
        length = len(ours.runtime.backend.tokenize(sentence, parse_special=False))
        cold_s = []
        for run_index in range(num_cold):
            context.say(f'cold decisions: {run_index + 1} of {num_cold}')
            goal = f'{run_index}{nonce} {sentence * (context.options.prompt_tokens // length)}'
            cold_s.append(decide('talk', '', goal))
    note = f'profile {DECIDE.name} of the benchmark: a long rule is cached, the scene is new'
    yield Figure('deadline: a new scene', 's', tuple(warm_s), statistic=highest(num_goals),
                 note=note)
    yield Figure(f'deadline: about {context.options.prompt_tokens} tokens, none cached', 's',
                 tuple(cold_s), statistic=highest(num_cold))


def module_table(shape: ModelShape, context: Context) -> Iterator[Finding]:
    """Yield what the model would need on each Jetson module, from published figures alone."""
    model = context.settings.model
    need = plan_memory(shape, model, available=Available()).host
    kv_bytes = kv_bytes_read(shape, context, model.n_ctx)
    lines = [f'{"Jetson module":20}{"memory":>9}{"bandwidth":>13}  {"fits":6}'
             f'{"floor per token":>16}  source']
    fitting = []
    for module in MODULES:
        fits = need <= (1 - SYSTEM_SHARE) * module.memory_bytes
        floor_s = tpot_floor_s(shape.read_per_token, kv_bytes, module.bandwidth)
        lines.append(
            f'{module.name:20}{module.memory_bytes / 2**30:6.0f} GB'
            f'{module.bandwidth / 1e9:8.4g} GB/s  {"yes" if fits else "no":6}'
            f'{floor_s * 1e3:13.3g} ms  {module.source}')
        if fits:
            fitting.append((module.name, floor_s))
    yield ('\n'.join(lines) + f'\nPublished peak figures, n_ctx={model.n_ctx} full; a quarter of '
           'the memory is left to the system. Nothing was measured on a Jetson.')
    if fitting:
        yield Plot(
            'device_modules', 'Jetson modules: the least time per token for this model', 'bars',
            (Series('floor', tuple(floor_s for _, floor_s in fitting), style='ours'),),
            x_label='time per token [s]', labels=tuple(name for name, _ in fitting),
            caption='Weights and a full KV cache, read once at the published peak bandwidth. '
                    'A lower bound, not a measurement.')
