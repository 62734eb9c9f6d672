"""Where a statement's tables are: a question may follow what leads from one file to the other."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import MetaData, Table

from hylo_memory_ros.store import schema

__all__ = ['HERE', 'HOT', 'MAIN', 'Home', 'homes']

HOT = 'hot'
"""What the main file is called by a connection to a cold file."""


class Home(NamedTuple):
    """The tables of one file that tell what was said."""

    version: Table
    assertion: Table
    tag: Table
    corrected: Table


HERE = Home(schema.version, schema.assertion, schema.tag, schema.corrected)
"""The file that a connection is to."""
_metadata = MetaData()
MAIN = Home(*(table.to_metadata(_metadata, schema=HOT) for table in HERE))
"""The main file, for a connection to a cold file."""


def homes(cold: bool) -> tuple[Home, ...]:
    """Return every file that a connection reads."""
    return (HERE, MAIN) if cold else (HERE,)
