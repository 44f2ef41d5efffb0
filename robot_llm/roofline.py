"""
How fast the hardware allows: the least time for a prefill and for a token.

Prefill is bound by arithmetic, decode at batch 1 by memory traffic. A floor is a lower bound,
never a forecast: attention, sampling and publishing come on top. A constant that is not known
is 0, and the floor is then 0.0, which means unknown and not instant.

Source: S. Williams et al., Roofline, CACM 52(4), 2009; 2 FLOP per parameter and token:
J. Kaplan et al., Scaling Laws for Neural Language Models, 2020, section 2.1.
"""


def prefill_floor_s(num_params: int, num_tokens: int, flops: float) -> float:
    """
    Return the least time to evaluate a prompt [s]: two operations per weight and token.

    Traps: a mixture of experts counts the parameters that are active for a token, not all of
    them. The input embedding is looked up, not multiplied: leave it out, unless it is tied,
    because then the same table is the output matrix. Even that one is multiplied for the last
    token only, so for a small model with a large vocabulary the floor is too high if it is
    counted for each; ``core.peaks`` adds it once. Attention itself (quadratic in the tokens) is
    not in here.

    :param num_params: parameters that are multiplied for one token
    :param num_tokens: tokens that are really evaluated: prompt minus cached
    :param flops: peak at the precision in use [FLOP/s]; dense, not the datasheet's sparse one
    """
    if flops <= 0:
        return 0.0
    return 2.0 * num_params * num_tokens / flops


def tpot_floor_s(weight_bytes: int, kv_bytes: int, bandwidth: float) -> float:
    """
    Return the least time per output token at batch 1 [s]: every byte is read once.

    Traps: of a mixture of experts only the active experts are read. Of an input embedding one
    row is read, but a tied one is read whole, as the output matrix. ``kv_bytes`` grows with
    every token, so a floor for an answer needs its mean length; a sliding window stops that
    growth. With unified memory (Jetson) CPU and GPU share the chip but do not reach the same
    bandwidth: take the one of the device that runs the model. The result is not additive over
    a batch: weights are read once for all of it.

    :param weight_bytes: quantised size of the weights that one token reads [bytes]
    :param kv_bytes: keys and values of all tokens before this one [bytes]
    :param bandwidth: measured memory bandwidth of the device that computes [bytes/s]
    """
    if bandwidth <= 0 or weight_bytes <= 0:
        return 0.0
    return (weight_bytes + kv_bytes) / bandwidth
