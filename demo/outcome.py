"""What the memory made of the drive: its landmarks, and how well detections were told apart."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from demo.drive import Drive
from demo.score import Score, pairwise_score
from hylo_memory_ros.cli.options import open_memory_file
from hylo_memory_ros.cli.plot import Place, places_in
from hylo_memory_ros.model import MAX_K, MemoryQuery

__all__ = ['Outcome', 'outcome_of']


@dataclass(frozen=True, slots=True)
class Outcome:
    """Read from the memory file while the node has it."""

    score: Score
    """Of the ledger against the true trees."""
    landmarks: int
    """That the association holds, tentative ones included."""
    confirmed: int
    """Those that were written."""
    places: list[Place]
    """All of them, to be drawn."""


def outcome_of(drive: Drive, database: Path) -> Outcome:
    """Read the live memory file of a node, without its lock, and score it.

    Raises
    ------
    RuntimeError
        The ledger lacks detections that were replayed.
    """
    with open_memory_file(database) as memory:
        with memory.read() as view:
            given = {
                (record.stamp_ns, record.detection): record.landmark for record in view.ledger.observations()
            }
            tentative = [Place(x, y, label, tentative=True) for x, y, label in view.landmarks.tentative()]
        confirmed = list(places_in(memory, MemoryQuery(labels=('tree',), any_map=True, k=MAX_K), 'map'))
    names = drive.detection_names()
    if missing := len(names) - len(given.keys() & set(names)):
        raise RuntimeError(f'{missing} of {len(names)} detections are not in the ledger')
    score = pairwise_score([given[name] for name in names], drive.trees.tolist())
    return Outcome(score, len(confirmed) + len(tentative), len(confirmed), [*confirmed, *tentative])
