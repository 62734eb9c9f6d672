"""Could a place be seen? Two witnesses: a depth image, and a map of what stands in the way.

A depth image belongs to the moment at which it was made, and is ordered with the observations; a map
holds from its stamp until the next one's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.transforms import Transform

__all__ = [
    'CameraModel',
    'DepthImage',
    'GridView',
    'Sight',
    'Sights',
    'StampedWitness',
    'View',
    'Views',
    'Witness',
]

Array = NDArray[np.float64]
Sights = NDArray[np.int64]

_OCCUPIED = 65
_UNKNOWN = -1
# Half the width of the patch of pixels that is looked at, as a share of the image's width.
_PATCH = 0.004
# Images that nobody asked for any more.
_IMAGES_KEPT = 256


class Sight(IntEnum):
    """What a witness says of a place."""

    UNKNOWN = 0
    """It cannot tell, or something stands before the place."""
    REACHED = 1
    """Nothing stands before it."""
    EMPTY = 2
    """One looks through it: nothing is there."""


class Witness(Protocol):
    """Tells of places whether they could be seen."""

    def sights(self, points: Array, radii: Array, sensor: Array, /) -> Sights:
        """Return a `Sight` for each place.

        Parameters
        ----------
        points : ndarray, shape (n, 3)
            Metres, x y z, in the global frame.
        radii : ndarray, shape (n,)
            How far around a place belongs to what is there, metres.
        sensor : ndarray, shape (3,)
            From where it was looked, metres, in the global frame.
        """
        ...


class StampedWitness(NamedTuple):
    """A witness, and of when it is."""

    stamp_ns: int
    """Stamp of the image or map, nanoseconds."""
    witness: Witness
    """What it tells."""


@dataclass(frozen=True, slots=True)
class CameraModel:
    """A pinhole camera.

    Raises
    ------
    InvalidRequestError
        If it is not calibrated.
    """

    intrinsics: tuple[float, float, float, float]
    """fx, fy, cx, cy, pixels."""
    width: int
    """Columns of its images."""

    def __post_init__(self) -> None:
        fx, fy, cx, cy = self.intrinsics
        if not (fx > 0.0 and fy > 0.0 and np.isfinite(fx + fy + cx + cy) and self.width > 0):
            raise InvalidRequestError(
                f'intrinsics: {self.intrinsics} are not of a calibrated camera', field='intrinsics'
            )


@dataclass(frozen=True, slots=True, eq=False)
class DepthImage:
    """A depth image, perhaps only every so many-th pixel of it.

    Raises
    ------
    InvalidRequestError
        If it is no image.
    """

    depth_m: NDArray[np.float32]
    """Distance along the optical axis, metres, shape (rows, columns); 0, NaN or infinite: unknown."""
    stride: int = 1
    """Of how many pixels of the camera one is kept, in both directions."""
    margin_m: float = 0.1
    """How much nearer than a place something must be to stand before it, metres."""

    def __post_init__(self) -> None:
        if self.depth_m.ndim != 2 or 0 in self.depth_m.shape:
            raise InvalidRequestError(f'depth_m: shape {self.depth_m.shape} is no image', field='depth_m')

    def placed(self, camera: CameraModel, global_from_camera: Transform) -> Witness:
        """Return the image as a witness that stood here; z forward, x right, y down (REP-103)."""
        return _PlacedDepth(self, camera, global_from_camera.inverse())


@dataclass(frozen=True, slots=True, eq=False)
class _PlacedDepth:
    view: DepthImage
    camera: CameraModel
    camera_from_global: Transform

    def sights(self, points: Array, radii: Array, _sensor: Array, /) -> Sights:
        depth = self.view.depth_m
        rows, columns = depth.shape
        fx, fy, cx, cy = (value / self.view.stride for value in self.camera.intrinsics)
        x, y, z = self.camera_from_global.positions(points).T
        ahead = z > 0.0
        scale = 1.0 / np.where(ahead, z, 1.0)
        at_column = np.rint(np.clip(fx * x * scale + cx, -1e6, 1e6)).astype(np.int64)
        at_row = np.rint(np.clip(fy * y * scale + cy, -1e6, 1e6)).astype(np.int64)
        inside = ahead & (at_column >= 0) & (at_column < columns) & (at_row >= 0) & (at_row < rows)
        found = np.full(len(points), Sight.UNKNOWN, dtype=np.int64)
        for place in np.flatnonzero(inside).tolist():
            patch = self._patch(int(at_row[place]), int(at_column[place]))
            found[place] = self._sight(patch, float(z[place]), float(radii[place]) + self.view.margin_m)
        return found

    def _patch(self, row: int, column: int) -> NDArray[np.float32]:
        half = max(1, round(_PATCH * self.view.depth_m.shape[1]))
        rows, columns = (
            slice(max(0, row - half), row + half + 1),
            slice(max(0, column - half), column + half + 1),
        )
        return self.view.depth_m[rows, columns]

    @staticmethod
    def _sight(patch: NDArray[np.float32], depth_m: float, reach_m: float) -> Sight:
        known = patch[np.isfinite(patch) & (patch > 0.0)]
        if 2 * len(known) <= patch.size:
            return Sight.UNKNOWN
        nearest = float(known.min())
        if nearest < depth_m - reach_m:
            return Sight.UNKNOWN
        return Sight.EMPTY if nearest > depth_m + reach_m else Sight.REACHED


@dataclass(frozen=True, slots=True, eq=False)
class GridView:
    """An occupancy grid: a ray may pass only where it is known to be free.

    Raises
    ------
    InvalidRequestError
        If it is no grid, or its cells have no size.
    """

    cells: NDArray[np.int8]
    """-1 unknown, 0 free to 100 occupied, shape (height, width)."""
    resolution_m: float
    """Size of a cell, metres."""
    global_from_grid: Transform
    """Where its lower left corner is, and how it is turned."""

    def __post_init__(self) -> None:
        if self.cells.ndim != 2 or 0 in self.cells.shape:
            raise InvalidRequestError(f'cells: shape {self.cells.shape} is no grid', field='cells')
        if not (self.resolution_m > 0.0 and np.isfinite(self.resolution_m)):
            raise InvalidRequestError(
                f'resolution_m: {self.resolution_m} is no size of a cell', field='resolution_m'
            )

    def sights(self, points: Array, radii: Array, sensor: Array, /) -> Sights:
        """Return whether a ray in the plane reaches each place: what stands there does not block it."""
        grid_from_global = self.global_from_grid.inverse()
        start = grid_from_global.positions(sensor)[0, :2]
        ends = grid_from_global.positions(points)[:, :2]
        found = [
            Sight.REACHED if self._is_clear(start, end, radius) else Sight.UNKNOWN
            for end, radius in zip(ends, radii.tolist(), strict=True)
        ]
        return np.array(found, dtype=np.int64)

    def _is_clear(self, start: Array, end: Array, radius_m: float) -> bool:
        step = end - start
        length = float(np.hypot(step[0], step[1]))
        reach = length - radius_m - self.resolution_m
        if reach <= 0.0:
            return True
        # Two samples a cell: a ray may slip through the corner of a cell, no further.
        fractions = np.arange(0.0, reach, 0.5 * self.resolution_m) / length
        cells = np.floor((start + fractions[:, None] * step) / self.resolution_m).astype(np.int64)
        height, width = self.cells.shape
        column, row = cells.T
        if (column < 0).any() or (row < 0).any() or (column >= width).any() or (row >= height).any():
            return False
        passed = self.cells[row, column]
        return not ((passed == _UNKNOWN) | (passed >= _OCCUPIED)).any()


View = CameraModel | DepthImage | GridView
"""What a message may tell of visibility."""


class Views:
    """What is known of visibility, by source; which of it counts follows from stamps alone."""

    def __init__(self) -> None:
        self._images: dict[str, deque[StampedWitness]] = {}
        self._grids: dict[str, list[tuple[int, GridView]]] = {}
        self._cameras: dict[str, CameraModel] = {}

    def add_camera(self, source: str, camera: CameraModel) -> None:
        """Take a camera, in the order of stamps."""
        self._cameras[source] = camera

    def camera(self, source: str) -> CameraModel | None:
        """Return the newest camera of a source."""
        return self._cameras.get(source)

    def add_image(self, source: str, stamp_ns: int, witness: Witness) -> None:
        """Take an image, in the order of stamps."""
        self._images.setdefault(source, deque(maxlen=_IMAGES_KEPT)).append(StampedWitness(stamp_ns, witness))

    def add_grid(self, source: str, stamp_ns: int, grid: GridView, settled_ns: int) -> None:
        """Take a map, in any order; those that nothing up to `settled_ns` needs any more leave."""
        grids = self._grids.setdefault(source, [])
        stamps = [stamp for stamp, _ in grids]
        place = bisect_right(stamps, stamp_ns)
        if place and stamps[place - 1] == stamp_ns:
            grids[place - 1] = stamp_ns, grid
        else:
            grids.insert(place, (stamp_ns, grid))
        over = bisect_right([stamp for stamp, _ in grids], settled_ns) - 1
        del grids[: max(0, over)]

    def at(self, source: str, stamp_ns: int, tolerance_ns: int) -> StampedWitness | None:
        """Return the witness that counts for an observation, or None.

        It is the newest image at or before the stamp, not older than the tolerance; or the newest map
        at or before it.
        """
        images = self._images.get(source)
        if images is not None:
            while len(images) > 1 and images[1][0] <= stamp_ns:
                images.popleft()
            if images and stamp_ns - tolerance_ns <= images[0][0] <= stamp_ns:
                return images[0]
            return None
        grids = self._grids.get(source, [])
        place = bisect_right([stamp for stamp, _ in grids], stamp_ns)
        return StampedWitness(*grids[place - 1]) if place else None

    def clear_images(self) -> None:
        """Forget all images."""
        self._images.clear()

    def clear(self) -> None:
        """Forget it all."""
        self._images.clear()
        self._grids.clear()
        self._cameras.clear()
