"""Depth images, cameras and maps: read in both byte orders, refused where they are none."""

import random
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rosbags', reason='rosbags is not installed')

from support.bags import NS, Types

from hylo_memory_ros.perception import Message
from hylo_memory_ros.perception.existence.visibility import CameraModel, DepthImage, OccupancyGrid
from hylo_memory_ros.perception.ingestion.decoders import DECODERS, UnusableMessageError

NOW = 1_700_000_000 * NS + 5
TYPES = Types()
IMAGE, INFO, GRID = 'sensor_msgs/msg/Image', 'sensor_msgs/msg/CameraInfo', 'nav_msgs/msg/OccupancyGrid'


def image(pixels: np.ndarray, encoding: str, **fields: Any) -> Any:
    height, width = pixels.shape
    data = np.frombuffer(pixels.tobytes(), dtype=np.uint8)
    usual = {'height': height, 'width': width, 'encoding': encoding, 'is_bigendian': 0}
    usual |= {'step': width * pixels.itemsize, 'data': data}
    return TYPES.new('sensor_msgs/Image', header=TYPES.header(NOW, 'depth'), **{**usual, **fields})


def info(**fields: Any) -> Any:
    roi = TYPES.new(
        'sensor_msgs/RegionOfInterest', x_offset=0, y_offset=0, height=0, width=0, do_rectify=False
    )
    k = np.array([500.0, 0.0, 320.0, 0.0, 510.0, 240.0, 0.0, 0.0, 1.0])
    usual = {
        'height': 480, 'width': 640, 'distortion_model': 'plumb_bob', 'd': np.zeros(5), 'k': k,
        'r': np.eye(3).ravel(), 'p': np.zeros(12), 'binning_x': 0, 'binning_y': 0, 'roi': roi,
    }  # fmt: skip
    return TYPES.new('sensor_msgs/CameraInfo', header=TYPES.header(NOW, 'depth'), **{**usual, **fields})


def grid(cells: np.ndarray, resolution: float = 0.05, **pose: Any) -> Any:
    height, width = cells.shape
    about = TYPES.new(
        'nav_msgs/MapMetaData', map_load_time=TYPES.time(NOW), resolution=resolution, width=width,
        height=height, origin=TYPES.pose(-1, -2),
    )  # fmt: skip
    return TYPES.new(
        'nav_msgs/OccupancyGrid',
        header=TYPES.header(NOW, 'map'),
        info=about,
        data=cells.ravel().astype(np.int8),
    )


MILLIMETRES = np.arange(12, dtype='<u2').reshape(3, 4) * 500
SAMPLES = {
    IMAGE: image(MILLIMETRES, '16UC1'),
    INFO: info(),
    GRID: grid(np.array([[-1, 0, 100], [50, 0, 0]])),
}


def read(kind: str, data: bytes) -> Message:
    (message,) = DECODERS[kind]()(data, 'front').messages
    return message


@pytest.mark.parametrize('little', [True, False])
def test_millimetres_and_metres_are_one(little: bool) -> None:
    for pixels, encoding in ((MILLIMETRES, '16UC1'), (MILLIMETRES.astype('<f4') / 1000, '32FC1')):
        message = read(IMAGE, TYPES.cdr(image(pixels, encoding), little=little))
        assert isinstance(message.view, DepthImage)
        assert message.view.depth_m == pytest.approx(MILLIMETRES / 1000.0)
        assert (message.stamp_ns, message.frame_id, len(message.detections)) == (NOW, 'depth', 0)


def test_pixels_may_be_big_endian_and_rows_padded() -> None:
    padded = np.zeros((3, 6), dtype='>u2')
    padded[:, :4] = MILLIMETRES
    message = read(IMAGE, TYPES.cdr(image(padded, '16UC1', width=4, is_bigendian=1)))
    assert isinstance(message.view, DepthImage)
    assert message.view.depth_m == pytest.approx(MILLIMETRES / 1000.0)


def test_a_large_image_is_thinned_and_says_so() -> None:
    message = read(IMAGE, TYPES.cdr(image(np.full((480, 640), 1500, dtype='<u2'), '16UC1')))
    assert isinstance(message.view, DepthImage)
    assert (message.view.depth_m.shape, message.view.stride) == ((120, 160), 4)


