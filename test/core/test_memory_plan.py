"""Weights, cache and buffers land where llama.cpp puts them, and too much is refused."""

import pytest
from robot_llm.core.memory_plan import Available, compute_bytes, MemoryPlan, plan_memory, Row
from robot_llm.core.model_shape import shape_from_header, Tensor
from robot_llm.settings import Settings

MIB = 2**20
HEADER = {'general.architecture': 'a', 'a.block_count': 4, 'a.embedding_length': 1024,
          'a.attention.head_count': 8, 'a.vocab_size': 32_768, 'a.feed_forward_length': 4096}
LAYERS = {f'blk.{i}.attn_k.weight': Tensor(1, 10 * MIB) for i in range(4)}
TABLE = {'token_embd.weight': Tensor(1, 5 * MIB)}


def plan(available=Available(), tensors=None, reserved=0, **model):
    settings = Settings.from_flat({f'model.{name}': value for name, value in model.items()})
    shape = shape_from_header(HEADER, tensors or {**LAYERS, **TABLE})
    return plan_memory(
        shape, settings.model, available=available, num_reserved_tokens=reserved)


def column(plan, name):
    return [getattr(row, name) for row in plan.rows]


def test_on_the_cpu_everything_is_on_the_host():
    on_cpu = plan()
    weights, kv, _ = column(on_cpu, 'host')
    assert weights == 45 * MIB
    # 4096 tokens · 4 layers · 8 heads · (128 + 128) · 2 bytes
    assert kv == 4096 * 4 * 8 * 256 * 2
    assert column(on_cpu, 'gpu') == [0, 0, 0]


def test_what_is_freed_is_available_again_where_it_was_taken():
    held = plan(n_gpu_layers=2).context
    assert Available(host=5, gpu=7).after_freeing(held) == Available(5 + held.host, 7 + held.gpu)
    assert Available().after_freeing(held) == Available()  # unknown stays unknown
    unified = Available(host=5, gpu=7, is_unified=True)
    held = plan(unified, n_gpu_layers=2).context
    everything = sum(row.host + row.gpu for row in held.rows)
    assert unified.after_freeing(held) == Available(5 + everything, 7, is_unified=True)


def test_pinned_prefixes_count_and_the_cache_grows_in_cells_of_256():
    small, large = (plan(reserved=reserved).rows[1].host for reserved in (1, 256))
    assert small == large == 4352 * 4 * 8 * 256 * 2


def test_a_quantised_cache_takes_about_half():
    assert plan(type_k='q8_0', type_v='q8_0').rows[1].host == plan().rows[1].host * 34 / 64


@pytest.mark.parametrize(('n_gpu_layers', 'host', 'gpu'), [
    (0, 45, 0), (1, 45, 5), (3, 25, 25), (-1, 5, 45), (99, 5, 45)])
def test_a_tied_table_is_on_both_sides_and_the_last_layers_go_first(n_gpu_layers, host, gpu):
    row = plan(n_gpu_layers=n_gpu_layers).rows[0]
    assert (row.host / MIB, row.gpu / MIB) == (host, gpu)


def test_an_output_matrix_of_its_own_leaves_the_host():
    tensors = {**LAYERS, **TABLE, 'output.weight': Tensor(1, 7 * MIB)}
    row = plan(tensors=tensors, n_gpu_layers=-1).rows[0]
    assert (row.host / MIB, row.gpu / MIB) == (5, 47)


def test_the_cache_goes_with_its_layers():
    row = plan(n_gpu_layers=2).rows[1]
    assert row.gpu * 4 == row.host + row.gpu


def test_without_flash_attention_the_scores_count():
    shape = shape_from_header(HEADER, {**LAYERS, **TABLE})
    with_flash, without = (
        compute_bytes(shape, Settings.from_flat({'model.flash_attn': mode}).model, 16_384)
        for mode in ('on', 'off'))
    # 512 tokens · (8 heads + mask) · 16384 · 4 bytes
    assert without >= 512 * 9 * 16_384 * 4 > with_flash


def test_too_much_is_refused_with_the_table_and_the_remedies():
    assert plan(Available(host=1000 * MIB)).shortage == ''
    shortage = plan(Available(host=150 * MIB)).shortage
    assert 'MiB of memory and 150 MiB are available; lower model.n_ctx' in shortage
    assert 'model.type_k' in shortage
    lines = shortage.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [
        'MiB', 'weights', 'KV', 'compute', 'all', 'available']
    assert lines[1].split() == ['weights', '45']


def test_a_gpu_that_is_too_small_gets_fewer_layers():
    gpu_shortage = plan(Available(host=1000 * MIB, gpu=50 * MIB), n_gpu_layers=-1).shortage
    assert 'MiB of GPU memory and 50 MiB are available; lower model.n_gpu_layers' in gpu_shortage


def test_unified_memory_counts_both_columns_against_the_host():
    there = Available(host=100 * MIB, gpu=100 * MIB, is_unified=True)
    rows = (Row('weights', 60 * MIB, 60 * MIB),)
    assert MemoryPlan(rows, there).is_too_much
    assert '(shared)' in MemoryPlan(rows, there).table()
    assert not MemoryPlan(rows, Available(host=100 * MIB, gpu=100 * MIB)).is_too_much


def test_where_nobody_says_what_there_is_nothing_is_refused():
    assert plan(Available()).shortage == ''
    assert plan(Available()).table().splitlines()[-1].split() == ['available', 'unknown']


def test_the_weights_are_no_longer_to_be_taken_once_they_are_loaded():
    enough = plan(Available(host=250 * MIB))
    assert sum(column(enough.context, 'host')) == enough.host - 45 * MIB
