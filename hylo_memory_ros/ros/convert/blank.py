"""Messages that are only sent, made without what a generated constructor does.

A constructor builds every nested message even where one is given, and imports their modules
each time: making ten hits took longer than finding them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ['maker']


def maker(kind: Any, *given: str, **otherwise: Any) -> Callable[..., Any]:
    """Return a function that makes messages of a type.

    Parameters
    ----------
    kind : type
        The message's class.
    *given : str
        Fields whose values the function takes, in this order.
    **otherwise : Any
        What differs from the type's own defaults in the other fields.

    Notes
    -----
    The other fields are shared by all messages: assign to them, but never change a nested message
    or a list in place.
    """
    default = kind(**otherwise)
    known = {'kind__': kind, 'new__': kind.__new__}
    lines = [f'def make({", ".join(given)}):', ' msg = new__(kind__)']
    for slot in kind.__slots__:
        field = slot.removeprefix('_')
        if field not in given:
            known[slot] = getattr(default, slot)
        lines.append(f' msg.{slot} = {field if field in given else slot}')
    # As dataclasses do it: a loop over the fields takes six times as long.
    exec('\n'.join([*lines, ' return msg']), known)  # noqa: S102 - all of it is named by the class
    make: Callable[..., Any] = known['make']
    return make
