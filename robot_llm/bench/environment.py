"""What a figure is worth nothing without, as one value: machine, model, ROS, options."""

import contextlib
from importlib import metadata
import os
from pathlib import Path
from typing import Any, Final

from robot_llm.bench.machine import describe
from robot_llm.bench.suite import Context
from robot_llm.engine.llama_backend import LlamaCppBackend
from robot_llm.settings import resolve_n_threads, Settings

SAME: Final = {
    'machine': ('cpu', 'cores'),
    'model': ('name', 'fingerprint', 'quantization', 'device', 'n_threads', 'n_ctx'),
    'options': ('quick',)}
"""Facts that have to be equal for two reports to be compared."""


def environment(context: Context) -> dict[str, dict[str, Any]]:
    """
    Return group of facts → name → value.

    :raises ModelLoadError: if the model's file cannot be read
    """
    return {'machine': describe(), 'model': model(context.settings), 'ros': ros(),
            'options': {'runs': context.num_runs, 'quick': context.is_quick}}


def ros() -> dict[str, str]:
    """Return the middleware, as far as it is there; the suites without ROS need none."""
    found = {name: value for name in ('ROS_DISTRO', 'RMW_IMPLEMENTATION')
             if (value := os.environ.get(name))}
    with contextlib.suppress(metadata.PackageNotFoundError):
        found['rclpy'] = metadata.version('rclpy')
    return found


def model(settings: Settings) -> dict[str, Any]:
    """
    Return what is computed.

    :raises ModelLoadError: if the file cannot be read, or does not fit
    """
    cores = len(os.sched_getaffinity(0))
    backend = LlamaCppBackend(settings, num_cores=cores)
    info = backend.info
    backend.close()
    return {
        'file': Path(settings.model.path).name, 'name': info.name,
        'architecture': info.architecture,
        'quantization': info.quantization, 'device': info.device,
        'num_params': info.num_params, 'weight_bytes': info.weight_bytes,
        'kv_bytes_per_token': info.kv_bytes_per_token, 'fingerprint': info.fingerprint[:16],
        'n_ctx': settings.model.n_ctx, 'n_batch': settings.model.n_batch,
        'n_threads': resolve_n_threads(settings.model.n_threads, cores)}
