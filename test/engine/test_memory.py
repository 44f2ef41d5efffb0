"""What Linux and llama.cpp say of memory; the plan beside what llama.cpp really takes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from robot_llm.core.memory_plan import Available
from robot_llm.engine import memory
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.engine.memory import (
    available_bytes, available_memory, CPU, devices, memory_plan, taken_bytes)
from robot_llm.errors import ErrorCode, OutOfMemoryError
from robot_llm.settings import Settings

Load = Callable[..., LlamaCppBackend]


def files(root: Path, **contents: str) -> None:
    for name, content in contents.items():
        path = root / name.replace('__', '/').replace('_dot_', '.')
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def test_available_memory_is_what_linux_says(tmp_path: Path) -> None:
    meminfo = tmp_path / 'meminfo'
    meminfo.write_text('MemTotal:  9 kB\nMemFree:   1 kB\nMemAvailable:      5 kB\n')
    assert available_bytes(meminfo, tmp_path) == 5 * 1024
    meminfo.write_text('MemTotal:  9 kB\n')
    assert available_bytes(meminfo, tmp_path) == 0
    assert available_bytes(tmp_path / 'missing', tmp_path) == 0


@pytest.mark.parametrize('place', ['/', '/service', '/service/node'])
def test_a_control_group_around_the_process_counts_where_it_is_lower(
    tmp_path: Path, place: str,
) -> None:
    folder = 'sys__fs__cgroup' + place.rstrip('/').replace('/', '__')
    files(tmp_path, proc__self__cgroup='0::/service/node\n', meminfo='MemAvailable: 9999 kB\n', **{
        f'{folder}__memory_dot_max': '1000000\n', f'{folder}__memory_dot_current': '600000\n',
        f'{folder}__memory_dot_stat': 'anon 5\ninactive_file 100000\n'})
    assert available_bytes(tmp_path / 'meminfo', tmp_path) == 500_000


def test_a_control_group_without_a_limit_and_the_older_kind(tmp_path: Path) -> None:
    files(tmp_path, proc__self__cgroup='3:cpu:/a\n2:memory:/a\n0::/a\n',
          sys__fs__cgroup__a__memory_dot_max='max\n')
    assert available_bytes(tmp_path / 'missing', tmp_path) == 0
    files(tmp_path, sys__fs__cgroup__memory__a__memory_dot_limit_in_bytes='900\n',
          sys__fs__cgroup__memory__a__memory_dot_usage_in_bytes='400\n')
    assert available_bytes(tmp_path / 'missing', tmp_path) == 500


def test_this_machine_has_a_cpu_and_memory() -> None:
    assert CPU in [device.kind for device in devices()]
    assert 0 < taken_bytes()
    assert 0 < available_memory().host


def test_the_plan_is_what_llama_cpp_takes(
    open_backend: Load, make_settings: Callable[..., Settings],
) -> None:
    flat = {'model.n_ctx': 3000, 'model.type_k': 'q8_0', 'model.type_v': 'q8_0'}
    backend = open_backend(flat)
    for _ in range(2):  # a second context replaces the first one
        backend.open_context(3000, num_reserved_tokens=300, num_sequences=3)
    rows = [line.split() for line in backend.memory_report().splitlines()[1:]]
    for *_what, planned, taken in rows[:3]:
        assert float(planned) == pytest.approx(float(taken), rel=0.1, abs=4)
    plan = memory_plan(make_settings(flat), num_reserved_tokens=300)
    assert [f'{row.host / 2**20:.0f}' for row in plan.rows] == [row[-2] for row in rows[:3]]
    backend.close()


def test_a_model_larger_than_the_memory_is_refused_before_it_is_loaded(
    open_backend: Load, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, 'available_memory', lambda: Available(host=50 * 2**20))
    with pytest.raises(OutOfMemoryError, match=(
            r'model.path=.* needs \d+ MiB of memory and 50 MiB are available; lower '
            r'model.n_ctx(.|\n)*weights +92(.|\n)*available +50')) as raised:
        open_backend()
    assert raised.value.code is ErrorCode.OUT_OF_MEMORY
