"""What an input says is gone: its own things, by the names that it gives them."""

from __future__ import annotations

import numpy as np

from hylo_memory_ros.landmarks.absence_receipt import deletion_receipt
from hylo_memory_ros.landmarks.association import Ending, Outcome
from hylo_memory_ros.landmarks.book import LandmarkBook
from hylo_memory_ros.landmarks.columns import NEVER
from hylo_memory_ros.landmarks.observation import Message, digest32

__all__ = ['delete']


def delete(message: Message, book: LandmarkBook) -> Outcome:
    """Let go what a message says is gone; return the items that end with it.

    Only things that this input has begun, and named, are concerned; those that are pinned or held
    stay. What is added again later begins anew under its name.

    Parameters
    ----------
    message : Message
        One with a `Deletion`.
    book : LandmarkBook
        The landmarks of the current map.
    """
    deletion = message.deletion
    assert deletion is not None
    state = book.state[: len(book.keys)]
    own = state['live'] & state['has_instance'] & (state['forgotten_ns'] == NEVER)
    own &= (state['source'] == digest32(message.input.encode())) & ~state['pinned'] & ~state['held']
    # What was seen later than it was said to be gone is there.
    own &= state['last_ns'] <= message.stamp_ns
    gone = sorted(
        (row for row in np.flatnonzero(own).tolist() if deletion.covers(book.keys[row])),
        key=book.keys.__getitem__,
    )
    receipts = [deletion_receipt(message, gone, book)] if gone else []
    endings = []
    for row in gone:
        written_ns = int(state['written_ns'][row])
        if written_ns != NEVER:
            endings.append(
                Ending(book.keys[row], max(message.stamp_ns, written_ns), f'deleted by {message.input}')
            )
        book.forget(row, message.stamp_ns)
    return Outcome(np.zeros(0, dtype=np.int64), (), endings, receipts)
