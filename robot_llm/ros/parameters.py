"""The declared parameters on a ROS node: declare, read into ``Settings``, guard changes."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ament_index_python.packages import get_package_share_directory, PackageNotFoundError
from rcl_interfaces.msg import (
    FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult,
)
from rclpy.exceptions import InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter
from robot_llm.errors import ConfigError
from robot_llm.parameter_spec import ParameterSpec
from robot_llm.settings import all_specs, Settings, StatusSettings


def declare_parameters(node: Node) -> None:
    """
    Declare every parameter; call once, in the node's constructor.

    Nothing is refused here: a wrong override waits for ``read_settings``, which names all
    problems at once, where rclpy would raise at the first.
    """
    for spec in all_specs():
        node.declare_parameter(spec.name, spec.default, _descriptor(spec, with_range=False))
        # With the range in the first descriptor, an override out of range would raise above.
        with suppress(InvalidParameterValueException):
            node.set_descriptor(spec.name, _descriptor(spec, with_range=True))


def read_settings(node: Node) -> Settings:
    """
    Return what the parameters say now; call at configure.

    :raises ConfigError: if a value is wrong, or an override names no parameter of this node
    """
    values = {spec.name: node.get_parameter(spec.name).value for spec in all_specs()}
    return Settings.from_flat({**_undeclared_overrides(node), **values})


def status_lease_s(node: Node) -> float:
    """
    Return ``status.lease_s`` for the publisher that is older than any configure.

    A wrong value is reported at configure; until then the default holds.
    """
    name = 'status.lease_s'
    try:
        return Settings.from_flat({name: node.get_parameter(name).value}).status.lease_s
    except ConfigError:
        return StatusSettings().lease_s


def guard_changes(
    node: Node, in_use: Callable[[], Settings | None], apply: Callable[[Settings], None],
) -> None:
    """
    Check every change of a parameter; call after ``declare_parameters``.

    Before configure anything may be set. While the settings are in use the live ones may change,
    all together or not at all, and the others are refused with the remedy.

    :param in_use: the settings that were read at configure; None before and after
    :param apply: takes the changed settings over
    """
    specs = {spec.name: spec for spec in all_specs()}

    def on_set(parameters: list[Parameter]) -> SetParametersResult:
        changes = {p.name: p for p in parameters if p.name in specs}
        # Dynamic typing lets `ros2 param delete` undeclare a parameter.
        for name, parameter in changes.items():
            if parameter.type_ == Parameter.Type.NOT_SET:
                return _refusal(f'{name} cannot be deleted; set it to its default')
        settings = in_use()
        if settings is None or not changes:
            return SetParametersResult(successful=True)
        for name in changes:
            if not specs[name].is_live:
                return _refusal(
                    f'{name} needs a new configure: deactivate and clean up the node first')
        try:
            apply(settings.with_changes({n: p.value for n, p in changes.items()}))
        except ConfigError as error:
            return _refusal(str(error))
        return SetParametersResult(successful=True)

    node.add_on_set_parameters_callback(on_set)


def _refusal(reason: str) -> SetParametersResult:
    return SetParametersResult(successful=False, reason=reason)


def profiles_folder(settings: Settings) -> Path:
    """Return the folder of the profile files: the user's, or the one this package ships."""
    if settings.profiles.folder:
        return Path(settings.profiles.folder).expanduser()
    return shipped_folder('profiles')


def shipped_folder(name: str) -> Path:
    """Return a folder of ``config``: as installed, or the checkout's."""
    try:
        share = Path(get_package_share_directory('robot_llm'))
    except PackageNotFoundError:  # run from a checkout that is not installed
        share = Path(__file__).parents[2]
    return share / 'config' / name


def _descriptor(spec: ParameterSpec, *, with_range: bool) -> ParameterDescriptor:
    descriptor = ParameterDescriptor(
        description=spec.description,
        additional_constraints=spec.range_text,
        # rclpy refuses `temperature: 0` for a double; Settings.from_flat converts it.
        dynamic_typing=True)
    # ROS has closed ranges only; a range without an upper limit stays in the text.
    if with_range and spec.ge is not None and spec.le is not None:
        if spec.value_type is int:
            descriptor.integer_range = [
                IntegerRange(from_value=int(spec.ge), to_value=int(spec.le), step=1)]
        else:
            descriptor.floating_point_range = [
                FloatingPointRange(from_value=spec.ge, to_value=spec.le)]
    return descriptor


def _undeclared_overrides(node: Node) -> dict[str, object]:
    # rclpy has no public way to see an override that nobody declared; the attribute has had
    # this name from Foxy to Rolling. Declaring all overrides automatically would hide the typo.
    return {
        name: parameter.value for name, parameter in node._parameter_overrides.items()
        if not node.has_parameter(name) and not name.startswith('qos_overrides.')}
