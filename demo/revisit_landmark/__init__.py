"""A robot that must reach a target which it sees only from nearby: what a memory is worth."""

from __future__ import annotations
