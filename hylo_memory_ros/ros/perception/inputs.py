"""Perception subscribers (inputs and localization): queued as bytes, decoded by the writer.

Threads: the executor's receives, the writer's takes.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from geometry_msgs.msg import PoseWithCovarianceStamped
from rclpy.callback_groups import CallbackGroup
from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
from rclpy.node import Node

from hylo_memory_ros.errors import ConfigurationError, InvalidRequestError
from hylo_memory_ros.model import normalize_frame
from hylo_memory_ros.perception import InputSettings, LandmarkPipeline
from hylo_memory_ros.perception.ingestion.decoders import DECODERS, UnusableMessageError
from hylo_memory_ros.ros import qos
from hylo_memory_ros.ros.convert.fields import stamp_ns
from hylo_memory_ros.ros.open_memory import StampWatch

logger = logging.getLogger(__name__)


def message_type(source: InputSettings) -> Any:
    """Return the class of an input's messages, or None where it is not installed and optional.

    Raises
    ------
    ConfigurationError
        If no decoder reads this type, or its package is missing and not optional.
    """
    name, wanted = source.name, source.type
    if wanted not in DECODERS:
        raise ConfigurationError(
            f'input.{name}.type: {wanted!r} is none of {", ".join(sorted(DECODERS))}',
            parameter=f'input.{name}.type',
        )
    package, _, kind = wanted.split('/')
    try:
        return getattr(importlib.import_module(f'{package}.msg'), kind)
    except (ImportError, AttributeError) as exc:
        if source.optional:
            logger.warning('input %s is skipped: %s is not installed (%s)', name, wanted, exc)
            return None
        raise ConfigurationError(
            f'input.{name}.type: {wanted!r} is not installed ({exc}); install {package}, or set '
            f'input.{name}.optional',
            parameter=f'input.{name}.type',
        ) from exc


class Input:
    """Subscription of one input, and its queue of undecoded messages.

    Parameters
    ----------
    node : Node
        Owner of the subscription.
    source : InputSettings
        Its settings.
    kind : type
        Class of its messages.
    arrived : callable
        Called after a message was received, in the executor's thread.
    horizon_ns : callable
        Stamp from which on transforms are kept at this time, nanoseconds.
    watch : StampWatch
        Checks the stamps.
    group : CallbackGroup
        Group of the subscription.
    """

    def __init__(
        self,
        node: Node,
        source: InputSettings,
        kind: Any,
        arrived: Callable[[], None],
        horizon_ns: Callable[[], int],
        watch: StampWatch,
        group: CallbackGroup,
    ) -> None:
        self.name = source.name
        self.received = 0
        """Messages received since the node was configured."""
        self.incompatible = ''
        """Policy in which a publisher is incompatible; empty: all match."""
        self._node, self._source, self._kind, self._arrived, self._group = node, source, kind, arrived, group
        self._watch, self._horizon_ns = watch, horizon_ns
        self._read = DECODERS[source.type]()
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._taking_ns: int | None = None
        # Each counter is written by one thread only: the executor's, then the two of the writer's.
        self._dropped = 0
        self._noted = 0
        self._refused = 0
        self._subscription: Any = None

    def start(self) -> None:
        """Subscribe."""
        if self._subscription is None:
            self._subscription = self._subscribed(
                SubscriptionEventCallbacks(message_lost=self._lost, incompatible_qos=self._mismatched)
            )

    def stop(self) -> None:
        """Unsubscribe; received messages stay. Safe to repeat."""
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)
            self._subscription = None

    def drain(self, pipeline: LandmarkPipeline, most: int) -> int:
        """Decode and offer queued messages; return how many.

        Parameters
        ----------
        pipeline : LandmarkPipeline
            Takes the messages, and counts dropped and refused ones.
        most : int
            Messages to take, at most, so that writes do not wait for a burst.
        """
        if (dropped := self._dropped) > self._noted:
            pipeline.note_dropped(self.name, dropped - self._noted)
            self._noted = dropped
        for taken in range(most):
            message = self._pop()
            if message is None:
                return taken
            self._offer(pipeline, message)
        return most

    def needed_ns(self) -> int | None:
        """Return the stamp from which on transforms were kept when the oldest message came that still waits.

        None: no message waits to be offered to the pipeline.
        """
        with self._lock:
            return self._waiting[0][0] if self._taking_ns is None and self._waiting else self._taking_ns

    def _pop(self) -> bytes | None:
        """Return the next message, which counts as waiting until the next call."""
        with self._lock:
            if not self._waiting:
                self._taking_ns = None
                return None
            self._taking_ns, message = self._waiting.popleft()
            return message

    def _offer(self, pipeline: LandmarkPipeline, message: bytes) -> None:
        try:
            read = self._read(message, self.name)
        except ValueError as exc:
            reason = exc.reason if isinstance(exc, UnusableMessageError) else 'malformed'
            pipeline.note_refused(self.name, reason)
            self._refused += 1
            # A faulty sender mostly stays so: the first, second, fourth, eighth... message is logged.
            if self._refused & (self._refused - 1) == 0:
                text = 'input %s: refused a message (%s), %d so far: %s'
                logger.warning(text, self.name, reason, self._refused, exc)
            return
        for reason, count in read.refused.items():
            pipeline.note_refused(self.name, reason, count)
        for one in read.messages:
            self._watch.check(one.stamp_ns, f'input {self.name}')
            pipeline.offer(one)

    def _subscribed(self, events: SubscriptionEventCallbacks) -> Any:
        settings = self._source
        profile = qos.detections(settings.reliability, settings.depth, settings.durability)
        try:
            return self._node.create_subscription(
                self._kind, settings.topic, self._take, profile,
                callback_group=self._group, event_callbacks=events, raw=True,
            )  # fmt: skip
        except UnsupportedEventTypeError:
            # Then messages lost by the middleware cannot be counted.
            return self._node.create_subscription(
                self._kind, settings.topic, self._take, profile, callback_group=self._group, raw=True
            )

    def _take(self, message: bytes) -> None:
        self.received += 1
        with self._lock:
            if len(self._waiting) >= self._source.depth:
                self._waiting.popleft()
                self._dropped += 1
            self._waiting.append((self._horizon_ns(), message))
        self._arrived()

    def _lost(self, info: Any) -> None:
        self._dropped += int(info.total_count_change)
        self._arrived()

    def _mismatched(self, info: Any) -> None:
        self.incompatible = str(info.last_policy_kind)
        logger.warning(
            "input %s: a publisher on %s does not match its quality of service (%s): "
            'input.%s.reliability, input.%s.durability',
            self.name, self._source.topic, self.incompatible, self.name, self.name,
        )  # fmt: skip


DEPTH = 10


class LocalizationTopic:
    """Subscription to the robot's pose, for its covariance.

    Parameters
    ----------
    node : Node
        Owner of the subscriptions.
    topic : str
        Where ``geometry_msgs/PoseWithCovarianceStamped`` is published.
    global_frame : str
        Reports in another frame are ignored.
    receive : callable
        Takes a stamp in nanoseconds and 36 numbers.
    group : CallbackGroup
        Group of the subscription.
    """

    def __init__(
        self,
        node: Node,
        topic: str,
        global_frame: str,
        receive: Callable[[int, Sequence[float]], None],
        group: CallbackGroup,
    ) -> None:
        self._node, self._global_frame, self._receive = node, global_frame, receive
        self.refused = 0
        """Reports without a valid stamp, or in another frame."""
        # Nav2 latches the pose and publishes it only when the robot moves; others do not latch it, and a
        # latched subscription receives nothing from them.
        self._subscriptions = [
            node.create_subscription(
                PoseWithCovarianceStamped, topic, self._take, profile, callback_group=group
            )
            for profile in (
                qos.detections('reliable', DEPTH, 'transient_local'),
                qos.detections('best_effort', DEPTH),
            )
        ]

    def close(self) -> None:
        """Unsubscribe; safe to repeat."""
        while self._subscriptions:
            self._node.destroy_subscription(self._subscriptions.pop())

    def _take(self, message: PoseWithCovarianceStamped) -> None:
        try:
            at_ns = stamp_ns(message.header.stamp, 'header.stamp')
            frame_id = normalize_frame(message.header.frame_id)
        except (InvalidRequestError, ValueError):
            at_ns, frame_id = None, ''
        if at_ns is None or frame_id != self._global_frame:
            if not self.refused:
                logger.warning(
                    'localization: ignored a pose in %r: its stamp is invalid or it is not in %r',
                    message.header.frame_id,
                    self._global_frame,
                )
            self.refused += 1
            return
        self._receive(at_ns, message.pose.covariance.tolist())
