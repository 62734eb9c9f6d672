"""Lifecycle node `hylo_memory`, and its bond with a lifecycle manager."""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
from collections.abc import Callable
from typing import Any

from lifecycle_msgs.msg import State
from rclpy.clock import JumpThreshold, TimeJump
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.node import Node

from hylo_memory_ros.errors import ConfigurationError, HyloMemoryError
from hylo_memory_ros.ros.log_bridge import UNTHROTTLED, bridged
from hylo_memory_ros.ros.parameters import Parameters
from hylo_memory_ros.ros.perception.transforms import transform_source
from hylo_memory_ros.ros.rclpy_compat import answer_impossible_transitions, lifecycle_state
from hylo_memory_ros.ros.runtime.request_guard import RequestGuard
from hylo_memory_ros.ros.services.servers import Servers
from hylo_memory_ros.ros.session import Session

logger = logging.getLogger(__name__)

# As in Nav2's own nodes.
TOPIC = 'bond'
HEARTBEAT_PERIOD_S = 0.1
HEARTBEAT_TIMEOUT_S = 4.0


class _BondNode:
    """The node as bondpy sees it, with repairs.

    bondpy destroys its publisher and subscription without telling the node, whose executor then fails at
    every turn; and it declares the same parameter at every heartbeat timeout, which fails at the second one.
    """

    def __init__(self, node: Node) -> None:
        self._node = node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def create_publisher(self, *args: Any) -> _Entity:
        """Create a publisher that the node destroys."""
        return _Entity(self._node.create_publisher(*args), self._node.destroy_publisher)

    def create_subscription(self, *args: Any) -> _Entity:
        """Create a subscription that the node destroys."""
        return _Entity(self._node.create_subscription(*args), self._node.destroy_subscription)

    def declare_parameter(self, name: str, value: Any) -> None:
        """Declare a parameter unless it is declared."""
        if not self._node.has_parameter(name):
            self._node.declare_parameter(name, value)


class _Entity:
    """A publisher or subscription with its own way to be destroyed."""

    def __init__(self, entity: Any, destroy: Callable[[Any], object]) -> None:
        self._entity, self._destroy = entity, destroy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entity, name)

    def destroy(self) -> None:
        """Destroy it through the node."""
        self._destroy(self._entity)


class Bond:
    """Bond that proves to a manager that this node is alive, from activate to deactivate.

    Parameters
    ----------
    node : Node
        Its name is the name of the bond.
    enabled : bool
        Whether to form a bond.
    """

    def __init__(self, node: Node, enabled: bool) -> None:
        self._node = node
        self._enabled = enabled
        self._bond: Any = None

    def start(self) -> None:
        """Form the bond; without bondpy nothing happens."""
        if not self._enabled or self._bond is not None:
            return
        try:
            bondpy: Any = importlib.import_module('bondpy.bondpy')
        except ImportError as exc:
            logger.debug('no bond is formed: %s', exc)
            return
        # Its parameters changed their order while bondpy was ported to ROS 2; their names differ in one.
        names = inspect.signature(bondpy.Bond).parameters
        named = {'bond_id' if 'bond_id' in names else 'id': self._node.get_name()}
        bond = bondpy.Bond(topic=TOPIC, node=_BondNode(self._node), **named)
        bond.heartbeat_period = HEARTBEAT_PERIOD_S
        bond.heartbeat_timeout = HEARTBEAT_TIMEOUT_S
        bond.start()
        self._bond = bond

    def stop(self) -> None:
        """Break the bond; a manager notices at once. Safe to repeat."""
        if self._bond is not None:
            bond, self._bond = self._bond, None
            bond.shutdown()


ANSWER = {UNTHROTTLED: True}
Transition = Callable[[Any], None]


def guarded(transition: Transition) -> Callable[[Any, LifecycleState], TransitionCallbackReturn]:
    """Wrap a transition so that it never raises: an error is logged, and the transition fails."""

    @functools.wraps(transition)
    def callback(self: Any, _: LifecycleState) -> TransitionCallbackReturn:
        name = transition.__name__.removeprefix('on_')
        try:
            transition(self)
        except HyloMemoryError as exc:
            # Its message is complete without a traceback.
            logger.error('%s failed: %s%s', name, exc, self.recovery_of(name), extra=ANSWER)  # noqa: TRY400
            logger.debug('%s failed', name, exc_info=exc)
            return TransitionCallbackReturn.FAILURE
        except Exception:
            logger.exception('%s failed', name, extra=ANSWER)
            return TransitionCallbackReturn.FAILURE
        return TransitionCallbackReturn.SUCCESS

    return callback


