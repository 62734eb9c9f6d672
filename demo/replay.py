"""The whole job with one node: replay, snapshot, score, questions, map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.progress import Progress, TaskID

from demo.bag import Recorded
from demo.drive import Drive
from demo.memory_client import MemoryClient
from demo.node_process import NodeProcess
from demo.outcome import Outcome, outcome_of
from demo.player import Player
from demo.questions import RADIUS_M, Answer, questions
from hylo_memory_ros.cli.plot import Circle, MapPicture

__all__ = ['Replay', 'replayed']


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of it."""

    outcome: Outcome
    """Landmarks and score."""
    answers: list[Answer]
    """To the questions of the demonstration."""
    snapshot: str
    """Hash of the memory before anything was forgotten."""
    complete: bool
    """Whether the node says that no observation was dropped or late."""


def replayed(
    drive: Drive,
    recorded: Sequence[Recorded],
    node: NodeProcess,
    out: Path,
    loops: int,
    progress: Progress,
    task: TaskID,
) -> Replay:
    """Play a bag into a node that was started, and ask it.

    Parameters
    ----------
    drive : Drive
        What is in the bag, and the truth about it.
    recorded : sequence of Recorded
        The bag.
    node : NodeProcess
        A running node with an empty memory.
    out : Path
        Folder of the memory file; the map goes there too.
    loops : int
        How often the bag is played.
    progress, task
        What is told of the progress.
    """
    progress.update(task, description='waiting for the node')
    client = MemoryClient(lambda: node.alive)
    try:
        player = Player(client, recorded)
        client.wait_for_node()
        player.wait_for_listener()
        for loop in range(loops):
            _play(player, drive, loop, progress, task)
        progress.update(task, description='asking', total=None)
        taken = client.call('snapshot')
        outcome = outcome_of(drive, out / 'memory.db')
        answers = list(questions(client, drive))
    finally:
        client.close()
    progress.update(task, description='drawing')
    _draw(drive, outcome, out / 'map.png')
    return Replay(outcome, answers, taken.digest, taken.complete)


def _play(player: Player, drive: Drive, loop: int, progress: Progress, task: TaskID) -> None:
    progress.update(
        task,
        description='replaying the drive' if not loop else f'replaying it again ({loop + 1})',
        total=drive.end_ns - drive.start_ns,
        completed=0,
    )

    def told(stamp_ns: int) -> None:
        progress.update(task, completed=stamp_ns - drive.start_ns)

    if loop:
        player.rewind()
    # What was known half-way is asked later, so perception is committed there.
    for begin_ns, end_ns in ((drive.start_ns, drive.half_ns + 1), (drive.half_ns + 1, drive.end_ns + 1)):
        player.play(begin_ns, end_ns, told)
        player.flush(end_ns - 1)


def _draw(drive: Drive, outcome: Outcome, output: Path) -> None:
    x, y, _ = drive.poses[-1].tolist()
    minutes = (drive.end_ns - drive.start_ns) / 60e9
    title = (
        f'Victoria Park: {len(drive.trees)} detections in {minutes:.0f} min became '
        f'{outcome.landmarks} landmarks, pairwise F1 {outcome.score.f1:.4f}'
    )
    circle = Circle(x, y, RADIUS_M)
    MapPicture(outcome.places, title=title, path=drive.poses[:, :2], circle=circle).save(output)
