"""How old a message is by this machine's clock, and what that says of the two clocks."""

from typing import Final

from builtin_interfaces.msg import Time

MAX_CLOCK_OFFSET_S: Final = 0.5
"""Half of the lifespan that ``~/decision`` has by default; a decision takes milliseconds."""


def stamp_s(stamp: Time) -> float:
    """Return a stamp in seconds."""
    return float(stamp.sec) + stamp.nanosec * 1e-9


def clock_problem(age_s: float) -> str:
    """
    Return why the clocks of the node and of this machine must differ; empty if they need not.

    :param age_s: of a message that has just come, below 0 if it seems to come from the future [s]
    """
    if abs(age_s) <= MAX_CLOCK_OFFSET_S:
        return ''
    return (f'the decision is {age_s:+.1f} s old by the clock of this machine; synchronise it '
            "with the node's (chrony): a lifespan on ~/decision compares the two. In a "
            'simulation stamps are of its time')
