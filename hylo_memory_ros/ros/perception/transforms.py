"""Sources of transforms: the topics `tf` and `tf_static`, stored by tf2 or by the built-in buffer.

Both names are relative, so that a namespaced robot has its own; a launch file remaps them. The
messages are read from their bytes: that is many times cheaper than Python messages, and bytes that
are no TFMessage are counted instead of raised in the executor.

Threads: the executor's delivers messages; any may look transforms up. Nothing waits:
`hylo_memory_ros.transforms.PendingLookups` repeats lookups. After a clock jump the node finishes its pending
work, then calls `clear`.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from geometry_msgs.msg import TransformStamped
from rclpy.callback_groups import CallbackGroup
from rclpy.duration import Duration
from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.time import Time
from tf2_msgs.msg import TFMessage

from hylo_memory_ros.perception.ingestion.decoders.geometry import decode_transforms
from hylo_memory_ros.ros import qos
from hylo_memory_ros.transforms import TransformBuffer, TransformSource
from hylo_memory_ros.transforms.buffer import DEFAULT_RETENTION_S, RigidTransform
from hylo_memory_ros.transforms.frame_tree import HELD, RawTransform


class NodeTransforms(TransformSource, Protocol):
    """A source of transforms that listens on behalf of a node."""

    incompatible: str
    """Policy in which a publisher of tf is incompatible; empty: all match."""

    def take(self, message: bytes, *, static: bool) -> None:
        """Take one TFMessage in its serialized form, as if it had come over a topic."""
        ...

    @property
    def horizon_ns(self) -> int:
        """Stamp before which transforms need not be kept now, nanoseconds."""
        ...

    def retain(self, needed_ns: Callable[[], int | None]) -> Callable[[], None]:
        """Keep what waiting work needs, though newer transforms arrive; return a function that ends this."""
        ...

    def close(self) -> None:
        """Unsubscribe; safe to repeat. Lookups still use the stored transforms."""
        ...


class StandInTransformSource(TransformBuffer):
    """Built-in buffer, fed by the topics `tf` and `tf_static` of a node.

    Parameters
    ----------
    node : rclpy.node.Node
        Its namespace and remappings give the topics their full names.
    keep_s : float
        How long transforms are kept, seconds.
    callback_group : CallbackGroup, optional
        For both subscriptions; the node's default group otherwise.
    """

    _keep_poses = True

    def __init__(
        self, node: Node, *, keep_s: float = DEFAULT_RETENTION_S, callback_group: CallbackGroup | None = None
    ) -> None:
        super().__init__(keep_s, keep_poses=self._keep_poses)
        self._node = node
        self._malformed: Counter[str] = Counter()
        self.incompatible = ''
        """Policy in which a publisher of tf is incompatible; empty: all match."""
        self._group = callback_group
        # A latched subscription receives nothing from a publisher that does not latch, so there are two.
        self._subscriptions = [
            self._subscribe('tf', qos.TF, self._mismatched, static=False),
            self._subscribe('tf_static', qos.TF_STATIC, lambda _: None, static=True),
            self._subscribe('tf_static', qos.TF_STATIC_VOLATILE, lambda _: None, static=True),
        ]
        self._tree.origin = ' and '.join(sorted({one.topic_name for one in self._subscriptions}))

    def _subscribe(
        self, topic: str, profile: QoSProfile, mismatched: Callable[[Any], None], *, static: bool
    ) -> Any:
        def create(events: SubscriptionEventCallbacks) -> Any:
            return self._node.create_subscription(
                TFMessage, topic, lambda message: self.take(message, static=static), profile,
                callback_group=self._group, event_callbacks=events, raw=True,
            )  # fmt: skip

        try:
            return create(SubscriptionEventCallbacks(incompatible_qos=mismatched))
        except UnsupportedEventTypeError:
            return create(SubscriptionEventCallbacks(use_default_callbacks=False))

    def _mismatched(self, info: Any) -> None:
        self.incompatible = str(info.last_policy_kind)
        self._node.get_logger().warning(
            f'tf: a publisher on {self._subscriptions[0].topic_name} does not match the quality of service '
            f'of tf2 listeners ({self.incompatible}), and is not heard: it must be reliable'
        )

    @property
    def refused(self) -> Mapping[str, int]:
        """Transforms that were not taken, by reason; ``malformed`` counts messages."""
        return self._malformed + Counter(super().refused)

    def take(self, message: bytes, *, static: bool) -> None:
        """Take one TFMessage in its serialized form, as if it had come over a topic."""
        try:
            transforms = decode_transforms(message)
        except ValueError as exc:
            self._malformed['malformed'] += 1
            self._node.get_logger().warning(f'dropped a tf message: {exc}', throttle_duration_sec=10.0)
            return
        self.set_transforms(transforms, static=static)

    def close(self) -> None:
        """Unsubscribe; safe to repeat. Lookups still use the stored transforms."""
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._subscriptions.clear()


class Tf2TransformSource(StandInTransformSource):
    """tf2's own buffer behind the same interface; parameters as for `StandInTransformSource`.

    The numbers are tf2's. What the base class keeps beside them is stamps only, to count and to
    name refusals, and to hold what waiting messages need: tf2's Python face does not report which transforms
    it refused, distinguishes past, future and no data apart only in its texts, and drops by age alone.

    It is `BufferCore` and not `tf2_ros.Buffer`, which adds to it a service that outlives a lifecycle
    cleanup, calls that sleep, and a callback on clock jumps that raises in some Jazzy releases
    (ros2/geometry2#710).

    Raises
    ------
    ImportError
        If tf2 is not installed.
    """

    _keep_poses = False

    def __init__(
        self, node: Node, *, keep_s: float = DEFAULT_RETENTION_S, callback_group: CallbackGroup | None = None
    ) -> None:
        # Untyped, and absent where ROS comes as wheels.
        tf2: Any = importlib.import_module('tf2_py')
        self._failure: type[Exception] = tf2.TransformException
        self._core = tf2.BufferCore(Duration(nanoseconds=round(HELD * keep_s * 1e9)))
        self._message = TransformStamped()
        super().__init__(node, keep_s=keep_s, callback_group=callback_group)

    def _taken(self, transform: RawTransform, static: bool) -> None:
        # One message serves all: tf2 copies what it is given, and a new one would cost more than tf2.
        message = self._message
        message.header.frame_id, message.child_frame_id = transform.parent, transform.child
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(transform.stamp_ns, 10**9)
        offset, rotation = message.transform.translation, message.transform.rotation
        offset.x, offset.y, offset.z = transform.translation
        rotation.x, rotation.y, rotation.z, rotation.w = transform.rotation
        (self._core.set_transform_static if static else self._core.set_transform)(message, 'tf')

    def _cleared(self) -> None:
        self._core.clear()

    def _join(self, target: str, source: str, stamp_ns: int) -> RigidTransform | None:
        # tf2 holds more than was promised, so that the tree of stamps decides what is still kept.
        if super()._join(target, source, stamp_ns) is None:
            return None
        try:
            found = self._core.lookup_transform_core(target, source, Time(nanoseconds=stamp_ns)).transform
        except self._failure:
            return None
        offset, rotation = found.translation, found.rotation
        return (offset.x, offset.y, offset.z), (rotation.x, rotation.y, rotation.z, rotation.w)


def transform_source(
    node: Node,
    *,
    keep_s: float = DEFAULT_RETENTION_S,
    callback_group: CallbackGroup | None = None,
    kind: Literal['auto', 'tf2', 'stand_in'] = 'auto',
) -> NodeTransforms:
    """Return the source of transforms on this machine: tf2 where it is installed.

    Build one per process, with the node, and `close` it with the node.

    Parameters
    ----------
    node, keep_s, callback_group
        As for `StandInTransformSource`.
    kind : {'auto', 'tf2', 'stand_in'}
        What to use; ``auto`` takes the stand-in only where tf2 cannot be imported.

    Raises
    ------
    ImportError
        If `kind` is ``tf2`` and it is not installed.
    """
    if kind != 'stand_in':
        try:
            return Tf2TransformSource(node, keep_s=keep_s, callback_group=callback_group)
        except ImportError as exc:
            if kind == 'tf2':
                raise
            node.get_logger().info(
                f'tf2 is not installed ({exc}); transforms are kept by the built-in buffer'
            )
    return StandInTransformSource(node, keep_s=keep_s, callback_group=callback_group)
