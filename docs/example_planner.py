"""A planner in one file: what the robot sees becomes goals, fresh decisions become motion."""
import signal
import uuid

from geometry_msgs.msg import Twist, Vector3
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

SPEED_MPS = {'continue': 1.0, 'slow': 0.3}  # stop, and every word we do not know: 0


class Planner(Node):

    def __init__(self):
        super().__init__('planner')
        self.max_age_s = self.declare_parameter('max_age_s', 2.0).value
        self.ask_s = self.declare_parameter('ask_s', 1.0).value  # longer than a decision takes
        self.epoch = int(self.now_s() * 1e3)  # rises over a restart too
        self.seen, self.seen_s, self.asked_s = '', 0.0, 0.0
        self.goal_id, self.goal_handle, self.decision = b'', None, None
        self.actions = ActionClient(self, Generate, 'robot_llm/generate')
        self.scenes = self.create_publisher(Scene, 'robot_llm/scene', 1)
        self.motor = self.create_publisher(Twist, 'cmd_vel', 1)
        self.create_subscription(Decision, 'robot_llm/decision', self.on_decision, 10)
        self.create_subscription(String, 'seen', self.on_seen, 1)
        self.create_timer(0.1, self.tick)

    def now_s(self):
        return self.get_clock().now().nanoseconds * 1e-9

    def on_seen(self, message):  # comes again and again, changed or not
        self.seen_s = self.now_s()
        if message.data != self.seen:  # another world: no old word is true in it
            self.seen, self.decision = message.data, None
            self.ask()

    def ask(self):
        self.cancel()
        if not (self.actions.server_is_ready() and self.scenes.get_subscription_count()):
            return  # no node yet; tick tries again
        self.asked_s, self.goal_id, self.epoch = self.now_s(), uuid.uuid4().bytes, self.epoch + 1
        self.scenes.publish(Scene(epoch=self.epoch, description=self.seen))
        self.actions.send_goal_async(Generate.Goal(
            prompt='May the robot drive on?', scene_epoch=self.epoch,
            decision_deadline=Duration(seconds=self.ask_s).to_msg(),
            client=self.get_fully_qualified_name(),
        ), goal_uuid=UUID(uuid=list(self.goal_id))).add_done_callback(self.on_answered)

    def on_answered(self, future):  # what was refused is asked again by tick
        handle = future.result()
        if bytes(handle.goal_id.uuid) == self.goal_id:
            self.goal_handle = handle if handle.accepted else None
        elif handle.accepted:  # the world was faster than the answer
            handle.cancel_goal_async()

    def cancel(self):  # frees the engine; harmless when the goal has ended
        if self.goal_handle is not None:
            self.goal_handle.cancel_goal_async()
        self.goal_id, self.goal_handle = b'', None

    def on_decision(self, decision):
        if bytes(decision.goal_id.uuid) == self.goal_id and decision.scene_epoch == self.epoch:
            self.decision = decision  # a second one of the same goal takes the first one back

    def tick(self):
        if self.now_s() - self.seen_s > self.max_age_s:  # blind: nothing to ask about
            self.seen, self.decision = '', None
            self.cancel()
        elif self.now_s() - self.asked_s > self.ask_s:
            self.ask()
        is_fresh = self.decision is not None and 0 <= self.now_s() - Time.from_msg(
            self.decision.stamp).nanoseconds * 1e-9 <= self.max_age_s
        self.drive(SPEED_MPS.get(self.decision.word, 0.0) if is_fresh else 0.0)

    def drive(self, speed_mps):
        self.motor.publish(Twist(linear=Vector3(x=speed_mps)))


def main():
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    planner, ends = Planner(), []
    for number in (signal.SIGINT, signal.SIGTERM):  # noted, not raised in the middle of rclpy
        signal.signal(number, lambda *_: ends.append(True))
    while not ends:
        rclpy.spin_once(planner, timeout_sec=0.1)
    planner.cancel()
    planner.drive(0.0)
    planner.motor.wait_for_all_acked(Duration(seconds=1))
    planner.destroy_node()
    rclpy.shutdown()


if __name__ == '__main__':
    main()
