"""A bag becomes a memory, without a ROS graph."""

from __future__ import annotations

__all__: list[str] = []
