"""Whether a place could be seen: by a depth image, or by a ray over a map."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.perception.existence.visibility import (
    CameraModel,
    DepthImage,
    OccupancyGrid,
    Visibility,
    VisibilityHistory,
)
from hylo_memory_ros.transforms import Transform

CAMERA = CameraModel((100.0, 100.0, 80.0, 60.0), 160)
HERE = Transform((0.0, 0.0, 0.0))
ORIGIN = np.zeros(3)


def sight(
    image: DepthImage, place: tuple[float, float, float], radius: float = 0.0, at: Transform = HERE
) -> Visibility:
    witness = image.placed(CAMERA, at)
    assert witness is not None
    return Visibility(int(witness.sights(np.array([place]), np.array([radius]), ORIGIN)[0]))


def flat(depth_m: float) -> DepthImage:
    return DepthImage(np.full((120, 160), depth_m, dtype=np.float32))


@pytest.mark.parametrize(
    ('depth_m', 'expected'),
    [
        (4.0, Visibility.EMPTY),
        (2.05, Visibility.REACHED),
        (1.95, Visibility.REACHED),
        (1.5, Visibility.UNKNOWN),
        (0.0, Visibility.UNKNOWN),
        (math.nan, Visibility.UNKNOWN),
        (math.inf, Visibility.UNKNOWN),
        (-1.0, Visibility.UNKNOWN),
    ],
)
def test_what_stands_before_a_place_hides_it_and_what_lies_behind_shows_it_empty(
    depth_m: float, expected: Visibility
) -> None:
    assert sight(flat(depth_m), (0.0, 0.0, 2.0)) is expected


@pytest.mark.parametrize('place', [(0.0, 0.0, -2.0), (0.0, 0.0, 0.0), (1.7, 0.0, 2.0), (0.0, -1.3, 2.0)])
def test_what_the_image_does_not_show_is_unknown(place: tuple[float, float, float]) -> None:
    assert sight(flat(9.0), place) is Visibility.UNKNOWN


def test_the_size_of_a_thing_is_no_obstacle_to_it() -> None:
    assert sight(flat(1.5), (0.0, 0.0, 2.0), radius=0.5) is Visibility.REACHED


def test_an_edge_in_the_patch_hides_the_place() -> None:
    depth = np.full((120, 160), 9.0, dtype=np.float32)
    depth[:, :80] = 1.0
    assert sight(DepthImage(depth), (0.0, 0.0, 2.0)) is Visibility.UNKNOWN


def test_the_camera_is_where_it_was_and_pixels_may_be_left_out() -> None:
    turned = Transform((0.0, 0.0, 5.0), (1.0, 0.0, 0.0, 0.0))
    thinned = DepthImage(np.full((30, 40), 9.0, dtype=np.float32), stride=4)
    assert sight(thinned, (0.0, 0.0, 3.0), at=turned) is Visibility.EMPTY
    assert sight(thinned, (0.0, 0.0, 7.0), at=turned) is Visibility.UNKNOWN


@pytest.mark.parametrize(
    ('size', 'expected'),
    [
        ((640, 480), (640, 480)),
        ((320, 240), (320, 240)),  # decimated by two
        ((213, 160), (213, 160)),  # by three, rounded
        ((1280, 960), (1280, 960)),
        ((640, 360), None),  # a section
        ((480, 640), None),  # turned
        ((320, 480), None),  # interlaced
    ],
)
def test_a_camera_is_scaled_to_the_image_unless_that_shows_another_section(
    size: tuple[int, int], expected: tuple[int, int] | None
) -> None:
    scaled = CameraModel((500.0, 510.0, 320.0, 240.0), 640, 480).scaled_to(*size)
    if expected is None or scaled is None:
        assert scaled is expected
        return
    assert (scaled.width, scaled.height) == expected
    # The same ray meets the same share of the image.
    whole, part = np.array([500.0, 510.0, 320.0, 240.0]), np.array(scaled.intrinsics)
    assert part / (size[0], size[1], size[0], size[1]) == pytest.approx(whole / (640, 480, 640, 480))


def test_a_decimated_image_sees_what_the_whole_one_sees() -> None:
    depth = np.full((60, 80), 9.0, dtype=np.float32)
    depth[:, :20] = 1.0
    camera = CameraModel((100.0, 100.0, 80.0, 60.0), 160, 120)
    half = DepthImage(depth, size=(80, 60)).placed(camera, HERE)
    assert half is not None
    places, radii = np.array([(0.0, 0.0, 2.0), (-1.2, 0.0, 2.0)]), np.zeros(2)
    assert half.sights(places, radii, ORIGIN).tolist() == [Visibility.EMPTY, Visibility.UNKNOWN]


@pytest.mark.parametrize('shape', [(0, 5), (5,), (2, 2, 3)])
def test_no_image_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidRequestError, match='depth_m'):
        DepthImage(np.zeros(shape, dtype=np.float32))


@pytest.mark.parametrize(
    'intrinsics', [(0.0, 1.0, 0.0, 0.0), (1.0, math.nan, 0.0, 0.0), (1.0, 1.0, math.inf, 0.0)]
)
def test_an_uncalibrated_camera_is_refused(intrinsics: tuple[float, float, float, float]) -> None:
    with pytest.raises(InvalidRequestError, match='intrinsics'):
        CameraModel(intrinsics, 160)


def a_grid(**cells: int) -> OccupancyGrid:
    """Return 4 x 4 m of free cells of 0.1 m, with columns of other values: ``c20=100``."""
    values = np.zeros((40, 40), dtype=np.int8)
    for name, value in cells.items():
        values[:, int(name[1:])] = value
    return OccupancyGrid(values, 0.1, Transform((-1.0, -2.0, 0.0)))


def ray(grid: OccupancyGrid, place: tuple[float, float, float], radius: float = 0.0) -> Visibility:
    return Visibility(int(grid.sights(np.array([place]), np.array([radius]), ORIGIN)[0]))


@pytest.mark.parametrize(
    ('cells', 'expected'),
    [
        ({}, Visibility.REACHED),
        ({'c20': 100}, Visibility.UNKNOWN),
        ({'c20': 65}, Visibility.UNKNOWN),
        ({'c20': 64}, Visibility.REACHED),
        ({'c20': -1}, Visibility.UNKNOWN),
        ({'c35': 100}, Visibility.REACHED),  # behind it
        ({'c30': 100}, Visibility.REACHED),  # itself
    ],
)
def test_a_ray_ends_at_what_is_occupied_or_unknown(cells: dict[str, int], expected: Visibility) -> None:
    assert ray(a_grid(**cells), (2.05, 0.0, 0.7)) is expected


def test_outside_of_the_map_nothing_is_known() -> None:
    assert ray(a_grid(), (9.0, 0.0, 0.0)) is Visibility.UNKNOWN


def test_a_map_may_be_turned() -> None:
    cells = np.zeros((40, 40), dtype=np.int8)
    cells[22, :] = 100
    turned = Transform((2.0, -1.0, 0.0), (0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)))
    grid = OccupancyGrid(cells, 0.1, turned)
    assert ray(grid, (1.5, 0.0, 0.0)) is Visibility.REACHED
    assert ray(grid, (-0.5, 0.0, 0.0)) is Visibility.UNKNOWN


def test_a_ray_agrees_with_every_cell_that_it_crosses() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        cells = np.where(rng.random((30, 30)) < 0.03, 100, 0).astype(np.int8)
        grid = OccupancyGrid(cells, 0.1, HERE)
        start, end = rng.uniform(0.05, 2.95, (2, 2))
        told = grid.sights(np.array([[*end, 0.0]]), np.zeros(1), np.array([*start, 0.0]))[0]
        length = math.dist(start, end)
        fine = np.arange(0.0, max(length - 0.1, 0.0), 0.001) / max(length, 1e-9)
        crossed = np.floor((start + fine[:, None] * (end - start)) / 0.1).astype(int)
        hits = cells[crossed[:, 1], crossed[:, 0]] == 100
        # A corner that is only grazed may be missed, nothing more.
        longest = max((len(run) for run in ''.join('x' if hit else ' ' for hit in hits).split()), default=0)
        if told == Visibility.REACHED:
            assert longest <= 51
        else:
            assert longest > 0


@pytest.mark.parametrize(
    ('shape', 'resolution'), [((0, 4), 0.1), ((4,), 0.1), ((4, 4), 0.0), ((4, 4), math.nan)]
)
def test_no_map_is_refused(shape: tuple[int, ...], resolution: float) -> None:
    with pytest.raises(InvalidRequestError):
        OccupancyGrid(np.zeros(shape, dtype=np.int8), resolution, HERE)


def test_the_newest_image_before_the_stamp_counts_while_it_is_fresh() -> None:
    views = VisibilityHistory()
    images = {stamp: flat(stamp).placed(CAMERA, HERE) for stamp in (10, 20, 30)}
    for stamp, image in images.items():
        views.add_image('depth', stamp, image)
    assert views.at('depth', 9, 5) is None
    assert views.at('depth', 14, 5) == (10, images[10])
    assert views.at('depth', 16, 5) is None
    assert views.at('depth', 20, 5) == (20, images[20])
    assert views.at('depth', 35, 5) == (30, images[30])
    assert views.at('other', 35, 5) is None


def test_a_map_counts_from_its_stamp_until_the_next_in_whatever_order_they_come() -> None:
    views = VisibilityHistory()
    first, second, third = a_grid(), a_grid(), a_grid()
    for stamp, grid in ((30, third), (10, first), (20, second)):
        views.add_grid('grid', stamp, grid, 0)
    assert [views.at('grid', stamp, 0) for stamp in (9, 10, 19, 20, 99)] == [
        None,
        (10, first),
        (10, first),
        (20, second),
        (30, third),
    ]
    views.add_grid('grid', 40, a_grid(), 25)
    assert views.at('grid', 19, 0) is None
    assert views.at('grid', 25, 0) == (20, second)
