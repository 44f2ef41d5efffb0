"""One goal from another process: the decision first, then the stream, then the whole result."""

import json

from action_msgs.msg import GoalStatus
import pytest
from robot_llm.core.decision import DecisionSource
from robot_llm.core.request import FinishReason
from robot_llm.core.session import TokenKind
from robot_llm.errors import ErrorCode
from robot_llm.profile_file import load_profiles
from ros_node import NodeProcess
from ros_planner import Planner, reasons
from test_config_files import ROOT

SUCCEEDED = GoalStatus.STATUS_SUCCEEDED
