"""The drive through Victoria Park on bare odometry, and what corrections make of its landmarks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from bench._figure import at_least, at_most
from demo.drive import Drive
from demo.odometry import BareOdometry, drive_messages, solved_path
from demo.score import Score, pairwise_score
from hylo_memory_ros.model import CorrectionResult
from hylo_memory_ros.perception import InputSettings, LandmarkPipeline, LandmarkSettings, Message
from hylo_memory_ros.service import MemoryService

NOW_NS = 1_100_000_000 * 10**9
MAP = 'victoria_park'
# As the demonstration has it: the noise of the input.
TREES = InputSettings(
    name='trees',
    topic='trees',
    type='vision_msgs/msg/Detection3DArray',
    label='tree',
    sigma_m=0.5,
    gate_m=2.5,
)
SETTINGS = LandmarkSettings(inputs=(TREES,), confirm_n=2)
COMMIT_EVERY = 200


class Driven:
    """A drive that is remembered on bare odometry."""

    def __init__(self) -> None:
        self.drive = Drive.load()
        self.vehicle = BareOdometry(self.drive)
        self.messages = drive_messages(self.drive, 'trees', 'tree')
        self.memory = MemoryService.open(clock=lambda: NOW_NS, map_id=MAP)
        transforms: Any = self.vehicle
        self.pipeline = LandmarkPipeline(self.memory, transforms, SETTINGS, map_id=MAP)

    def see(self, messages: list[Message]) -> None:
        """Go on by some messages."""
        for count, message in enumerate(messages, 1):
            self.pipeline.offer(message)
            self.pipeline.poll()
            if count % COMMIT_EVERY == 0:
                self.pipeline.commit()
        self.pipeline.flush()
        self.pipeline.commit(force=True)

    def correct(self, every: int, end: int | None = None) -> CorrectionResult:
        """Send the solved pose at every so-manieth stamp so far."""
        return self.pipeline.correct(solved_path(self.drive, every, end))

    def score(self) -> Score:
        """Return how well detections are told apart."""
        with self.memory.read() as view:
            found = list(view.ledger.observations())
        return pairwise_score([one.landmark for one in found], self.drive.trees.tolist())

    @property
    def landmarks(self) -> int:
        """How many landmarks there are, tentative ones too."""
        return self.pipeline.status().landmarks


def at_the_end() -> Iterator[dict[str, Any]]:
    """One correction after the whole drive, with the solved pose at every 100th stamp, and at every 50th."""
    driven = Driven()
    driven.see(driven.messages)
    before, bare = driven.memory.snapshot(), driven.score().f1
    for every, least_f1, most in ((100, 0.95, 175), (50, 0.98, 160)):
        start = time.perf_counter()
        done = driven.correct(every)
        more = {'seconds': round(time.perf_counter() - start, 2), 'bare_f1': round(bare, 4)}
        counts = {'moved': done.moved, 'merged': done.merged, 'split': done.split}
        yield at_least(f'corrected_every_{every}_f1', driven.score().f1, least_f1, **more, **counts)
        yield at_most(f'corrected_every_{every}_landmarks', driven.landmarks, most)
        driven.pipeline.revert(done.correction_id)
        is_as_before = driven.memory.snapshot() == before
        yield at_least(f'reverted_every_{every}_is_as_before', float(is_as_before), 1.0)


def along_the_way() -> Iterator[dict[str, Any]]:
    """Ten corrections, each with every 50th solved pose so far, the last at the end."""
    driven = Driven()
    count = len(driven.messages)
    start = 0
    for number in range(1, 11):
        end = count * number // 10
        driven.see(driven.messages[start:end])
        driven.correct(50, end)
        # As a robot does: it goes on from where it now knows it is.
        driven.vehicle.relocalize(end - 1)
        start = end
    driven.pipeline.close()
    yield at_least('corrected_ten_times_f1', driven.score().f1, 0.97, landmarks=driven.landmarks)


FIGURES = {'at_the_end': at_the_end, 'along_the_way': along_the_way}
