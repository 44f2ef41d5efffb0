"""What one token is multiplied with, reads and keeps; by hand for each trap."""

import pytest
from robot_llm.core.model_shape import shape_from_header, Tensor

DENSE = {'general.architecture': 'a', 'a.block_count': 2, 'a.embedding_length': 8,
         'a.attention.head_count': 2, 'a.vocab_size': 100}
LAYERS = {f'blk.{i}.{name}.weight': Tensor(64, 40)
          for i in range(2) for name in ('attn_k', 'attn_v', 'ffn_up')}
TABLE = {'token_embd.weight': Tensor(800, 850), 'output_norm.weight': Tensor(8, 32)}


def test_a_tied_table_is_in_the_file_once_and_multiplied_all_the_same():
    shape = shape_from_header(DENSE, {**LAYERS, **TABLE})
    assert shape.is_tied
    assert shape.whole == Tensor(6 * 64 + 808, 6 * 40 + 882)
    assert shape.active_layers == Tensor(6 * 64, 6 * 40)
    assert shape.read_per_token == 6 * 40 + 850


def test_an_input_table_of_its_own_is_looked_up_and_not_multiplied():
    shape = shape_from_header(DENSE, {**LAYERS, **TABLE, 'output.weight': Tensor(800, 450)})
    assert not shape.is_tied
    assert shape.whole == Tensor(6 * 64 + 1608, 6 * 40 + 1332)
    assert shape.read_per_token == 6 * 40 + 450


def test_of_a_mixture_the_active_experts_count_for_a_token_and_all_for_the_memory():
    experts = {f'blk.{i}.ffn_up_exps.weight': Tensor(8000, 4000) for i in range(2)}
    shape = shape_from_header(
        {**DENSE, 'a.expert_count': 8, 'a.expert_used_count': 2}, {**LAYERS, **experts, **TABLE})
    assert shape.active_layers == Tensor(6 * 64 + 4000, 6 * 40 + 2000)
    assert shape.whole.num_bytes == 6 * 40 + 8000 + 882


def test_heads_of_keys_and_values_may_be_fewer_and_of_two_sizes():
    shape = shape_from_header(
        {**DENSE, 'a.attention.head_count_kv': 1, 'a.attention.key_length': 192,
         'a.attention.value_length': 128}, {**LAYERS, **TABLE})
    # 2 layers · 1 head · (192 · 1.0625 + 128 · 2)
    assert shape.kv_bytes_per_token(34 / 32, 2) == pytest.approx(920)


def test_of_the_embedded_model_a_token_keeps_what_a_hand_calculation_gives():
    header = {'general.architecture': 'llama', 'llama.block_count': 30,
              'llama.embedding_length': 576, 'llama.attention.head_count': 9,
              'llama.attention.head_count_kv': 3}
    layers = {f'blk.{i}.attn_k.weight': Tensor(1, 1) for i in range(30)}
    # 30 · 3 · (64 · 2 + 64 · 2)
    assert shape_from_header(header, layers).kv_bytes_per_token(2, 2) == 23_040


@pytest.mark.parametrize(('header', 'num_read'), [
    # No window, or a window of none; heads times tokens of both layers.
    ({}, 2000), ({'a.attention.sliding_window': 0}, 2000),
    # Which layers have one is not told: a floor takes all of them.
    ({'a.attention.sliding_window': 512}, 1024),
    ({'a.attention.sliding_window': 512, 'a.attention.sliding_window_pattern': 6}, 1024),
    ({'a.attention.sliding_window': 512,
      'a.attention.sliding_window_pattern': [True, False]}, 1512)])
def test_a_layer_reads_no_more_than_its_window(header, num_read):
    shape = shape_from_header({**DENSE, **header}, {**LAYERS, **TABLE})
    # Two heads each, and the memory for all tokens is planned all the same.
    assert shape.kv_bytes_per_token(2, 2) == 2 * 2 * (4 + 4) * 2
    assert shape.kv_bytes_read(1000, shape.kv_bytes_per_token(2, 2)) == num_read * 2 * 8 * 2
    assert shape.kv_bytes_read(100, 64.0) == 6400


def test_a_model_without_keys_reads_none():
    assert shape_from_header(DENSE, TABLE).kv_bytes_read(1000, 0.0) == 0.0


def test_layers_without_keys_keep_none():
    recurrent = {'blk.0.ssm_conv1d.weight': Tensor(1, 1), 'blk.0.attn_qkv.weight': Tensor(1, 1),
                 'blk.1.attn_k.weight': Tensor(1, 1)}
    shape = shape_from_header({**DENSE, 'a.attention.head_count_kv': [2, 1]}, recurrent)
    assert [layer.n_head_kv for layer in shape.layers] == [0, 1]


def test_what_every_decoder_has_must_be_there():
    with pytest.raises(KeyError, match='a.block_count'):
        shape_from_header({'general.architecture': 'a'}, {})
