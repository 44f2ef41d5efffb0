"""Standard output that holds what the program prints, and nothing that a library prints."""

import os
import sys


def own_stdout() -> None:
    """
    Keep standard output for ``print``; call it first in a program whose output others read.

    Fast DDS writes its errors to file descriptor 1, in the middle of a JSON object too. From now
    on they go to standard error, as does what a child process writes that inherits the descriptor.
    """
    sys.stdout.flush()
    sys.stdout = os.fdopen(
        os.dup(1), 'w', encoding=sys.stdout.encoding, errors=sys.stdout.errors)
    os.dup2(2, 1)
