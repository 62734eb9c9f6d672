"""The command line `hylo-memory`: query, check and draw a memory file, also beside a running node.

Everything is read without the file's lock. Only `replay` writes, and only the file that it is given.
"""

from __future__ import annotations

from hylo_memory_ros.cli.app import main

__all__ = ['main']
