"""What needs the cold file: decided from the main file alone, so that what does not never opens it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.store.cold.mark import Mark
from hylo_memory_ros.store.filtering import Asked

__all__ = ['Reached', 'asked_of', 'everything', 'given', 'nothing', 'past_of']

Reached = Callable[[sa.Connection, Mark], bool]
"""Whether something needs the cold file, given the main file and what that knows of the cold one."""


def everything(_hot: sa.Connection, _mark: Mark) -> bool:
    """Reach for whatever there is."""
    return True


def nothing(_hot: sa.Connection, _mark: Mark) -> bool:
    """Reach for the main file alone."""
    return False


def given(_hot: sa.Connection, mark: Mark) -> bool:
    """Reach for ids that were given: computed ones are of what is said, and no other has them."""
    return mark.any_given


def asked_of(asked: Asked) -> Reached:
    """Reach for the cold file where a question can have a match there."""

    def reached(hot: sa.Connection, mark: Mark) -> bool:
        if not mark.reaches(asked):
            return False
        keys = asked.query.all_keys
        return not keys or asked.query.depth > 1 or _any_cooled(hot, keys)

    return reached


def past_of(key: str | None) -> Reached:
    """Reach for the cold file where the history of a key, or of an id, goes back to it."""
    return lambda hot, _: key is None or _any_cooled(hot, [key])


def _any_cooled(hot: sa.Connection, keys: Sequence[str]) -> bool:
    """Return whether anything of these keys is cold."""
    raw: Any = hot.connection.dbapi_connection
    return raw.execute(_ANY_COOLED, (json.dumps(list(keys)),)).fetchone() is not None


_ANY_COOLED = """
    SELECT 1 FROM identity AS i JOIN cooled AS c ON c.identity_id = i.identity_id
    WHERE i.key IN (SELECT value FROM json_each(?)) LIMIT 1
"""
