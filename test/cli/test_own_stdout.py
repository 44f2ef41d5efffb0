"""Who reads a program's standard output finds what the program has printed, and nothing else."""

import subprocess
import sys

PROGRAM = """
import os
import subprocess
from robot_llm.cli.own_stdout import own_stdout

print('before')
own_stdout()
os.write(1, b'a library\\n')
subprocess.run(['echo', 'a child'], check=True)
print('{"ok": "gr\u00fc\u00dfe"}')
"""


def test_libraries_and_children_write_to_standard_error() -> None:
    done = subprocess.run(
        [sys.executable, '-X', 'utf8', '-c', PROGRAM], capture_output=True, check=True)
    assert done.stdout.decode() == 'before\n{"ok": "gr\u00fc\u00dfe"}\n'
    assert done.stderr == b'a library\na child\n'
