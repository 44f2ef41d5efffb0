"""Pictures as PNG bytes; matplotlib is imported only here, and only when a picture is drawn."""

from collections.abc import Callable
from importlib.util import find_spec
import io
from typing import Any, Final

from robot_llm.errors import ConfigError

DPI: Final = 110


def _pyplot() -> Any:
    """
    Import matplotlib with a backend that needs no display.

    :raises ConfigError: with the command that installs it
    """
    try:
        import matplotlib
        matplotlib.use('Agg')
        import matplotlib.pyplot as pyplot
    except ImportError as error:
        raise ConfigError(
            f'plots need matplotlib ({error}): pip install matplotlib') from error
    return pyplot


def require_matplotlib() -> None:
    """
    See that pictures can be drawn, without importing anything yet.

    :raises ConfigError: with the command that installs what is missing
    """
    if find_spec('matplotlib') is None:
        raise ConfigError('plots need matplotlib: pip install matplotlib')


def draw_png(
    draw: Callable[[Any, Any], None],
    *,
    num_columns: int = 1,
    size: tuple[float, float] = (4.2, 3.8),
    dpi: int = DPI,
) -> bytes:
    """
    Return what ``draw`` paints as one PNG.

    :param draw: gets matplotlib's figure and the axes, shape (num_columns,)
    :param size: width and height of one column [inch]
    :raises ConfigError: if matplotlib is not installed
    """
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(
        1, num_columns, figsize=(size[0] * num_columns, size[1]), squeeze=False)
    draw(figure, axes[0])
    # Labels of one column would reach into the next.
    figure.tight_layout()
    buffer = io.BytesIO()
    figure.savefig(buffer, format='png', dpi=dpi, bbox_inches='tight',
                   metadata={'Software': None})
    pyplot.close(figure)
    return buffer.getvalue()
