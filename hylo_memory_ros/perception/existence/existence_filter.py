"""What follows from a message for the existence of all landmarks, seen or not.

What tells of visibility is ordered with the observations: a depth image and its camera are messages
of inputs that are waited for like any other, so that the image for an observation is there when it
is processed, or its input is silent. A map holds from its stamp on and is taken as it comes.
"""

from __future__ import annotations

from collections import deque
from typing import Literal, NamedTuple

import numpy as np

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.perception.existence.absence import Absence
from hylo_memory_ros.perception.existence.receipts import absence_receipt, displacement_receipt
from hylo_memory_ros.perception.existence.relocation_detection import displace, displacements
from hylo_memory_ros.perception.existence.visibility import (
    CameraModel,
    DepthImage,
    GridView,
    StampedWitness,
    Views,
)
from hylo_memory_ros.perception.ingestion.observation import Message
from hylo_memory_ros.perception.ingestion.scan import Scan
from hylo_memory_ros.perception.map.columns import NEVER
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.receipts import Receipt
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.data_association import Ending, Outcome
from hylo_memory_ros.perception.tracking.update import Update
from hylo_memory_ros.transforms import Transform

__all__ = ['Consequences', 'Existence']


# Age of a depth image, relative to the observation that it is a witness for, seconds.
_VISIBILITY_TOLERANCE_S = 0.1
# Stamps and digests by which a map that is sent again is known.
_GRIDS_KEPT = 1024


class Consequences(NamedTuple):
    """What has to be said besides what association says, in this order."""

    endings: list[Ending]
    """What has ended."""
    items: list[MemoryItem]
    """What is elsewhere now."""
    receipts: list[Receipt]
    """Why."""


class Existence:
    """Judges what is there, what is gone and what has moved.

    Parameters
    ----------
    settings : LandmarkSettings
        Fields of view, probabilities, thresholds.
    """

    def __init__(self, settings: LandmarkSettings) -> None:
        self.absence = Absence(settings)
        """What hits, misses and reports are worth."""
        self._settings = settings
        self._inputs = {source.name: source for source in settings.inputs}
        self._update = Update(settings)
        self._views = Views()
        self._grids: dict[str, deque[tuple[int, int]]] = {}
        self._judged_ns: dict[str, int] = {}
        self._tolerance_ns = round(_VISIBILITY_TOLERANCE_S * 1e9)

    def take_view(self, message: Message, global_from_sensor: Transform) -> None:
        """Take what a message tells of visibility, in the order of stamps."""
        view = message.view
        if isinstance(view, CameraModel):
            self._views.add_camera(message.input, view)
        elif isinstance(view, DepthImage):
            camera = self._views.camera(self._inputs[message.input].camera_info)
            if camera is not None:
                placed = view.placed(camera, global_from_sensor)
                self._views.add_image(message.input, message.stamp_ns, placed)

    def take_grid(
        self, message: Message, grid: GridView, settled_ns: int
    ) -> Literal['pending', 'repeated', 'late']:
        """Take a map of what stands in the way, as it comes; ``late``: something was judged without it."""
        known = self._grids.setdefault(message.input, deque(maxlen=_GRIDS_KEPT))
        name = message.stamp_ns, message.digest
        if name in known:
            return 'repeated'
        known.append(name)
        self._views.add_grid(message.input, message.stamp_ns, grid, settled_ns)
        return 'late' if message.stamp_ns <= self._judged_ns.get(message.input, -1) else 'pending'

    def forget_images(self) -> None:
        """Forget what was seen before the clock went back; maps stay, they are not sent again."""
        self._views.clear_images()

    def forget_views(self) -> None:
        """Forget what was told of visibility: this is another map."""
        self._views.clear()
        self._grids.clear()
        self._judged_ns.clear()

    def observe(self, scan: Scan, outcome: Outcome, book: LandmarkMap) -> Consequences:
        """Take what a message shows, and what it does not, after association has taken it."""
        seen = np.empty(0, dtype=np.int64) if outcome.seen is None else outcome.seen
        seen = seen[book.state['forgotten_ns'][seen] == NEVER]
        missed = self.absence.observe(scan, seen, self._witness(scan), book)
        follows = Consequences([], [], [])
        if len(missed.rows):
            told_by = '' if missed.witness_ns is None else self._inputs[scan.input].visibility
            follows.receipts.append(absence_receipt(scan, missed, told_by, book, self._settings))
        for row in missed.gone.tolist():
            if ending := end(row, scan.stamp_ns, 'seen absent', book):
                follows.endings.append(ending)
        if follows.endings or outcome.items:
            self._displace(scan, follows, book)
        return follows

    def _witness(self, scan: Scan) -> StampedWitness | None:
        source = self._inputs[scan.input]
        if not (source.watches and source.visibility):
            return None
        judged_ns = self._judged_ns.get(source.visibility, -1)
        self._judged_ns[source.visibility] = max(judged_ns, scan.stamp_ns)
        return self._views.at(source.visibility, scan.stamp_ns, self._tolerance_ns)

    def _displace(self, scan: Scan, follows: Consequences, book: LandmarkMap) -> None:
        endings, items, receipts = follows
        for one in displacements(scan.stamp_ns, book, self._settings):
            before, after = book.keys[one.before], book.keys[one.after]
            unsaid = [ending for ending in endings if ending.key == before]
            for ending in unsaid:
                endings.remove(ending)
            # It never was a thing of its own.
            written_ns = int(book.state['written_ns'][one.after])
            endings.append(Ending(after, written_ns, f'{before} moved here', before))
            receipts.append(displacement_receipt(scan, one.before, one.after, book, self._settings))
            displace(one, scan.stamp_ns, book, ended=not unsaid)
            items += self._update.written(scan, np.array([one.before]), book)


def end(row: int, at_ns: int, reason: str, book: LandmarkMap) -> Ending | None:
    """Let a landmark end, and return what has to be said of it: nothing, if nothing was."""
    written_ns, key = int(book.state['written_ns'][row]), book.keys[row]
    if written_ns == NEVER:
        book.remove(row)
        return None
    book.forget(row, at_ns)
    return Ending(key, max(at_ns, written_ns), reason)
