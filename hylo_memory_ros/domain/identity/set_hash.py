"""LtHash16: the hash of a set, kept up to date one element at a time.

Each element is expanded with SHAKE-256 to 1024 uint16, which are added to or subtracted
from a state of the same shape modulo 2**16. The order of changes does not matter, and
taking out what was put in gives the state before, bit for bit.
Source: Bellare and Micciancio, "A new paradigm for collision-free hashing", 1997; Lewi,
Kim, Maykov and Weis, "Securing update propagation with homomorphic hashing", 2019.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256, shake_256

import numpy as np
from numpy.typing import NDArray

__all__ = ['EMPTY_STATE', 'SNAPSHOT_FORMAT', 'digest_of_state', 'update_state']

SNAPSHOT_FORMAT = b'hylo-snapshot-1'
WORDS = 1024
EMPTY_STATE = bytes(2 * WORDS)


def update_state(state: bytes, added: Iterable[bytes] = (), removed: Iterable[bytes] = ()) -> bytes:
    """Return the state after elements (digests of 32 bytes) came in and went out.

    Examples
    --------
    >>> one = update_state(EMPTY_STATE, added=[b'a'])
    >>> update_state(one, added=[b'b'], removed=[b'a', b'b']) == EMPTY_STATE
    True
    """
    # Unsigned numbers wrap modulo 2**16, which is the group of the hash.
    words = np.frombuffer(state, dtype='<u2') + _sum(added) - _sum(removed)
    return words.astype('<u2').tobytes()


def _sum(elements: Iterable[bytes]) -> NDArray[np.uint16]:
    # Bounded pieces: a bulk load must not hold 2 KiB for each of a million elements.
    total = np.zeros(WORDS, dtype='<u2')
    batch: list[bytes] = []
    for element in elements:
        batch.append(_expand(element))
        if len(batch) == 1024:
            total += _block_sum(batch)
            batch.clear()
    return total + _block_sum(batch) if batch else total


# One transaction takes the same elements out of several sets.
@lru_cache(maxsize=256)
def _expand(element: bytes) -> bytes:
    return shake_256(element).digest(2 * WORDS)


def _block_sum(batch: list[bytes]) -> NDArray[np.uint16]:
    block = np.frombuffer(b''.join(batch), dtype='<u2').reshape(-1, WORDS)
    summed: NDArray[np.uint16] = block.sum(axis=0, dtype='<u2')
    return summed


def digest_of_state(state: bytes) -> str:
    """Return ``sha256:`` and the hex digest of format version and state."""
    return 'sha256:' + sha256(SNAPSHOT_FORMAT + state).hexdigest()
