"""
The same timer as the node's stall probe, in a process that does nothing else.

``ros_idle.py RATE_HZ`` ticks until its standard input ends, then writes
``{"max_s": …, "p99_s": …, "num": …}``: how late a timer comes on this machine whatever it does.
"""

import json
import math
import sys
from threading import Thread
import time

import numpy as np
import rclpy
from robot_llm.core.stall import StallMeter


def main() -> None:
    """Tick until somebody closes the standard input."""
    rclpy.init()
    node = rclpy.create_node('idle')
    rate_hz = float(sys.argv[1])
    meter, delays_s = StallMeter(rate_hz), []
    node.create_timer(1.0 / rate_hz, lambda: delays_s.append(meter.tick(time.monotonic())))
    reader = Thread(target=sys.stdin.read, daemon=True)
    reader.start()
    print('ticks', flush=True)
    while reader.is_alive():
        rclpy.spin_once(node, timeout_sec=0.1)
    print(json.dumps({'max_s': max(delays_s, default=math.nan),
                      'p99_s': float(np.percentile(delays_s, 99)) if delays_s else math.nan,
                      'num': len(delays_s)}), flush=True)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == '__main__':
    main()
