"""What the device can do at best, and the floors of one answer that follow from it."""

from dataclasses import dataclass

from robot_llm.core.model_shape import ModelShape
from robot_llm.core.timing import TokenCounts
from robot_llm.roofline import prefill_floor_s, tpot_floor_s


@dataclass(slots=True)
class Peaks:
    """
    Peak arithmetic and peak memory traffic; 0 is unknown.

    A measurement on a busy machine comes out too low, and a floor from it too high. So a decode
    that was faster than the peaks allow raises them: no floor is ever above the time it stands
    beside. What a person gave stays as it is.

    :param flops: of the device that computes, at the precision in use [FLOP/s]
    :param bandwidth: of the same [bytes/s]
    """

    flops: float = 0.0
    bandwidth: float = 0.0
    is_flops_given: bool = False
    is_bandwidth_given: bool = False

    def see(self, shape: ModelShape, num_tokens: int, kv_bytes: float, elapsed_s: float) -> None:
        """
        Take one decode into account.

        :param num_tokens: in its batch
        :param kv_bytes: keys and values that it read [bytes]
        """
        if elapsed_s <= 0.0:
            return
        if self.flops and not self.is_flops_given:
            operations = 2.0 * shape.active_layers.num_params * num_tokens
            self.flops = max(self.flops, operations / elapsed_s)
        if self.bandwidth and not self.is_bandwidth_given:
            self.bandwidth = max(self.bandwidth, (shape.read_per_token + kv_bytes) / elapsed_s)

    def floors(
        self, shape: ModelShape | None, counts: TokenCounts, *, kv_bytes_per_token: float,
    ) -> tuple[float, float]:
        """
        Return what the hardware needs at least for the prefill, and per token behind it [s].

        The prefill multiplies every active weight for every token and the output matrix for the
        last one; it reads each weight once at least. Tokens that were forced or accepted together
        share a decode, so that a token's floor is that of its share.

        :param counts: of the whole answer
        :returns: ``(prefill_floor_s, tpot_floor_s)``, 0 where a constant is unknown
        """
        if shape is None:
            return 0.0, 0.0
        prefill_s = 0.0
        if counts.num_tokens_to_decision:
            arithmetic_s = (
                prefill_floor_s(shape.active_layers.num_params, counts.num_tokens_to_decision,
                                self.flops)
                + prefill_floor_s(shape.output.num_params, 1, self.flops))
            traffic_s = tpot_floor_s(
                shape.read_per_token,
                int(shape.kv_bytes_read(counts.num_cached_tokens, kv_bytes_per_token)),
                self.bandwidth)
            prefill_s = max(arithmetic_s, traffic_s)
        # Every decode reads the cache as it is then. What grows up to a window only is above the
        # mean of its two ends in between, so that these give a floor.
        ends = (counts.num_prompt_tokens, counts.num_prompt_tokens + counts.num_completion_tokens)
        kv_bytes = sum(shape.kv_bytes_read(end, kv_bytes_per_token) for end in ends) / 2
        decode_s = tpot_floor_s(shape.read_per_token, int(kv_bytes), self.bandwidth)
        num_decodes = counts.num_decode_calls - counts.num_calls_to_decision
        num_gaps = counts.num_completion_tokens - 1
        return prefill_s, decode_s * num_decodes / num_gaps if num_gaps > 0 else 0.0
