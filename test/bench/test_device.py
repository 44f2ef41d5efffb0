"""Floors, published modules and prompt lengths: what is computed and not measured."""

import argparse
from pathlib import Path

import pytest
from robot_llm.bench import sweep
from robot_llm.bench.constants import Constants, constants_of
from robot_llm.bench.device import module_table
from robot_llm.bench.fit import LengthFit
from robot_llm.bench.jetson import MODULES
from robot_llm.bench.suite import Context
from robot_llm.core.model_shape import Layer, ModelShape, NOTHING, Tensor
from robot_llm.errors import ConfigError
from robot_llm.settings import Settings

GIB = 2**30


def shape(weight_bytes: int) -> ModelShape:
    """Return a dense model of two layers and no vocabulary to speak of."""
    layer = Layer(Tensor(weight_bytes, weight_bytes // 2), NOTHING, 4)
    return ModelShape('m', 'llama', (layer, layer), NOTHING, NOTHING, NOTHING, False, 64, 64, 4,
                      16, 16, 100, 4096, 0, 0)


def context(**options: object) -> Context:
    flat = {name: value for name, value in options.items() if '.' in name}
    own = {'flops': 0.0, 'bandwidth': 0.0, 'lengths': None,
           **{name: value for name, value in options.items() if '.' not in name}}
    return Context(argparse.Namespace(**own), Settings.from_flat(flat), Path(), 7, False)


def test_a_model_is_listed_on_the_modules_it_fits_on_with_its_floor() -> None:
    table, plot = module_table(shape(8 * GIB), context())
    assert 'Orin Nano 8GB Super' not in plot.labels
    assert plot.labels == ('Orin NX 16GB', 'AGX Orin 32GB', 'AGX Orin 64GB', 'Thor T5000')
    # 8 GiB of weights and a full KV cache at 102.4 GB/s.
    kv_bytes = 4096 * 2 * 4 * (16 + 16) * 2
    assert plot.series[0].y[0] == pytest.approx((8 * GIB + kv_bytes) / 102.4e9)
    assert all(module.source in table for module in MODULES)
    assert 'Nothing was measured on a Jetson' in table


def test_a_model_that_fits_nowhere_gets_the_table_and_no_picture() -> None:
    assert len(list(module_table(shape(200 * GIB), context()))) == 1


def test_a_gpu_has_the_constants_that_are_given_and_no_others() -> None:
    gpu = {'model.n_gpu_layers': 99}
    assert constants_of(context(**gpu, flops=5e12))[:2] == (5e12, 0.0)
    assert constants_of(context(**gpu))[:2] == (0.0, 0.0)
    assert 'give --flops and --bandwidth' in constants_of(context(**gpu)).note


def point(num_cold: int, depth: int) -> sweep.Point:
    return sweep.Point(num_cold, 1.0, 8, 0.1, 0.9, 0.01, depth)


def test_the_dotted_floor_is_that_of_the_tokens_that_were_evaluated() -> None:
    """The profile's part of a prompt is cached, and no arithmetic is needed for it."""
    points = {100: [point(60, 108)], 200: [point(160, 208)], 300: [point(260, 308)]}
    known = Constants(1e12, 0.0, 'as given')
    plot = sweep._ttft_plot(points, LengthFit(0.0, 0.0, 0.0, 1.0), shape(GIB), known)
    floor = plot.series[-1]
    assert floor.x == (108, 208, 308)
    assert floor.y == tuple(sweep._prefill_floor_s(shape(GIB), num, known)
                            for num in (60, 160, 260))


def test_the_lengths_end_where_the_context_does() -> None:
    assert sweep.lengths_of(context()) == (100, 1000, 4000)
    assert sweep.lengths_of(context(**{'model.n_ctx': 2048})) == (100, 1000, 2032)
    assert sweep.lengths_of(context(**{'model.n_ctx': 32_768})) == sweep.LENGTHS
    with pytest.raises(ConfigError, match='leaves 2 within n_ctx=512'):
        sweep.lengths_of(context(**{'model.n_ctx': 512}))
