"""The table of docs/contract.md, pair by pair, on both executors and on a single CPU."""

from collections.abc import Iterator

from contract_table import Pair, pairs
import pytest
from ros_contract import Stand
from ros_contract_case import check_result, check_stream


@pytest.fixture(
    scope='module', params=[
        ('single_threaded', False), ('multi_threaded', False), ('single_threaded', True)],
    ids=['single_threaded', 'multi_threaded', 'one_cpu'])
def stand(request: pytest.FixtureRequest, ros_domain: int) -> Iterator[Stand]:
    executor, has_one_cpu = request.param
    stand = Stand(executor, has_one_cpu=has_one_cpu)
    yield stand
    stand.close()
    stopped = sorted(filter(None, stand.idle_ms))
    if stopped:
        print(f'{len(stopped)} stops, engine idle after {stopped[len(stopped) // 2]:.1f} ms in '
              f'the median, {stopped[-1]:.1f} ms at most')


@pytest.mark.parametrize('pair', list(pairs()), ids=str)
def test_a_goal_ends_as_the_contract_says(stand: Stand, pair: Pair) -> None:
    case = stand.play(pair)
    print(stand.node.log)  # pytest shows it where the test failed
    check_result(pair, case)
    check_stream(stand.planner, case.goal)
    planner = stand.planner
    stand.serve_next(pair)
    if stand.planner is planner:  # another node has another one
        check_stream(planner, case.goal)
