"""
A listener in a process of its own: it writes every stream that it has whole as a line of JSON.

``ros_listener.py NODE NUM_LOST`` subscribes to the tokens of a node, and loses the first ones of
every stream; for those it asks ``~/replay``. A line is
``{"goal": hex, "text": …, "seqs": [0, 1 …], "replayed": how many}``.
"""

from collections import defaultdict
import json
import sys

import rclpy
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from robot_llm.core.session import TokenKind
from robot_llm_msgs.msg import Token
from robot_llm_msgs.srv import Replay


class Listener:
    """Puts streams together from what comes, in whatever pieces."""

    def __init__(self, server: str, num_lost: int) -> None:
        self.node = rclpy.create_node('listener')
        self._num_lost = num_lost
        self._tokens: dict[bytes, dict[int, Token]] = defaultdict(dict)
        self._num_replayed: dict[bytes, int] = defaultdict(int)
        self._written: set[bytes] = set()
        self._replay = self.node.create_client(Replay, f'{server}/replay')
        self.node.create_subscription(Token, f'{server}/tokens', self._add, QoSProfile(
            depth=1024, reliability=ReliabilityPolicy.RELIABLE,
            durability=DurabilityPolicy.TRANSIENT_LOCAL))

    def _add(self, token: Token) -> None:
        goal_id = bytes(token.goal_id.uuid)
        if token.seq < self._num_lost or goal_id in self._written:
            return
        stream = self._tokens[goal_id]
        if not stream:
            print(f'hears {goal_id.hex()}', flush=True)
        stream[token.seq] = token
        if token.kind == TokenKind.END:
            self._complete(goal_id)

    def _complete(self, goal_id: bytes) -> None:
        stream = self._tokens[goal_id]
        missing = next((seq for seq in range(max(stream) + 1) if seq not in stream), None)
        if missing is None:
            self._write(goal_id)
            return
        request = Replay.Request(from_seq=missing)
        request.goal_id.uuid = list(goal_id)
        self._replay.call_async(request).add_done_callback(
            lambda future: self._add_replay(goal_id, future.result()))

    def _add_replay(self, goal_id: bytes, replay: Replay.Response) -> None:
        if replay.lost:
            print(f'lost {goal_id.hex()}', flush=True)
            return
        stream = self._tokens[goal_id]
        for token in replay.tokens:
            self._num_replayed[goal_id] += token.seq not in stream
            stream[token.seq] = token
        self._complete(goal_id)

    def _write(self, goal_id: bytes) -> None:
        self._written.add(goal_id)
        stream = self._tokens.pop(goal_id)
        print(json.dumps({
            'goal': goal_id.hex(), 'seqs': sorted(stream), 'replayed': self._num_replayed[goal_id],
            'text': ''.join(stream[seq].text for seq in sorted(stream))}), flush=True)


def main() -> None:
    """Listen until the process is ended."""
    rclpy.init()
    listener = Listener(sys.argv[1], int(sys.argv[2]))
    print('listens', flush=True)
    rclpy.spin(listener.node)


if __name__ == '__main__':
    main()
