"""Scope condition for statements of SQL that are written out."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hylo_memory_ros.storage.statements.mapper import paired

__all__ = ['ANY_SCOPE', 'IN_SCOPE', 'scope_values']

IN_SCOPE = """
    (:map_id IS NULL OR {row}.map_id = :map_id) AND NOT EXISTS (
        SELECT 1 FROM json_each(:pairs) AS pair WHERE NOT EXISTS (
            SELECT 1 FROM tag AS t
            WHERE t.field = 'scope' AND t.value = pair.value AND t.assertion_id = {row}.assertion_id
        )
    )
"""
"""SQL: whether a row of `assertion` was said in the scope that `scope_values` gives."""

ANY_SCOPE = "(:map_id IS NULL AND :pairs = '[]')"
"""SQL: whether `IN_SCOPE` is so for every row."""


def scope_values(scope: Mapping[str, str] | None) -> dict[str, str | None]:
    """Return what `IN_SCOPE` asks for; None: any scope."""
    pairs = [paired(*pair) for pair in sorted((scope or {}).items()) if pair[0] != 'map_id']
    return {'map_id': (scope or {}).get('map_id'), 'pairs': json.dumps(pairs)}
