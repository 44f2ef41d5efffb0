"""The device is measured once, kept, and no floor is above the time that it stands beside."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
import time

from engine_requests import make_profile, make_request, SPEED_SCHEMA
from engine_running import generate, TODAY
import pytest
from robot_llm.cache_folder import CacheFolder
from robot_llm.core.timing import Stage
from robot_llm.engine import device_peaks
from robot_llm.engine.device_peaks import (
    keep_peaks, measure_flops, open_peaks, peaks_key)
from robot_llm.engine.gguf_header import read_shape
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.runtime import Runtime
from robot_llm.engine.scripted import ScriptedBackend
from robot_llm.settings import DeviceSettings, Settings

JSON = make_profile('json', schema=SPEED_SCHEMA)


def test_an_answer_has_both_floors_and_neither_is_above_its_time(
    open_backend: Callable[..., LlamaCppBackend], tmp_path: Path,
) -> None:
    backend = open_backend()
    folder = CacheFolder(tmp_path, max_bytes=10**6)
    peaks = open_peaks(backend, DeviceSettings(), folder)
    measured = (peaks.flops, peaks.bandwidth)
    assert min(measured) > 0
    runtime = Runtime(backend, Settings(), {'json': JSON}, today=TODAY, peaks=peaks)
    request = make_request(JSON, 'Is the way free? ' * 10)
    request.clock.mark(Stage.RECEIVED, time.monotonic())
    generate(runtime, request)
    prefill_floor_s, tpot_floor_s = peaks.floors(
        backend.info.shape, request.counts, kv_bytes_per_token=backend.info.kv_bytes_per_token)
    request.clock.mark(Stage.PUBLISHED, time.monotonic())
    assert 0 < prefill_floor_s <= request.clock.durations()['prefill_s']
    num_decodes = request.counts.num_decode_calls - request.counts.num_calls_to_decision
    num_gaps = request.counts.num_completion_tokens - 1
    assert 0 < num_decodes < num_gaps
    weights_s = backend.info.shape.read_per_token / peaks.bandwidth
    assert weights_s * num_decodes / num_gaps < tpot_floor_s < weights_s
    backend.measure_peaks = lambda: pytest.fail('measured twice')  # type: ignore[method-assign]
    again = open_peaks(backend, DeviceSettings(), folder)
    assert (again.flops, again.bandwidth) == measured
    backend.close()


class Measuring(ScriptedBackend):
    """A backend that counts how often it is measured."""

    num_measured = 0

    def peaks_key(self) -> str:
        return 'machine'

    def measure_peaks(self) -> tuple[float, float]:
        self.num_measured += 1
        return 3e9, 4e9


@pytest.fixture
def measuring() -> Measuring:
    return Measuring(Settings(), {'': b'stop\nfine'})


def test_what_is_given_overrides_what_is_measured(measuring: Measuring, tmp_path: Path) -> None:
    folder = CacheFolder(None, max_bytes=0)
    one = open_peaks(measuring, DeviceSettings(peak_flops=1e9), folder)
    assert (one.flops, one.bandwidth, measuring.num_measured) == (1e9, 4e9, 1)
    both = open_peaks(
        measuring, DeviceSettings(peak_flops=1e9, memory_bandwidth=2e9), folder)
    assert (both.flops, both.bandwidth, measuring.num_measured) == (1e9, 2e9, 1)


def test_what_was_raised_is_kept_and_what_was_given_is_not(
    measuring: Measuring, tmp_path: Path,
) -> None:
    folder = CacheFolder(tmp_path, max_bytes=10**6)
    peaks = open_peaks(measuring, DeviceSettings(), folder)
    peaks.flops = 9e9
    keep_peaks('machine', peaks, folder)
    keep_peaks('machine', open_peaks(measuring, DeviceSettings(peak_flops=1.0), folder), folder)
    again = open_peaks(measuring, DeviceSettings(), folder)
    assert (again.flops, again.bandwidth, measuring.num_measured) == (9e9, 4e9, 1)


@pytest.mark.parametrize('damage', [b'', b'{}', b'[1]', b'["a", 2]', b'[1, 2, 3]', b'\xff'])
def test_a_cache_entry_that_is_no_pair_of_numbers_is_measured_again(
    measuring: Measuring, tmp_path: Path, damage: bytes,
) -> None:
    folder = CacheFolder(tmp_path, max_bytes=10**6)
    open_peaks(measuring, DeviceSettings(), folder)
    entry, = tmp_path.iterdir()
    folder.write(entry.stem, damage)
    peaks = open_peaks(measuring, DeviceSettings(), folder)
    assert (peaks.flops, peaks.bandwidth, measuring.num_measured) == (3e9, 4e9, 2)


def test_a_device_that_nobody_measures_stays_unknown() -> None:
    backend = ScriptedBackend(Settings(), {'': b'stop\nfine'})
    peaks = open_peaks(backend, DeviceSettings(), CacheFolder(None, max_bytes=0))
    assert (peaks.flops, peaks.bandwidth) == (0.0, 0.0)


def test_the_key_names_the_threads_and_as_many_bytes_as_are_read(model_path: Path) -> None:
    whole = read_shape(model_path)
    part = replace(whole, layers=whole.layers[:1])
    assert len({peaks_key(whole, 1), peaks_key(whole, 2), peaks_key(part, 1)}) == 3


def test_a_ggml_without_these_functions_gives_an_unknown_peak(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_peaks.llama, '_lib', object())
    assert measure_flops(1) == 0.0


def test_a_fast_processor_runs_no_more_products_than_the_memory_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # ggml died of a segmentation fault at the three hundredth product within the time allowed.
    monkeypatch.setattr(device_peaks, 'BUDGET_S', 60.0)
    monkeypatch.setattr(device_peaks, 'POOL_BYTES', 4 * 2**20)
    assert device_peaks.measure_flops(1) > 0
