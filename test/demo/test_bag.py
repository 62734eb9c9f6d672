from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rosbags', reason='rosbags is not installed')

from demo.bag import CLOCK, DETECTIONS, TF, TF_STATIC, bag_of, read_bag
from demo.drive import Drive
from hylo_memory_ros.perception.ingestion.decoders.detections import decode_detections


@pytest.fixture
def drive() -> Drive:
    return Drive.load(60)


def test_the_bag_holds_the_drive_in_order(drive: Drive, tmp_path: Path) -> None:
    recorded = list(read_bag(bag_of(drive, tmp_path)))
    stamps = {
        topic: [one.stamp_ns for one in recorded if one.topic == topic] for topic in (CLOCK, TF, DETECTIONS)
    }
    assert stamps[CLOCK] == stamps[TF] == drive.stamps_ns.tolist()
    assert stamps[DETECTIONS] == [one.stamp_ns for one in drive.seen()]
    assert [one.topic for one in recorded[:3]] == [TF_STATIC, CLOCK, TF]
    order = [TF_STATIC, CLOCK, TF, DETECTIONS]
    keys = [(one.stamp_ns, order.index(one.topic)) for one in recorded]
    assert keys == sorted(keys)


def test_the_bag_is_an_mcap(drive: Drive, tmp_path: Path) -> None:
    (file,) = bag_of(drive, tmp_path).glob('*.mcap')
    assert file.read_bytes().startswith(b'\x89MCAP0\r\n')


def test_a_detection_is_where_it_was_seen(drive: Drive, tmp_path: Path) -> None:
    messages = [
        message
        for one in read_bag(bag_of(drive, tmp_path))
        if one.topic == DETECTIONS
        for message in decode_detections(one.data, 'trees').messages
    ]
    assert [message.stamp_ns for message in messages] == [one.stamp_ns for one in drive.seen()]
    assert {message.frame_id for message in messages} == {'base_link'}
    positions = np.concatenate([message.detections.positions for message in messages])
    assert np.array_equal(positions[:, :2], drive.positions)
    assert not positions[:, 2].any()


def test_a_bag_is_written_once(drive: Drive, tmp_path: Path) -> None:
    first = bag_of(drive, tmp_path)
    written = {file: file.stat().st_mtime_ns for file in first.iterdir()}
    assert bag_of(drive, tmp_path) == first
    assert {file: file.stat().st_mtime_ns for file in first.iterdir()} == written
    assert bag_of(Drive.load(61), tmp_path) != first


def test_what_an_interrupted_run_left_is_no_bag(drive: Drive, tmp_path: Path) -> None:
    whole = bag_of(drive, tmp_path)
    left = tmp_path / '.unfinished' / whole.name
    left.mkdir(parents=True)
    (left / 'half.mcap').write_bytes(b'half')
    for file in whole.iterdir():
        file.unlink()
    whole.rmdir()
    assert len(list(read_bag(bag_of(drive, tmp_path)))) > 100
