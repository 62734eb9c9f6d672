"""Placement of poses in the global frame, at their stamps, without blocking.

A draft is placed at once when its transform is known; otherwise it holds the future that a coroutine awaits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal

from hylo_memory_ros.errors import ClockError, FrameError, TransformTooNewError
from hylo_memory_ros.model import MemoryItem, MemoryKind, MemoryQuery, Pose
from hylo_memory_ros.transforms import LATEST, PendingLookups, Transform


@dataclass(frozen=True, slots=True)
class Draft:
    """A statement, and the transform that its pose needs."""

    item: MemoryItem
    """The statement as it was received."""
    index: int = 0
    """Its index in the request."""
    stamp_ns: int = 0
    """Time of the transform, nanoseconds."""
    future: Future[Transform] | None = None
    """The transform, perhaps pending; None: none is needed."""


class Placement:
    """Transforms poses and centres into the global frame.

    Parameters
    ----------
    pending : PendingLookups
        Pending lookups of transforms.
    global_frame : str
        Fixed frame in which poses are stored.
    untransformable : {'reject', 'keep_frame'}
        Treatment of a pose whose transform is refused.
    max_age_s : float
        Largest age of the newest transform of a centre without a stamp, seconds; 0: any.
    clock : callable
        The node's clock, nanoseconds; 0 while it has not started.

    Notes
    -----
    Threads: any.
    """

    def __init__(
        self,
        pending: PendingLookups,
        global_frame: str,
        untransformable: Literal['reject', 'keep_frame'],
        *,
        max_age_s: float,
        clock: Callable[[], int],
    ) -> None:
        self._pending = pending
        self._max_age_s, self._clock = max_age_s, clock
        self.global_frame = global_frame
        self._keeps = untransformable == 'keep_frame'
        self.kept = 0
        """Poses kept in their own frame because their transform was refused."""

    def draft_items(self, items: Sequence[MemoryItem], now_ns: int) -> list[Draft]:
        """Look up the transform of each pose that is in another frame, once for each frame and stamp.

        Parameters
        ----------
        items : sequence of MemoryItem
            As received.
        now_ns : int
            The node's clock, the stamp of poses without one. 0: it has not started.

        Raises
        ------
        ClockError
            If a stamp is missing and the clock has not started.
        """
        lookups: dict[tuple[str, int], Future[Transform]] = {}
        drafts = []
        for index, item in enumerate(items):
            pose = item.pose
            stamp_ns = now_ns if pose is None or pose.stamp_ns is None else pose.stamp_ns
            timed = item.valid_from_ns is not None or item.event_time is not None
            needs = (
                pose is not None and pose.frame_id != self.global_frame and item.kind != MemoryKind.WORKING
            )
            if not stamp_ns and (needs or not timed):
                raise ClockError(
                    f'items[{index}].header.stamp: 0, and the clock is not started (no /clock was received): '
                    'give the stamp of the observation',
                    index=index,
                )
            if not needs or pose is None:
                drafts.append(Draft(item, index))
                continue
            key = (pose.frame_id, stamp_ns)
            if key not in lookups:
                lookups[key] = self._pending.submit(self.global_frame, *key)
            drafts.append(Draft(item, index, stamp_ns, lookups[key]))
        return drafts

    def place(self, draft: Draft) -> MemoryItem:
        """Return the statement to store of a draft whose lookup is done.

        Raises
        ------
        FrameError
            If the transform was refused and such poses are rejected.
        """
        if draft.future is None:
            return draft.item
        item, pose = draft.item, draft.item.pose
        assert pose is not None
        try:
            transform = draft.future.result(timeout=0)
        except FrameError as exc:
            if not self._keeps:
                raise type(exc)(f'items[{draft.index}].header: {exc.message}', **exc.details) from exc
            self.kept += 1
            return item
        origin = {
            'frame_id': pose.frame_id,
            'stamp_ns': draft.stamp_ns,
            'stamp_assumed': pose.stamp_ns is None,
            'translation': list(transform.translation),
            'rotation': list(transform.rotation),
        }
        return item.model_copy(
            update={'pose': _move(pose, transform), 'provenance': {**item.provenance, 'transform': origin}}
        )

    def needs_centre(self, query: MemoryQuery) -> bool:
        """Return whether the centre of a query is in another frame."""
        return query.near is not None and query.near[0].frame_id != self.global_frame

    def place_query(
        self, query: MemoryQuery, transform: Future[Transform] | None
    ) -> MemoryQuery | Future[Transform]:
        """Return a query with its centre in the global frame, or the pending transform that it needs.

        Parameters
        ----------
        query : MemoryQuery
            The query.
        transform : Future or None
            The transform that an earlier call returned, now done.

        Raises
        ------
        FrameError
            If the transform was refused, or is the latest and older than `max_age_s`, unless poses are kept
            in their own frame: then the query keeps its frame too.
        """
        if query.near is None or not self.needs_centre(query):
            return query
        centre, radius_m = query.near
        if transform is None:
            stamp_ns = LATEST if centre.stamp_ns is None else centre.stamp_ns
            transform = self._pending.submit(self.global_frame, centre.frame_id, stamp_ns)
        if not transform.done():
            return transform
        try:
            found = transform.result(timeout=0)
            if centre.stamp_ns is None:
                self._check_age(found)
            moved = _move(centre, found)
        except FrameError:
            if not self._keeps:
                raise
            return query
        return query.model_copy(update={'near': (moved, radius_m)})

    def _check_age(self, latest: Transform) -> None:
        """Refuse a latest transform that is too old to say where its frame is now."""
        age_s = (self._clock() - latest.stamp_ns) / 1e9
        # Static transforms have no stamp, and hold always.
        if self._max_age_s and latest.stamp_ns and age_s > self._max_age_s:
            raise TransformTooNewError(
                f'near.header: the newest transform from {latest.source_frame!r} to {latest.target_frame!r} '
                f'is of {latest.stamp_ns / 1e9:.3f} s, {age_s:.3f} s before the clock, more than '
                f'tf_max_age_s {self._max_age_s:g}: give the stamp at which the place is meant, or see who '
                'publishes tf',
                target_frame=latest.target_frame,
                source_frame=latest.source_frame,
                stamp_ns=latest.stamp_ns,
                age_s=age_s,
            )


def _move(pose: Pose, transform: Transform) -> Pose:
    turn, cov = pose.orientation, pose.covariance
    return Pose(
        frame_id=transform.target_frame,
        position=transform.position(pose.position),
        orientation=None if turn is None else transform.orientation(turn),
        covariance=None if cov is None else transform.covariance(cov),
        stamp_ns=pose.stamp_ns or transform.stamp_ns or None,
    )
