"""A planner in one file: what the robot sees becomes goals, fresh decisions become motion."""

import uuid

from geometry_msgs.msg import Twist
import rclpy
from rclpy.action import ActionClient
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.time import Time
from robot_llm_msgs.action import Generate
from robot_llm_msgs.msg import Decision, Scene
from std_msgs.msg import String
from unique_identifier_msgs.msg import UUID

SPEED_MPS = {'continue': 1.0, 'slow': 0.3, 'stop': 0.0}


class Planner(Node):
    def __init__(self):
        super().__init__('planner')
        # A decision moves the robot for max_age_s; ask_s is how long the model may think.
        self.max_age = Duration(seconds=self.declare_parameter('max_age_s', 2.0).value)
        self.ask = Duration(seconds=self.declare_parameter('ask_s', 1.0).value)
        self.epoch, self.seen, self.goal, self.handle, self.decision = 0, '', None, None, None
        self.seen_at = self.asked_at = Time(clock_type=self.get_clock().clock_type)
        self.actions = ActionClient(self, Generate, 'robot_llm/generate')
        self.scenes = self.create_publisher(Scene, 'robot_llm/scene', 1)
        self.motor = self.create_publisher(Twist, 'cmd_vel', 1)
        self.create_subscription(Decision, 'robot_llm/decision', self.on_decision, 10)
        self.create_subscription(String, 'seen', self.on_seen, 1)
        self.create_timer(0.1, self.tick)
