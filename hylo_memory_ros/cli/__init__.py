"""Command line `hylo-memory`: query, check and draw a memory file, also beside a running node.

Files are read without their lock; only `replay`, `consolidate` and `revert-consolidation` write a memory.
The entry point calls `main`; nothing else imports this package.
"""

from __future__ import annotations

from hylo_memory_ros.cli.app import main

__all__ = ['main']
