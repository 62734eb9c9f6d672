"""A robot that drives in a circle among 100 landmarks and sees them all, 30 times a second.

usage: python -m bench._detections

Publishes `/detections` in base_link and `/tf` until SIGINT, then prints how many messages that
were. They are made once and sent as bytes, so that the sender takes little of the machine.
"""

from __future__ import annotations

import math
import signal
import struct
import time
from collections.abc import Callable

import numpy as np
import rclpy
from geometry_msgs.msg import TransformStamped
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.serialization import serialize_message
from rclpy.signals import SignalHandlerOptions
from tf2_msgs.msg import TFMessage
from vision_msgs.msg import Detection3D, Detection3DArray, ObjectHypothesisWithPose

RATE_HZ = 30
LOOP_S = 10
LANDMARKS = 100
NOISE_M = 0.02
# Stamps are written into the bytes: behind the encapsulation, and there behind the count of transforms.
DETECTIONS_STAMP, TF_STAMP = 4, 8


def scene() -> np.ndarray:
    """Return where the landmarks are in the map, 4 m apart, metres, shape (100, 2)."""
    row = np.arange(10) * 4.0
    return np.stack(np.meshgrid(row, row), -1).reshape(-1, 2)


def pose(part: float) -> tuple[float, float, float]:
    """Return x, y and yaw of the robot at a part of its loop."""
    angle = 2 * math.pi * part
    return 18.0 + 6.0 * math.cos(angle), 18.0 + 6.0 * math.sin(angle), angle + math.pi / 2


def transform(part: float) -> bytes:
    """Return base_link in the map as a message on `/tf`."""
    x, y, yaw = pose(part)
    sent = TransformStamped(child_frame_id='base_link')
    sent.header.frame_id = 'map'
    sent.transform.translation.x, sent.transform.translation.y = x, y
    sent.transform.rotation.z, sent.transform.rotation.w = math.sin(yaw / 2), math.cos(yaw / 2)
    return bytes(serialize_message(TFMessage(transforms=[sent])))


def detections(part: float, rng: np.random.Generator) -> bytes:
    """Return what the robot sees."""
    x, y, yaw = pose(part)
    turned = (scene() - (x, y)) @ np.array([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
    sent = Detection3DArray()
    sent.header.frame_id = 'base_link'
    for ahead, left in (turned + rng.normal(0.0, NOISE_M, turned.shape)).tolist():
        result = ObjectHypothesisWithPose()
        result.hypothesis.class_id, result.hypothesis.score = 'tree', 0.9
        result.pose.pose.position.x, result.pose.pose.position.y = ahead, left
        sent.detections.append(Detection3D(results=[result]))
    return bytes(serialize_message(sent))


def stamped(message: bytes, place: int, stamp_ns: int) -> bytes:
    """Return a message with another stamp."""
    seconds, nanoseconds = divmod(stamp_ns, 10**9)
    return message[:place] + struct.pack('<iI', seconds, nanoseconds) + message[place + 8 :]


def publish(node: Node, stop: Callable[[], bool]) -> int:
    """Publish until told to stop; return how many messages of detections."""
    length = RATE_HZ * LOOP_S
    rng = np.random.default_rng(5)
    # Poses come twice as often as detections, as odometry does.
    poses = [transform(number / length / 2) for number in range(2 * length)]
    seen = [detections(number / length, rng) for number in range(length)]
    found = node.create_publisher(Detection3DArray, 'detections', 10)
    tf = node.create_publisher(TFMessage, 'tf', 100)
    while not (found.get_subscription_count() and tf.get_subscription_count()) and not stop():
        time.sleep(0.05)
    # Publishers become known in order: who acknowledges a message of the last one knows them all.
    tf.publish(stamped(poses[0], TF_STAMP, node.get_clock().now().nanoseconds))
    tf.wait_for_all_acked(Duration(seconds=10))
    start_ns, start_s = node.get_clock().now().nanoseconds, time.monotonic()
    tick = 0
    while not stop():
        time.sleep(max(0.0, start_s + tick / (2 * RATE_HZ) - time.monotonic()))
        stamp_ns = start_ns + tick * 10**9 // (2 * RATE_HZ)
        tf.publish(stamped(poses[tick % len(poses)], TF_STAMP, stamp_ns))
        if tick % 2 == 0:
            found.publish(stamped(seen[tick // 2 % length], DETECTIONS_STAMP, stamp_ns))
        tick += 1
    return (tick + 1) // 2


def main() -> None:
    """Publish until SIGINT."""
    asked: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: asked.append(number))
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    try:
        print(f'sent {publish(rclpy.create_node("robot"), lambda: bool(asked))}', flush=True)
    finally:
        rclpy.try_shutdown()


if __name__ == '__main__':
    main()
