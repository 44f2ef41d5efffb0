"""The lifecycle services of a node, as a lifecycle manager calls them."""

from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from ros_node import TIMEOUT_S
from ros_planner import Planner

UNCONFIGURED, INACTIVE, ACTIVE, FINALIZED = (
    State.PRIMARY_STATE_UNCONFIGURED, State.PRIMARY_STATE_INACTIVE, State.PRIMARY_STATE_ACTIVE,
    State.PRIMARY_STATE_FINALIZED)


class Lifecycle:
    """
    A lifecycle manager.

    :param planner: whose node and spin thread are used
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        name = planner.node_process.name
        node = planner.node
        self._change = node.create_client(ChangeState, f'{name}/change_state')
        self._get = node.create_client(GetState, f'{name}/get_state')
        self._set = node.create_client(SetParameters, f'{name}/set_parameters')

    @property
    def state(self) -> int:
        """The primary state the node is in."""
        return int(self._planner.call(self._get, GetState.Request()).current_state.id)

    def _transition(self, number: int) -> bool:
        return bool(self._planner.call(
            self._change, ChangeState.Request(transition=Transition(id=number))).success)

    def start_configure(self) -> None:
        """Ask for the model to be loaded; returns at once."""
        assert self._change.wait_for_service(TIMEOUT_S)
        self._change.call_async(ChangeState.Request(
            transition=Transition(id=Transition.TRANSITION_CONFIGURE)))

    def configure(self) -> bool:
        """Load the model; whether that succeeded."""
        return self._transition(Transition.TRANSITION_CONFIGURE)

    def activate(self) -> bool:
        """Accept goals; whether that succeeded."""
        return self._transition(Transition.TRANSITION_ACTIVATE)

    def deactivate(self) -> bool:
        """Stop goals; whether that succeeded."""
        return self._transition(Transition.TRANSITION_DEACTIVATE)

    def cleanup(self) -> bool:
        """Free the model; whether that succeeded."""
        return self._transition(Transition.TRANSITION_CLEANUP)

    def shutdown(self) -> bool:
        """End the node's life, from whatever state it is in; whether that succeeded."""
        return self._transition({
            UNCONFIGURED: Transition.TRANSITION_UNCONFIGURED_SHUTDOWN,
            INACTIVE: Transition.TRANSITION_INACTIVE_SHUTDOWN,
            ACTIVE: Transition.TRANSITION_ACTIVE_SHUTDOWN}[self.state])

    def set_text(self, name: str, text: str) -> str:
        """Set a string parameter; '' if that succeeded, else the node's reason."""
        value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=text)
        result, = self._planner.call(self._set, SetParameters.Request(
            parameters=[Parameter(name=name, value=value)])).results
        return '' if result.successful else str(result.reason)
