"""The real rclpy: what reaches the settings from an override, and what is refused."""

from pathlib import Path

from ament_index_python.packages import PackageNotFoundError
import pytest
import rclpy
from rclpy.context import Context
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.parameter import Parameter
from robot_llm.errors import ConfigError
from robot_llm.ros import parameters
from robot_llm.settings import all_specs, Settings, StatusSettings

pytestmark = pytest.mark.ros

CONFIG = Path(__file__).parents[2] / 'config'


@pytest.fixture
def make_node():
    """Return a maker of nodes with command line arguments; all are destroyed at the end."""
    opened = []

    def make(*ros_args, node_class=Node):
        context = Context()
        rclpy.init(args=['--ros-args', *ros_args], context=context)
        node = node_class('robot_llm', context=context)
        opened.append((node, context))
        parameters.declare_parameters(node)
        return node

    yield make
    for node, context in reversed(opened):
        node.destroy_node()
        rclpy.shutdown(context=context)


def overrides(**values):
    return [part for name, value in values.items()
            for part in ('-p', f'{name.replace("__", ".")}:={value}')]


def problems_of(node):
    with pytest.raises(ConfigError) as caught:
        parameters.read_settings(node)
    return caught.value.problems


@pytest.mark.parametrize('node_class', [Node, LifecycleNode])
def test_a_node_without_overrides_has_the_default_settings(make_node, node_class):
    assert parameters.read_settings(make_node(node_class=node_class)) == Settings()


def test_the_shipped_parameter_file_gives_the_default_settings(make_node):
    node = make_node('--params-file', str(CONFIG / 'robot_llm.yaml'))
    assert set(node._parameter_overrides) >= {spec.name for spec in all_specs()}
    assert parameters.read_settings(node) == Settings()


def test_every_parameter_is_described_with_its_range(make_node):
    node = make_node()
    for spec in all_specs():
        descriptor = node.describe_parameter(spec.name)
        assert descriptor.description == spec.description
        assert descriptor.additional_constraints == spec.range_text
        ranges = [*descriptor.integer_range, *descriptor.floating_point_range]
        expected = [] if spec.le is None else [(spec.ge, spec.le)]
        assert [(item.from_value, item.to_value) for item in ranges] == expected, spec.name


def test_an_integer_override_reaches_a_float(make_node):
    settings = parameters.read_settings(make_node(*overrides(sampling__temperature='1')))
    assert settings.sampling.temperature == 1.0


def test_all_wrong_overrides_are_named_at_once_at_configure(make_node):
    node = make_node(*overrides(
        sampling__top_k='-3', sampling__temprature='0.5', status__rate_hz='fast',
        model__flash_attn='on', model__n_ctx='0', stop='[a, b]'))
    problems = problems_of(node)
    assert sorted(problem.partition(' ')[0] for problem in problems) == [
        'model.flash_attn=True', 'model.n_ctx=0', 'sampling.temprature=0.5',
        'sampling.top_k=-3', "status.rate_hz='fast'", "stop=['a',"]
    text = '\n'.join(problems)
    assert 'sampling.top_k=-3 is below the limit 0; choose 0 to 1000' in text
    assert 'did you mean sampling.temperature?' in text
    assert 'is a boolean, not a string; put it in quotes' in text


def test_overrides_that_ros_itself_declares_are_not_ours_to_refuse(make_node):
    node = make_node(*overrides(use_sim_time='true', **{
        'qos_overrides./clock.subscription.depth': '2'}))
    assert parameters.read_settings(node) == Settings()


def test_a_list_where_a_number_is_needed_is_refused_by_name(make_node):
    problem, = problems_of(make_node(*overrides(sampling__top_k='[1, 2]')))
    assert problem.startswith('sampling.top_k is ')
    assert 'not an integer; write a whole number' in problem


def test_before_configure_any_parameter_may_change(make_node):
    node = make_node()
    parameters.guard_changes(node, lambda: None, pytest.fail)
    result, = node.set_parameters([Parameter('model.n_ctx', value=512)])
    assert result.successful
    assert parameters.read_settings(node).model.n_ctx == 512


def test_while_in_use_a_live_parameter_is_applied(make_node):
    node, applied = make_node(), []
    parameters.guard_changes(node, Settings, applied.append)
    result, = node.set_parameters([Parameter('sampling.top_k', value=8)])
    assert result.successful
    assert [settings.sampling.top_k for settings in applied] == [8]


def test_while_in_use_the_others_need_a_new_configure(make_node):
    node = make_node()
    parameters.guard_changes(node, Settings, pytest.fail)
    result, = node.set_parameters([Parameter('model.n_ctx', value=512)])
    assert not result.successful
    assert result.reason == (
        'model.n_ctx needs a new configure: deactivate and clean up the node first')
    assert parameters.read_settings(node) == Settings()


def test_a_live_change_that_breaks_a_relation_is_refused_whole(make_node):
    node = make_node()
    parameters.guard_changes(node, Settings, pytest.fail)
    result = node.set_parameters_atomically([
        Parameter('sampling.top_k', value=8), Parameter('limits.max_tokens', value=2000)])
    assert not result.successful
    assert 'topics.token_depth=1024 is below limits.max_tokens + 2 = 2002' in result.reason
    assert parameters.read_settings(node) == Settings()


def test_a_parameter_out_of_range_is_refused_when_set_and_names_the_range(make_node):
    node = make_node()
    result, = node.set_parameters([Parameter('sampling.top_k', value=-1)])
    assert not result.successful
    assert 'sampling.top_k' in result.reason


def test_a_parameter_cannot_be_deleted(make_node):
    node = make_node()
    parameters.guard_changes(node, lambda: None, pytest.fail)
    result, = node.set_parameters([Parameter('sampling.top_k', Parameter.Type.NOT_SET)])
    assert not result.successful
    assert result.reason == 'sampling.top_k cannot be deleted; set it to its default'
    assert parameters.read_settings(node) == Settings()


def test_parameters_of_others_are_not_refused_while_configured(make_node):
    node = make_node()
    parameters.guard_changes(node, Settings, pytest.fail)
    node.declare_parameter('other', 1)
    result, = node.set_parameters([Parameter('other', value=2)])
    assert result.successful


def test_the_profile_folder_is_the_given_one_or_the_shipped_one(monkeypatch, tmp_path):
    monkeypatch.setenv('HOME', str(tmp_path))
    given = Settings.from_flat({'profiles.folder': '~/mine'})
    assert parameters.profiles_folder(given) == tmp_path / 'mine'
    assert (parameters.profiles_folder(Settings()) / 'drive.yaml').is_file()


def test_a_checkout_that_is_not_installed_uses_its_own_profiles(monkeypatch):
    def not_installed(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(parameters, 'get_package_share_directory', not_installed)
    assert parameters.profiles_folder(Settings()) == CONFIG / 'profiles'


@pytest.mark.parametrize(('value', 'lease_s'), [
    ('0.5', 0.5), ('1', 1.0), ('1.0e12', 3.0), ('0.0', 3.0), ('.nan', 3.0), ('true', 3.0)])
def test_a_lease_that_cannot_be_used_waits_for_the_configure(make_node, value, lease_s):
    """The publisher of the status is older than any configure: it ended the process."""
    node = make_node(*overrides(status__lease_s=value))
    assert parameters.status_lease_s(node) == lease_s
    if lease_s == StatusSettings().lease_s:
        assert [problem for problem in problems_of(node) if 'status.lease_s' in problem]
