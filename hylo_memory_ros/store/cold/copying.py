"""A copy holds everything in one file: what is cold is brought back in it."""

# ruff: noqa: S608 - SQL of our own tables
from __future__ import annotations

import sqlite3
from pathlib import Path

from hylo_memory_ros.errors import StoreBusyError
from hylo_memory_ros.store.cold.file import state_of
from hylo_memory_ros.store.cold.mark import mark_in
from hylo_memory_ros.store.cold.schema import STAMPED, moved_tables, places_of
from hylo_memory_ros.store.connection import uri_of

__all__ = ['complete']


def complete(copy: sqlite3.Connection, path: Path) -> None:
    """Bring what is cold back in a copy of a main file.

    Parameters
    ----------
    copy : sqlite3.Connection
        The copy, without a transaction.
    path : Path
        The cold file of what was copied.

    Raises
    ------
    StoreBusyError
        Something came back from the cold file since the copy was made.
    """
    mark = mark_in(copy)
    if mark is None:
        return
    copy.execute('ATTACH ? AS cold', (uri_of(path, 'ro'),))
    try:
        copy.execute('BEGIN')
        if state_of(copy, 'cold').returns > mark.returns:
            raise StoreBusyError(
                f'cold file {path}: something came back from it while it was copied; '
                'the call may be repeated',
                path=str(path),
            )
        for table in moved_tables:
            columns = ', '.join(table.columns.keys())
            copy.execute(
                f'INSERT OR IGNORE INTO main.{table.name} ({columns}) '
                f'SELECT {columns} FROM cold.{table.name} AS said WHERE {_WHERE[table.name]}'
            )
        copy.execute('DELETE FROM main.cooled')
        copy.execute("DELETE FROM main.state WHERE name = 'cold'")
        copy.execute('COMMIT')
    finally:
        if copy.in_transaction:
            copy.execute('ROLLBACK')
        copy.execute('DETACH cold')


_IS_COLD = '(SELECT before_ns FROM main.cooled AS c WHERE c.identity_id = {row}.identity_id)'
# Of repetitions, what stayed is in the copy already, and is ignored.
_ASSERTIONS = f"""
    SELECT assertion_id FROM cold.assertion AS a WHERE a.valid_from_ns < {_IS_COLD.format(row='a')}
    OR a.valid_from_ns <= (SELECT repeats_ns FROM main.cooled AS c WHERE c.identity_id = a.identity_id)
"""
_WHERE = dict.fromkeys((table.name for table in moved_tables), f'said.assertion_id IN ({_ASSERTIONS})') | {
    name: f'said.{stamp} < {_IS_COLD.format(row="said")}' for name, stamp in STAMPED.items()
}
_WHERE['assertion'] = f'said.assertion_id IN ({_ASSERTIONS})'
_WHERE['spatial'] = f'said.spatial_id IN ({places_of("cold.", f"assertion_id IN ({_ASSERTIONS})")})'
