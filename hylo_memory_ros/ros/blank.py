"""Messages that are only sent, made without what a generated constructor does.

A constructor builds every nested message even where one is given, and imports their modules
each time: an item took 80 microseconds, ten hits longer than the query that found them.
"""

from __future__ import annotations

from typing import Any

__all__ = ['Blank']


class Blank:
    """Makes messages of one type with every field at its default.

    Parameters
    ----------
    kind : type
        The message's class.

    Notes
    -----
    The defaults are shared: assign to fields, but never change a nested message or a list in
    place.
    """

    def __init__(self, kind: Any) -> None:
        default = kind()
        self._make = kind.__new__
        self._kind = kind
        self._fields = [(getattr(kind, slot).__set__, getattr(default, slot)) for slot in kind.__slots__]

    def __call__(self) -> Any:
        """Return a message."""
        msg = self._make(self._kind)
        for put, value in self._fields:
            put(msg, value)
        return msg
