"""The command line `hylo-memory`: asks a memory file, also one that a running node writes.

Everything is read without the file's lock; nothing here changes a memory.
"""

from __future__ import annotations

from hylo_memory_ros.cli.application import main

__all__ = ['main']
