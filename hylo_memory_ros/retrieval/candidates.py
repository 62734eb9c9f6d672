"""What matches a question, as columns: version rows, and what each source measured of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ['MEASURED', 'Floats', 'Matches', 'Rows']

MEASURED = ('distance_m', 'text', 'vector', 'valid_from_ns', 'confidence', 'helpfulness')
"""Columns that sources fill."""

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Matches:
    """Version rows with what is known of each; a column that no source has filled is None."""

    rows: Rows
    """Version rows, shape (n,)."""
    distance_m: Floats | None = None
    """Metres from the centre, equal to `math.dist` to the bit."""
    text: Floats | None = None
    """b = -bm25, higher is better."""
    vector: Floats | None = None
    """Score of the similarity to the vector asked about, 0 to 1; see `index.vectors.metric`."""
    valid_from_ns: Rows | None = None
    """When each became true."""
    confidence: Floats | None = None
    """How sure its producer is."""
    helpfulness: Floats | None = None
    """Score of how far each has helped, 0 to 1."""
    sorted: bool = False
    """Whether the rows come newest ``valid_from`` first, then by id."""
    lower_bound: bool = False
    """Whether more match than are here."""

    def __len__(self) -> int:
        return len(self.rows)

    def taken(self, index: NDArray[np.intp], **columns: object) -> Matches:
        """Return some of the rows in the order of an index, with columns set as given."""
        names = ('rows', *MEASURED)
        kept = {name: None if (part := getattr(self, name)) is None else part[index] for name in names}
        return replace(self, **{**kept, 'sorted': False, **columns})  # type: ignore[arg-type]
