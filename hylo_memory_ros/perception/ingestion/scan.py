"""One message as association sees it: sound detections, in the global frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.transforms import Transform

__all__ = ['Scan']

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """The detections of one message that passed the screening, column by column."""

    input: str
    """Name of the input."""
    stamp_ns: int
    """When they were made, nanoseconds."""
    digest: int
    """Digest of the message."""
    size: int
    """Detections in the message, refused ones included."""
    gate_m: float
    """Largest distance to a landmark, metres."""
    hit_ratio: float
    """Least share of its chances in which a thing is seen before it is confirmed."""
    global_from_sensor: Transform
    """Where the message's frame was."""
    global_from_base: Transform
    """Where the base of the robot was; where tf does not know it, the message's frame."""
    indices: NDArray[np.int64]
    """Index in the message, ascending, shape (m,)."""
    labels: Sequence[str]
    """Label of each."""
    instances: Sequence[str]
    """Key that the input gives each; empty: none."""
    positions: Array
    """Metres, x y z, in the global frame, shape (m, 3)."""
    covariances: Array
    """Of the positions, m^2, xx xy xz yy yz zz, axes of the global frame, shape (m, 6)."""
    orientations: Array
    """Unit quaternions x y z w, from the thing's axes to the global frame, shape (m, 4); NaN: unknown."""
    axis: int | None
    """The only axis of things whose direction means something; None: all do, where there is any."""
    extents: Array
    """Box sizes, metres, shape (m, 3); NaN: unknown."""
    scores: Array
    """0 to 1, shape (m,); 1 where the input has none."""
    dof: int = 3
    """Degrees of freedom of a position: 2 when everything lies in the plane z = 0 of the message's frame."""

    def __len__(self) -> int:
        return len(self.indices)
