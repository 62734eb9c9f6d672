"""Two landmarks that are one: what becomes of either."""

from __future__ import annotations

from dataclasses import dataclass

from hylo_memory_ros.landmarks.book import LandmarkBook
from hylo_memory_ros.landmarks.columns import NEVER
from hylo_memory_ros.landmarks.fusion import refuse
from hylo_memory_ros.landmarks.settings import LandmarkSettings

__all__ = ['Ending', 'join']


@dataclass(frozen=True, slots=True)
class Ending:
    """The item of a landmark that holds no longer."""

    key: str
    """Key of the landmark."""
    at_ns: int
    """Since when, nanoseconds."""
    reason: str
    """Why, such as ``merged into cup/6e71a7b059ab``."""
    merged_into: str = ''
    """Key of the landmark that it proved to be; empty: none."""


def join(gone: int, kept: int, at_ns: int, book: LandmarkBook, settings: LandmarkSettings) -> Ending | None:
    """Make one landmark of two; return the ending of the item that is no longer wanted, if any.

    Parameters
    ----------
    gone, kept : int
        Rows of the younger one, and of the one that it is from now on.
    at_ns : int
        Stamp of the message that proved it, or of the request.
    """
    state = book.state
    for label, score in book.scores[gone].items():
        book.scores[kept][label] = book.scores[kept].get(label, 0.0) + score
    for name, choose in (('first_ns', min), ('last_ns', max), ('since_ns', min)):
        state[name][kept] = choose(int(state[name][kept]), int(state[name][gone]))
    state['observations'][kept] += state['observations'][gone]
    book.merge(gone, kept, at_ns)
    if not (state['pinned'][kept] or state['held'][kept]):
        refuse(kept, book, settings)
    if state['written_ns'][gone] == NEVER:
        return None
    key = book.keys[kept]
    return Ending(book.keys[gone], max(at_ns, int(state['written_ns'][gone])), f'merged into {key}', key)