@pytest.mark.parametrize(
    ('fields', 'named'),
    [
        ({'encoding': 'rgb8'}, 'encoding'),
        ({'width': 5}, 'expected an image'),
        ({'height': 4}, 'expected an image'),
        ({'height': 0, 'width': 0}, 'expected an image'),
        ({'step': 7}, 'expected an image'),
    ],
)
def test_what_is_no_depth_image_is_refused(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        read(IMAGE, TYPES.cdr(image(MILLIMETRES, **{'encoding': '16UC1', **fields})))


@pytest.mark.parametrize(
    ('kind', 'message', 'reason'),
    [
        (IMAGE, image(MILLIMETRES, 'rgb8'), 'bad_encoding'),
        (IMAGE, image(MILLIMETRES, '64FC1'), 'bad_encoding'),
        (INFO, info(k=np.zeros(9)), 'uncalibrated'),
        (GRID, grid(np.zeros((0, 0))), 'bad_grid'),
    ],
)
def test_a_message_that_is_well_formed_but_of_no_use_has_a_reason_of_its_own(
    kind: str, message: Any, reason: str
) -> None:
    with pytest.raises(UnusableMessageError) as caught:
        read(kind, TYPES.cdr(message))
    assert caught.value.reason == reason


def test_damaged_bytes_are_no_message_of_no_use() -> None:
    with pytest.raises(ValueError, match=r'.') as caught:
        read(IMAGE, TYPES.cdr(image(MILLIMETRES, 'rgb8'))[:-1])
    assert not isinstance(caught.value, UnusableMessageError)


@pytest.mark.parametrize('little', [True, False])
def test_a_camera_has_its_intrinsics(little: bool) -> None:
    message = read(INFO, TYPES.cdr(SAMPLES[INFO], little=little))
    assert message.view == CameraModel((500.0, 510.0, 320.0, 240.0), 640, 480)


P = np.array([400.0, 0.0, 310.0, 0.0, 0.0, 410.0, 230.0, 0.0, 0.0, 0.0, 1.0, 0.0])
ROI = {'x_offset': 100, 'y_offset': 40, 'height': 240, 'width': 320, 'do_rectify': False}


@pytest.mark.parametrize(
    ('fields', 'expected'),
    [
        ({'p': P}, CameraModel((400.0, 410.0, 310.0, 230.0), 640, 480)),
        ({'binning_x': 2, 'binning_y': 4}, CameraModel((250.0, 127.5, 160.0, 60.0), 320, 120)),
        ({'binning_x': 1, 'binning_y': 1}, CameraModel((500.0, 510.0, 320.0, 240.0), 640, 480)),
        ({'roi': ROI}, CameraModel((500.0, 510.0, 220.0, 200.0), 320, 240)),
        ({'roi': ROI, 'binning_x': 2, 'binning_y': 2}, CameraModel((250.0, 255.0, 110.0, 100.0), 160, 120)),
    ],
)
def test_a_camera_is_that_of_the_pixels_which_are_published(
    fields: dict[str, Any], expected: CameraModel
) -> None:
    if 'roi' in fields:
        fields = fields | {'roi': TYPES.new('sensor_msgs/RegionOfInterest', **fields['roi'])}
    assert read(INFO, TYPES.cdr(info(**fields))).view == expected


def test_no_return_is_no_distance() -> None:
    pixels = np.array([[65535, 65534, 0]], dtype='<u2')
    for encoding in ('16UC1', 'mono16'):
        view = read(IMAGE, TYPES.cdr(image(pixels, encoding))).view
        assert isinstance(view, DepthImage)
        assert view.depth_m.tolist() == [[0.0, pytest.approx(65.534), 0.0]]
        assert view.size == (3, 1)


def test_a_camera_that_is_not_calibrated_is_refused() -> None:
    with pytest.raises(ValueError, match='intrinsics'):
        read(INFO, TYPES.cdr(info(k=np.zeros(9))))


@pytest.mark.parametrize('little', [True, False])
def test_a_map_has_its_cells_and_its_place(little: bool) -> None:
    message = read(GRID, TYPES.cdr(SAMPLES[GRID], little=little))
    assert isinstance(message.view, OccupancyGrid)
    assert message.view.cells.tolist() == [[-1, 0, 100], [50, 0, 0]]
    assert message.view.resolution_m == pytest.approx(0.05)
    assert message.view.global_from_grid.translation == (-1.0, -2.0, 0.0)


@pytest.mark.parametrize(
    'broken', [grid(np.zeros((0, 0))), grid(np.zeros((2, 2)), resolution=0.0)], ids=['cells', 'resolution']
)
def test_a_map_without_cells_is_refused(broken: Any) -> None:
    with pytest.raises(ValueError, match=r'cells|resolution'):
        read(GRID, TYPES.cdr(broken))


@pytest.mark.parametrize('little', [True, False])
@pytest.mark.parametrize('kind', SAMPLES)
def test_what_is_cut_anywhere_or_longer_is_refused(kind: str, little: bool) -> None:
    data = TYPES.cdr(SAMPLES[kind], little=little)
    for end in range(len(data)):
        with pytest.raises(ValueError, match=r'.'):
            read(kind, data[:end])
    with pytest.raises(ValueError, match='4 bytes follow'):
        read(kind, data + bytes(4))


@pytest.mark.parametrize('kind', SAMPLES)
def test_noise_is_read_or_refused_and_nothing_else(kind: str) -> None:
    rng = random.Random(kind)
    data = TYPES.cdr(SAMPLES[kind])
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 6)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            read(kind, bytes(changed))
        except ValueError:
            continue
