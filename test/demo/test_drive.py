import numpy as np

from demo.drive import Drive


def test_the_whole_drive_is_there() -> None:
    drive = Drive.load()
    assert len(drive.stamps_ns) == 6969
    assert len(drive.trees) == 3640
    assert len(np.unique(drive.trees)) == 147
    assert drive.start_ns == 1_000_000_000 * 10**9
    assert drive.start_ns < drive.half_ns < drive.end_ns


def test_detections_of_one_stamp_are_one_message() -> None:
    drive = Drive.load()
    seen = list(drive.seen())
    assert len(seen) == 3331
    assert sum(len(one.positions) for one in seen) == 3640
    assert np.array_equal(np.concatenate([one.positions for one in seen]), drive.positions)
    names = [(one.stamp_ns, index) for one in seen for index in range(len(one.positions))]
    assert names == drive.detection_names()


def test_the_beginning_of_the_drive_is_a_drive() -> None:
    part, whole = Drive.load(100), Drive.load()
    assert len(part.stamps_ns) == 100
    assert part.seen_ns.max() <= part.end_ns
    assert np.array_equal(part.positions, whole.positions[: len(part.positions)])
    assert part.digest() != whole.digest()
    assert part.digest() == Drive.load(100).digest()
