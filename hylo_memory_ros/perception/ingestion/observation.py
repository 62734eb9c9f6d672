"""What perception reports: one message, and the detections in it as columns."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.perception.existence.visibility import CameraModel, View

__all__ = ['Deletion', 'Detections', 'Message', 'digest32']


def digest32(serialized: bytes | bytearray | memoryview) -> int:
    """Return the 32-bit digest by which a message is recognised when it comes again.

    Give the bytes that do not depend on the transport: without encapsulation header and
    without padding behind the last field.

    Examples
    --------
    >>> digest32(b'123456789')
    3421780262
    """
    return zlib.crc32(serialized)


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """The detections of one message, column by column; row `i` is the one with index `i`.

    Columns are taken as they come: what is no position, score or covariance is sorted out,
    and counted, when the message is processed.

    Raises
    ------
    InvalidRequestError
        If the columns are not of one length.

    Examples
    --------
    >>> len(Detections(labels=('cup', 'mug'), positions=np.array([(1.0, 0.0, 0.5), (1.2, 0.0, 0.5)])))
    2
    """

    labels: Sequence[str]
    """Class of each, as in the message; the best one when there are several."""
    positions: NDArray[np.float64]
    """Metres, x y z, in the message's frame, shape (n, 3)."""
    scores: NDArray[np.float64] | None = None
    """Score of each, 0 to 1, shape (n,); None: the input has none."""
    covariances: NDArray[np.float64] | None = None
    """Of the positions, m^2, in the message's frame, shape (n, 3, 3); all zeros, or -1 first: unknown."""
    extents: NDArray[np.float64] | None = None
    """Sizes of the boxes, metres, shape (n, 3); all zeros: unknown."""
    instances: Sequence[str] | None = None
    """Name that tells each from all others of its kind (``tag36h11:5``, ``ns/3``); empty: none."""
    orientations: NDArray[np.float64] | None = None
    """Quaternions x y z w, from its own axes to the message's frame, shape (n, 4); all zeros: unknown."""
    frames: Sequence[str] | None = None
    """Frame in tf that has the pose of each; `positions` and `orientations` say nothing then."""

    def __post_init__(self) -> None:
        count = len(self.labels)
        for name, shape in (
            ('positions', (count, 3)),
            ('scores', (count,)),
            ('covariances', (count, 3, 3)),
            ('extents', (count, 3)),
            ('orientations', (count, 4)),
        ):
            given = getattr(self, name)
            if given is None:
                continue
            column = np.ascontiguousarray(given, dtype=np.float64)
            if column.size == 0 and count == 0:
                column = column.reshape(shape)
            if column.shape != shape:
                raise InvalidRequestError(
                    f'{name}: a column of shape {column.shape}, expected {shape}', shape=column.shape
                )
            object.__setattr__(self, name, column)
        for name in ('instances', 'frames'):
            names = getattr(self, name)
            if names is not None and len(names) != count:
                raise InvalidRequestError(f'{name}: {len(names)} names for {count} detections')

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Deletion:
    """What an input says is there no more, by the names that it gives its things (``ns/3``).

    Examples
    --------
    >>> gone = Deletion(namespaces=frozenset({'cups'}), kept=frozenset({'cups/2'}))
    >>> [name for name in ('cups/1', 'cups/2', 'mugs/1') if gone.covers(name)]
    ['cups/1']
    >>> Deletion(namespaces=frozenset({''})).covers('mugs/1')
    True
    """

    names: frozenset[str] = frozenset()
    """Single things."""
    namespaces: frozenset[str] = frozenset()
    """Namespaces of which everything is gone; the empty one is all of them."""
    kept: frozenset[str] = frozenset()
    """Things that stay all the same."""

    def covers(self, name: str) -> bool:
        """Return whether the thing of this name is gone."""
        if name in self.kept:
            return False
        return name in self.names or '' in self.namespaces or name.rpartition('/')[0] in self.namespaces


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One message of an input, as it was received.

    Raises
    ------
    InvalidRequestError
        If the digest has more than 32 bits.

    Examples
    --------
    >>> Message('trees', 10**9, 'base_link', 7, Detections(('tree',), np.array([(1.0, 2.0, 0.0)]))).order
    (1000000000, 'trees', 7)
    """

    input: str
    """Name of the input."""
    stamp_ns: int
    """When the observations were made, nanoseconds (``header.stamp``)."""
    frame_id: str
    """Frame of the positions (``header.frame_id``)."""
    digest: int
    """`digest32` of the message; with input and stamp it tells a message that comes again."""
    detections: Detections
    """What it reports; an empty array is a message too."""
    deletion: Deletion | None = None
    """What it says is gone; such a message reports nothing, and needs no frame."""
    view: View | None = None
    """What it tells of visibility; such a message reports nothing."""

    def __post_init__(self) -> None:
        # Whoever read them with numpy has integers that a database does not take.
        object.__setattr__(self, 'stamp_ns', int(self.stamp_ns))
        object.__setattr__(self, 'digest', int(self.digest))
        if not 0 <= self.digest < 2**32:
            raise InvalidRequestError(f'digest: {self.digest} does not fit into 32 bits', digest=self.digest)

    @property
    def order(self) -> tuple[int, str, int]:
        """Return the place of the message among all others: stamp, input, digest.

        What tells of visibility comes before what was seen at the same time, and a camera before its
        images.
        """
        rank = {type(None): '', CameraModel: '\0'}.get(type(self.view), '\1')
        return self.stamp_ns, rank + self.input, self.digest

    @property
    def needs_frame(self) -> bool:
        """Whether it says anything of its frame."""
        return self.deletion is None and not isinstance(self.view, CameraModel)
