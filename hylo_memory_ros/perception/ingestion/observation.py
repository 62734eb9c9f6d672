"""Observations: one message, the detections in it as columns, and the validated scan."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.perception.existence.visibility import CameraModel, View
from hylo_memory_ros.transforms import Transform


def digest32(serialized: bytes | bytearray | memoryview) -> int:
    """Return the 32-bit digest that identifies a repeated message.

    Give bytes that depend on the values alone: without encapsulation header and padding. Decoders have
    their own, `CdrCursor.digest`.

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
    """Name of each instance (``tag36h11:5``, ``ns/3``); empty: none."""
    orientations: NDArray[np.float64] | None = None
    """Quaternions x y z w, from its own axes to the message's frame, shape (n, 4); all zeros: unknown."""
    frames: Sequence[str] | None = None
    """Frame in tf that has the pose of each; `positions` and `orientations` are ignored then."""

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
    """Instances that an input reports as gone, by their names (``ns/3``).

    Examples
    --------
    >>> gone = Deletion(namespaces=frozenset({'cups'}), kept=frozenset({'cups/2'}))
    >>> [name for name in ('cups/1', 'cups/2', 'mugs/1') if gone.covers(name)]
    ['cups/1']
    >>> Deletion(namespaces=frozenset({''})).covers('mugs/1')
    True
    """

    names: frozenset[str] = frozenset()
    """Single instances."""
    namespaces: frozenset[str] = frozenset()
    """Namespaces that are gone as a whole; the empty one means all."""
    kept: frozenset[str] = frozenset()
    """Instances that stay nevertheless."""

    def covers(self, name: str) -> bool:
        """Return whether an instance is gone."""
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
    """`digest32` of the message; with input and stamp it identifies a repeated message."""
    detections: Detections
    """Detections; an empty array is a message too."""
    deletion: Deletion | None = None
    """Deleted instances; such a message has no detections and needs no frame."""
    view: View | None = None
    """Visibility data; such a message has no detections."""

    def __post_init__(self) -> None:
        # Decoders with numpy return integers that a database does not accept.
        object.__setattr__(self, 'stamp_ns', int(self.stamp_ns))
        object.__setattr__(self, 'digest', int(self.digest))
        if not 0 <= self.digest < 2**32:
            raise InvalidRequestError(f'digest: {self.digest} does not fit into 32 bits', digest=self.digest)

    @property
    def order(self) -> tuple[int, str, int]:
        """Return the sort key of the message: stamp, input, digest.

        Visibility data come before observations of the same stamp, and a camera before its images.
        """
        rank = {type(None): '', CameraModel: '\0'}.get(type(self.view), '\1')
        return self.stamp_ns, rank + self.input, self.digest

    @property
    def needs_frame(self) -> bool:
        """True if its content depends on its frame."""
        return self.deletion is None and not isinstance(self.view, CameraModel)


Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """Valid detections of one message in the global frame, column by column."""

    input: str
    """Name of the input."""
    stamp_ns: int
    """Stamp of the detections, nanoseconds."""
    digest: int
    """Digest of the message."""
    size: int
    """Detections in the message, refused ones included."""
    gate_m: float
    """Largest distance to a landmark, metres."""
    hit_ratio: float
    """Least share of its chances in which a landmark is seen before it is confirmed."""
    global_from_sensor: Transform
    """Pose of the message's frame."""
    global_from_base: Transform
    """Pose of the base of the robot; where tf does not know it, that of the message's frame."""
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
    """Index of the only meaningful axis of orientations; None: all are meaningful."""
    extents: Array
    """Box sizes, metres, shape (m, 3); NaN: unknown."""
    scores: Array
    """0 to 1, shape (m,); 1 where the input has none."""
    dof: int = 3
    """Degrees of freedom of a position: 2 when everything lies in the plane z = 0 of the message's frame."""

    def __len__(self) -> int:
        return len(self.indices)


class DecodedMessage(NamedTuple):
    """Content of one decoded message of a topic."""

    messages: tuple[Message, ...]
    """Observations, one for each stamp and frame in it."""
    refused: Mapping[str, int]
    """Number of refused parts, by reason."""
