"""Visibility of places, by depth images and occupancy grids.

A depth image is valid at its stamp and is ordered with the observations; an occupancy grid is valid from
its stamp until that of the next one.
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

Array = NDArray[np.float64]
Visibilities = NDArray[np.int64]

_OCCUPIED = 65
_UNKNOWN = -1
# Half the width of the evaluated patch of pixels, as a share of the image width.
_PATCH = 0.004
# Images are kept until an observation needs them, up to this many.
_IMAGES_KEPT = 256


class Visibility(IntEnum):
    """Visibility of a place."""

    UNKNOWN = 0
    """Not determined, or something stands in front of the place."""
    REACHED = 1
    """Nothing stands in front of the place."""
    EMPTY = 2
    """The view goes through the place: nothing is there."""


class VisibilityModel(Protocol):
    """A model that returns the visibility of places."""

    def sights(self, points: Array, radii: Array, sensor: Array, /) -> Visibilities:
        """Return a `Visibility` for each place.

        Parameters
        ----------
        points : ndarray, shape (n, 3)
            Metres, x y z, in the global frame.
        radii : ndarray, shape (n,)
            How far around a place belongs to what is there, metres.
        sensor : ndarray, shape (3,)
            From where it was looked, metres, in the global frame.
        """


class StampedVisibility(NamedTuple):
    """A visibility model with its stamp."""

    stamp_ns: int
    """Stamp of the image or grid, nanoseconds."""
    model: VisibilityModel
    """The model."""


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
    """Image width, pixels."""
    height: int = 0
    """Image height, pixels; 0: unknown."""

    def __post_init__(self) -> None:
        fx, fy, cx, cy = self.intrinsics
        if not (fx > 0.0 and fy > 0.0 and np.isfinite(fx + fy + cx + cy) and self.width > 0):
            raise InvalidRequestError(
                f'intrinsics: expected those of a calibrated camera, got {self.intrinsics}',
                field='intrinsics',
            )

    def scaled_to(self, width: int, height: int) -> CameraModel | None:
        """Return the camera of an image of the same section in other pixels; None: it is of another."""
        if not self.height or (width, height) == (self.width, self.height):
            return self
        along, down = width / self.width, height / self.height
        # Rounded sizes differ by less than a pixel; a section of the image has another shape.
        if abs(along * self.height - height) > 1.0 and abs(down * self.width - width) > 1.0:
            return None
        fx, fy, cx, cy = self.intrinsics
        return CameraModel((fx * along, fy * down, cx * along, cy * down), width, height)


@dataclass(frozen=True, slots=True, eq=False)
class DepthImage:
    """A depth image, perhaps subsampled.

    Raises
    ------
    InvalidRequestError
        If it is no image.
    """

    depth_m: NDArray[np.float32]
    """Distance along the optical axis, metres, shape (rows, columns); 0, NaN or infinite: unknown."""
    stride: int = 1
    """Subsampling: one of this many pixels of the camera is kept in both directions."""
    size: tuple[int, int] | None = None
    """Width and height before the subsampling, pixels; None: those of the camera."""
    margin_m: float = 0.1
    """Least distance in front of a place at which something obstructs it, metres."""

    def __post_init__(self) -> None:
        if self.depth_m.ndim != 2 or 0 in self.depth_m.shape:
            raise InvalidRequestError(
                f'depth_m: expected an image, got shape {self.depth_m.shape}', field='depth_m'
            )

    def placed(self, camera: CameraModel, global_from_camera: Transform) -> VisibilityModel | None:
        """Return the image as a visibility model at a pose; z forward, x right, y down (REP-103).

        None: the camera is not the one of these pixels.
        """
        fitting = camera if self.size is None else camera.scaled_to(*self.size)
        return None if fitting is None else _PlacedDepth(self, fitting, global_from_camera.inverse())


@dataclass(frozen=True, slots=True, eq=False)
class _PlacedDepth:
    view: DepthImage
    camera: CameraModel
    camera_from_global: Transform

    def sights(self, points: Array, radii: Array, _sensor: Array, /) -> Visibilities:
        depth = self.view.depth_m
        rows, columns = depth.shape
        fx, fy, cx, cy = (value / self.view.stride for value in self.camera.intrinsics)
        x, y, z = self.camera_from_global.positions(points).T
        ahead = z > 0.0
        scale = 1.0 / np.where(ahead, z, 1.0)
        at_column = np.rint(np.clip(fx * x * scale + cx, -1e6, 1e6)).astype(np.int64)
        at_row = np.rint(np.clip(fy * y * scale + cy, -1e6, 1e6)).astype(np.int64)
        inside = ahead & (at_column >= 0) & (at_column < columns) & (at_row >= 0) & (at_row < rows)
        found = np.full(len(points), Visibility.UNKNOWN, dtype=np.int64)
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
    def _sight(patch: NDArray[np.float32], depth_m: float, reach_m: float) -> Visibility:
        known = patch[np.isfinite(patch) & (patch > 0.0)]
        if 2 * len(known) <= patch.size:
            return Visibility.UNKNOWN
        nearest = float(known.min())
        if nearest < depth_m - reach_m:
            return Visibility.UNKNOWN
        return Visibility.EMPTY if nearest > depth_m + reach_m else Visibility.REACHED


@dataclass(frozen=True, slots=True, eq=False)
class OccupancyGrid:
    """An occupancy grid: a ray passes only through cells known to be free.

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
    """Pose of its lower left corner."""

    def __post_init__(self) -> None:
        if self.cells.ndim != 2 or 0 in self.cells.shape:
            raise InvalidRequestError(f'cells: expected a grid, got shape {self.cells.shape}', field='cells')
        if not (self.resolution_m > 0.0 and np.isfinite(self.resolution_m)):
            raise InvalidRequestError(
                f'resolution_m: expected a positive number, got {self.resolution_m}', field='resolution_m'
            )

    def sights(self, points: Array, radii: Array, sensor: Array, /) -> Visibilities:
        """Return whether a planar ray reaches each place; obstacles at the place itself do not block."""
        grid_from_global = self.global_from_grid.inverse()
        start = grid_from_global.positions(sensor)[0, :2]
        ends = grid_from_global.positions(points)[:, :2]
        found = [
            Visibility.REACHED if self._is_clear(start, end, radius) else Visibility.UNKNOWN
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


View = CameraModel | DepthImage | OccupancyGrid
"""Visibility data that a message may carry."""


class VisibilityHistory:
    """Visibility data by source; the valid one depends on stamps alone."""

    def __init__(self) -> None:
        self._images: dict[str, deque[StampedVisibility]] = {}
        self._grids: dict[str, list[tuple[int, OccupancyGrid]]] = {}
        self._cameras: dict[str, CameraModel] = {}

    def add_camera(self, source: str, camera: CameraModel) -> None:
        """Add a camera, in the order of stamps."""
        self._cameras[source] = camera

    def camera(self, source: str) -> CameraModel | None:
        """Return the newest camera of a source."""
        return self._cameras.get(source)

    def add_image(self, source: str, stamp_ns: int, model: VisibilityModel) -> None:
        """Add an image, in the order of stamps."""
        self._images.setdefault(source, deque(maxlen=_IMAGES_KEPT)).append(StampedVisibility(stamp_ns, model))

    def add_grid(self, source: str, stamp_ns: int, grid: OccupancyGrid, settled_ns: int) -> None:
        """Add a grid, in any order; grids that nothing after `settled_ns` needs are dropped."""
        grids = self._grids.setdefault(source, [])
        stamps = [stamp for stamp, _ in grids]
        place = bisect_right(stamps, stamp_ns)
        if place and stamps[place - 1] == stamp_ns:
            grids[place - 1] = stamp_ns, grid
        else:
            grids.insert(place, (stamp_ns, grid))
        over = bisect_right([stamp for stamp, _ in grids], settled_ns) - 1
        del grids[: max(0, over)]

    def at(self, source: str, stamp_ns: int, tolerance_ns: int) -> StampedVisibility | None:
        """Return the visibility model that is valid for an observation, or None.

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
        return StampedVisibility(*grids[place - 1]) if place else None

    def clear_images(self) -> None:
        """Forget all images."""
        self._images.clear()

    def clear(self) -> None:
        """Forget all visibility data."""
        self._images.clear()
        self._grids.clear()
        self._cameras.clear()
