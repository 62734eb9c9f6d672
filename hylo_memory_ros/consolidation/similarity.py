"""Near duplicates by vectors: who is as good as the same as one that came shortly before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ['Alike']

# Who came long before is no near duplicate of now; it also bounds what one comparison costs.
_LOOKS_BACK = 256


class Alike:
    """Gives statements the number of the earlier one that they are alike to, by cosine.

    Parameters
    ----------
    vectors : mapping of int to sequence of float
        By the number of the statement; who has none is alike to nobody.
    least : float
        Cosine from which on two are alike.
    """

    def __init__(self, vectors: Mapping[int, Sequence[float]], least: float) -> None:
        self._vectors = vectors
        self._least = least

    def leaders(self, numbers: Sequence[int]) -> dict[int, int]:
        """Return who speaks for each statement: itself, or an earlier one that speaks for itself.

        Parameters
        ----------
        numbers : sequence of int
            In order of world time.
        """
        leaders: dict[int, int] = {}
        heads: list[int] = []
        rows: NDArray[np.float32] | None = None
        for number in numbers:
            vector = self._unit(number)
            leaders[number] = number
            if vector is None:
                continue
            if rows is None:
                rows = np.empty((_LOOKS_BACK, len(vector)), np.float32)
            near = rows[: min(len(heads), _LOOKS_BACK)] @ vector
            best = int(near.argmax()) if len(near) else -1
            if best >= 0 and near[best] >= self._least:
                leaders[number] = heads[self._head_at(best, len(heads))]
                continue
            rows[len(heads) % _LOOKS_BACK] = vector
            heads.append(number)
        return leaders

    @staticmethod
    def _head_at(place: int, count: int) -> int:
        """Return which head stands in a row of the ring."""
        turn = (count - 1 - place) // _LOOKS_BACK
        return place + turn * _LOOKS_BACK

    def _unit(self, number: int) -> NDArray[np.float32] | None:
        vector = self._vectors.get(number)
        if vector is None:
            return None
        found = np.asarray(vector, np.float32)
        unit: NDArray[np.float32] = found / np.linalg.norm(found)
        return unit
