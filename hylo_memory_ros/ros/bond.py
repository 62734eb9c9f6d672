"""Bond with a lifecycle manager, where bondpy is installed (Nav2 expects one)."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from rclpy.node import Node

__all__ = ['Bond']

logger = logging.getLogger(__name__)

# As in Nav2's own nodes.
TOPIC = 'bond'
HEARTBEAT_PERIOD_S = 0.1
HEARTBEAT_TIMEOUT_S = 4.0


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
        bond = bondpy.Bond(TOPIC, self._node.get_name(), self._node)
        bond.heartbeat_period = HEARTBEAT_PERIOD_S
        bond.heartbeat_timeout = HEARTBEAT_TIMEOUT_S
        bond.start()
        self._bond = bond

    def stop(self) -> None:
        """Break the bond; a manager notices at once. Safe to repeat."""
        if self._bond is not None:
            bond, self._bond = self._bond, None
            bond.shutdown()
