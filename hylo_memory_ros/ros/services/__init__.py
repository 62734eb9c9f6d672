"""Services of the node: one module a group; a decorated method of a class in `HANDLERS` is a service.

"Adding a service" in CONTRIBUTING.md describes the steps; `servers` offers all of them, each behind a
guard.
"""

from __future__ import annotations

from hylo_memory_ros.ros.services.episodes import EpisodeHandlers
from hylo_memory_ros.ros.services.landmarks import LandmarkHandlers
from hylo_memory_ros.ros.services.maintenance import MaintenanceHandlers
from hylo_memory_ros.ros.services.maps import MapHandlers
from hylo_memory_ros.ros.services.query import QueryHandlers
from hylo_memory_ros.ros.services.receipts import FeedbackHandlers, ReceiptHandlers
from hylo_memory_ros.ros.services.registration import service_types
from hylo_memory_ros.ros.services.write import WriteHandlers

__all__ = ['HANDLERS', 'SERVICES']

HANDLERS = (
    QueryHandlers,
    WriteHandlers,
    ReceiptHandlers,
    FeedbackHandlers,
    LandmarkHandlers,
    MapHandlers,
    EpisodeHandlers,
    MaintenanceHandlers,
)
"""Classes whose decorated methods are the services of the node."""

SERVICES = service_types(HANDLERS)
"""Type of each service by its name below ``~/``."""
