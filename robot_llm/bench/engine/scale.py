"""How much is measured: all of it in twenty minutes, or a first look in two."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

MOST_LENGTH_RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class Scale:
    """Runs, lengths and counts of one pass over the engine's suite."""

    num_runs: int
    num_contexts: int
    """How often the contexts are made anew between whose tokens the time is compared."""
    num_slices: int
    """Short answers of each of them."""
    slice_tokens: int
    num_tokens: int
    """Of a longer answer."""
    prefill_tokens: int
    reuse_tokens: int
    num_stops: int
    """Per stage and way to stop; from a hundred on a 99th percentile says something."""
    chunks: tuple[int, ...]
    """Fixed prefill chunks to stop in, beside the default [tokens]."""
    lengths: tuple[int, ...]
    """Of the prompts in the fit [tokens]."""
    length_runs: int
    """Of the longest prompt; of shorter ones up to ``MOST_LENGTH_RUNS`` times as many."""
    num_scenes: int
    """Of which the profile ``drive`` says something."""
    word_counts: tuple[int, ...]
    """How many words to decide among."""

    def with_runs(self, num_runs: int) -> 'Scale':
        """Return the same with other repetitions."""
        return replace(self, num_runs=num_runs)

    def with_lengths(self, lengths: Sequence[int] | None) -> 'Scale':
        """Return the same with other prompts; None changes nothing."""
        return replace(self, lengths=tuple(lengths)) if lengths else self

    def runs_of(self, num_tokens: int) -> int:
        """Return how often a prompt of this length is measured: short ones are cheap, and vary."""
        return self.length_runs * min(max(max(self.lengths) // num_tokens, 1), MOST_LENGTH_RUNS)


FULL: Final = Scale(
    num_runs=7, num_contexts=4, num_slices=8, slice_tokens=32, num_tokens=128,
    prefill_tokens=1024, reuse_tokens=1024, num_stops=100, chunks=(32, 128, 512),
    lengths=(128, 256, 512, 1024, 2048, 4096), length_runs=2, num_scenes=6,
    word_counts=(2, 4, 8, 16, 32))
QUICK: Final = Scale(
    num_runs=3, num_contexts=2, num_slices=4, slice_tokens=32, num_tokens=40,
    prefill_tokens=256, reuse_tokens=256, num_stops=10, chunks=(128,),
    lengths=(96, 192, 384), length_runs=2, num_scenes=3, word_counts=(2, 8, 32))