class MemoryNode(LifecycleNode):
    """The lifecycle node of one memory.

    Parameters
    ----------
    stopping : callable
        Whether the process is to end.
    **options : Any
        For `rclpy.node.Node`: context, namespace, parameter overrides.
    """

    def __init__(self, *, stopping: Callable[[], bool] = lambda: False, **options: Any) -> None:
        super().__init__('hylo_memory', **options)
        self._unbridge = bridged(self.get_logger())
        self._stopping = stopping
        self._session: Session | None = None
        self._guard = RequestGuard()
        self._servers = Servers(self, self._guard)
        self.parameters = Parameters(self)
        self._transforms = transform_source(self, keep_s=self._startup_value('tf_buffer_s', 30.0))
        self._bond = Bond(self, False)
        self._jump_back_ns = round(self._startup_value('clock_jump_back_s', 1.0) * 1e9)
        self._furthest_ns = 0
        self._jumps = self.get_clock().create_jump_callback(
            JumpThreshold(min_forward=None, min_backward=Duration(nanoseconds=-1), on_clock_change=False),
            post_callback=self._on_jump,
        )
        answer_impossible_transitions(self)

    @property
    def autostart(self) -> bool:
        """True if the process configures and activates the node itself."""
        return bool(self._startup_value('autostart', False))

    @property
    def finalized(self) -> bool:
        """True if the node was shut down."""
        return lifecycle_state(self)[0] == int(State.PRIMARY_STATE_FINALIZED)

    def recovery_of(self, failed: str) -> str:
        """Return how to recover from a failed transition, where no manager will try again."""
        if failed != 'configure' or not self.autostart:
            return ''
        name = self.get_fully_qualified_name()
        return (
            f'; fix it (ros2 param set {name} ...), then: ros2 lifecycle set {name} configure, '
            f'ros2 lifecycle set {name} activate'
        )

    @guarded
    def on_configure(self) -> None:
        """Open the memory that the parameters name; a failure leaves nothing open."""
        config = self.parameters.read()
        self._session = Session(self, config, self._transforms, self._guard, self._stopping)
        try:
            self._servers.offer(self._session.handlers(), config.service_introspection)
        except BaseException:
            self._close()
            raise
        self._bond = Bond(self, config.bond_enabled)
        self.parameters.in_use = True
        logger.info('configured: %s, sequence %d', config.database_path, self._session.memory.sequence)

    @guarded
    def on_activate(self) -> None:
        """Subscribe to the inputs and answer requests; a failure leaves the node inactive."""
        if self._session is None:
            raise ConfigurationError('the node is not configured')
        try:
            self._session.activate()
            self._bond.start()
        except BaseException:
            self._deactivate()
            raise
        logger.info('active')

    @guarded
    def on_deactivate(self) -> None:
        """Unsubscribe and refuse requests; a step that fails is logged, and the others follow."""
        self._deactivate()

    @guarded
    def on_cleanup(self) -> None:
        """Close; safe to repeat."""
        self._close()

    @guarded
    def on_shutdown(self) -> None:
        """Close for good; safe to repeat."""
        self._close(final=True)

    @guarded
    def on_error(self) -> None:
        """Close, so that a later configure works."""
        self._close()

    def end(self) -> None:
        """Close everything before the process ends; safe to repeat."""
        self._close(linger=False, final=True)
        self._step(self._servers.close)
        self._step(self._jumps.unregister)
        self._step(self._transforms.close)
        self._unbridge()

    def _deactivate(self) -> None:
        self._step(self._bond.stop)
        if self._session is not None:
            self._step(self._session.deactivate)

    def _close(self, *, linger: bool = True, final: bool = False) -> None:
        self._deactivate()
        if self._session is not None:
            session, self._session = self._session, None
            if final:
                self._step(session.finish)
            self._step(session.close)
        self._step(lambda: self._servers.withdraw(linger=linger))
        self.parameters.in_use = False

    def _step(self, step: Callable[[], None]) -> None:
        """Do one step of closing; a failure is logged, and the next step follows."""
        try:
            step()
        except Exception:
            logger.exception('closing goes on after a failure')

    def _on_jump(self, jump: TimeJump) -> None:
        now_ns = self.get_clock().now().nanoseconds
        # Not from the last step alone, so that many small ones are noticed as well.
        self._furthest_ns = max(self._furthest_ns, now_ns - jump.delta.nanoseconds)
        back_ns = self._furthest_ns - now_ns
        if back_ns < self._jump_back_ns:
            logger.debug('the clock went back by %.6f s', back_ns / 1e9)
            return
        self._furthest_ns = now_ns
        logger.warning('the clock jumped back by %.3f s', back_ns / 1e9)
        if self._session is not None:
            self._step(self._session.on_clock_jump)
        else:
            self._transforms.clear()

    def _startup_value(self, name: str, otherwise: Any) -> Any:
        try:
            return self.parameters.value(name)
        except ConfigurationError:
            return otherwise  # configure will fail and name the reason
