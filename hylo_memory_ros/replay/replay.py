"""Replay: feed the messages of a bag to the pipeline of the node, as fast as it takes them.

What differs from a node that is fed by the same bag: the service clock is that of the bag (its
``/clock``, or the times of recording), and commits follow from it; so sequences and `recorded_at`
differ, while what is believed, and so the snapshot, is the same. The parameter `database_path` is
not used: a replay never writes the memory of a robot unasked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hylo_memory_ros.parameters import NodeConfig
from hylo_memory_ros.perception import LandmarkPipeline, PipelineStatus
from hylo_memory_ros.replay.bag import Bag, BagClock
from hylo_memory_ros.replay.topic_router import CLOCK, TopicNames, TopicRouter
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.service.skills import NO_DIRECTORY
from hylo_memory_ros.transforms import TransformBuffer


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Result of a replay."""

    snapshot: str
    """Hash of what is believed and open afterwards."""
    complete: bool
    """Whether nothing was dropped or late, and nothing still waits."""
    sequence: int
    """Number of the newest transaction."""
    messages: int
    """Messages that were read, over all loops."""
    recorded_s: float
    """How long the recording is, seconds, times the loops."""
    seconds: float
    """How long the replay took, seconds."""
    status: PipelineStatus
    """Counters of each input, and of landmarks."""
    skipped: Mapping[str, str]
    """Topics without a consumer, with their types."""
    missing: Mapping[str, str]
    """Why an input got nothing, by its name."""
    malformed: Mapping[str, int]
    """Messages of tf and of the clock that are none, by topic."""
    transforms_refused: Mapping[str, int]
    """Transforms that were not taken, by reason."""


def replay(
    bag: Bag,
    config: NodeConfig,
    *,
    names: TopicNames | None = None,
    database: str | None = None,
    loops: int = 1,
    on_progress: Callable[[int], None] = lambda _: None,
) -> ReplayResult:
    """Replay an open bag into a memory.

    Parameters
    ----------
    bag : Bag
        The recording.
    config : NodeConfig
        The settings of the node; its inputs name the topics.
    names : TopicNames, optional
        Names of topics; those of the node ``/hylo_memory`` unless given.
    database : str, optional
        URL of the memory; one that is not empty is continued. None: kept nowhere.
    loops : int
        How often; what comes again changes nothing.
    on_progress : callable
        Takes, at every commit, how much of the recording over all loops is done, nanoseconds.

    Raises
    ------
    HyloMemoryError
        The bag, the parameters or the memory cannot be used.
    """
    begun_s = time.perf_counter()
    start_ns, end_ns = bag.span_ns
    topics = bag.topics
    clock = BagClock(0 if CLOCK in topics else start_ns)
    # As a node before the first /clock: a bag may be older than what the file holds. It holds no skills.
    alone = {'accept_older_clock': True, 'skill_directory': NO_DIRECTORY}
    memory_config = config.memory.model_copy(update=alone)
    transforms = TransformBuffer(config.tf_buffer_s)
    with MemoryService.open(database, clock=clock, config=memory_config, map_id=config.map_id) as memory:
        pipeline = LandmarkPipeline(memory, transforms, config.perception, map_id=memory.map_id, clock=clock)
        router = TopicRouter(config, names or TopicNames(), topics, transforms, pipeline, clock)
        run = _Run(bag, router, pipeline, clock, round(config.commit_interval_s * 1e9))
        for loop in range(loops):
            if loop:
                # A loop sets the clock back, as a restarted simulator does.
                pipeline.on_clock_jump()
                transforms.clear()
            # The first message of a loop is as far as the loops before it have come.
            run.play(on_progress, start_ns - loop * (end_ns - start_ns))
        # No message follows that would move the watermark past those that wait.
        pipeline.flush()
        pipeline.commit(force=True)
        status = pipeline.status()
        waiting = sum(source.pending for source in status.inputs)
        return ReplayResult(
            snapshot=memory.snapshot(),
            complete=bool(memory.manifest()['complete']) and not waiting,
            sequence=memory.sequence,
            messages=run.messages,
            recorded_s=loops * (end_ns - start_ns) / 1e9,
            seconds=time.perf_counter() - begun_s,
            status=status,
            skipped=router.skipped,
            missing=router.missing,
            malformed=dict(router.malformed),
            transforms_refused=dict(transforms.refused),
        )


class _Run:
    """Feeds a bag, and commits as its clock goes on."""

    def __init__(
        self, bag: Bag, router: TopicRouter, pipeline: LandmarkPipeline, clock: BagClock, interval_ns: int
    ) -> None:
        self._bag, self._router, self._pipeline, self._clock = bag, router, pipeline, clock
        self._interval_ns = interval_ns
        self.messages = 0

    def play(self, on_progress: Callable[[int], None], origin_ns: int) -> None:
        due_ns = 0
        for message in self._bag.messages(self._router.takers):
            if not self._router.has_clock:
                self._clock.now_ns = message.stamp_ns
            self._router.take(message.topic, message.data)
            # A transform may have arrived that an earlier message waits for.
            self._pipeline.poll()
            self.messages += 1
            # By the time of the bag: the speed of this machine must not decide what a transaction holds.
            if message.stamp_ns >= due_ns:
                self._pipeline.commit()
                on_progress(message.stamp_ns - origin_ns)
                due_ns = message.stamp_ns + self._interval_ns
