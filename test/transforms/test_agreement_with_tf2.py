"""The stand-in against tf2 itself: any history of transforms, any question, one answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.effort import scaled

from hylo_memory_ros.errors import (
    DisconnectedFrameError,
    FrameError,
    TransformTooNewError,
    TransformTooOldError,
    UnknownFrameError,
)
from hylo_memory_ros.transforms import Transform, TransformBuffer

tf2 = pytest.importorskip('tf2_py', reason='tf2_py is not installed: the ROS wheels of PyPI lack tf2')

KEEP_NS = 20

frames = st.sampled_from('abcde')
stamps = st.integers(1, 60)
coordinates = st.floats(-10.0, 10.0, allow_subnormal=False)
vectors = st.tuples(coordinates, coordinates, coordinates)
parts = st.floats(-1.0, 1.0, allow_subnormal=False)
quaternions = (
    st.tuples(parts, parts, parts, parts)
    .filter(lambda q: sum(p * p for p in q) > 1e-2)
    .map(lambda q: tuple(float(p) for p in np.array(q) / np.linalg.norm(q)))
)
transforms = st.tuples(frames, frames, stamps, vectors, quaternions, st.booleans())
questions = st.tuples(frames, frames, st.one_of(st.just(0), stamps))


class Pair:
    """A stand-in and a tf2 buffer that were told the same."""

    def __init__(self) -> None:
        from rclpy.duration import Duration

        self.ours = TransformBuffer(keep_s=KEEP_NS / 1e9)
        self.core: Any = tf2.BufferCore(Duration(nanoseconds=KEEP_NS))
        self.cleared = False

    def tell(self, parent: str, child: str, stamp_ns: int, vector: Any, rotation: Any, static: bool) -> None:
        from geometry_msgs.msg import TransformStamped

        known, refused = self.ours.frames(), self.ours.refused.get('loop', 0)
        taken = self.ours.set_transform(parent, child, stamp_ns, vector, rotation, static=static)
        # tf2 takes a link that closes a loop, and answers nothing about its frames from then on; and it
        # remembers the names of what it refuses.
        if self.ours.refused.get('loop', 0) > refused or (not taken and parent not in known):
            return
        message = TransformStamped(child_frame_id=child)
        message.header.frame_id = parent
        message.header.stamp.nanosec = stamp_ns
        offset, turn = message.transform.translation, message.transform.rotation
        offset.x, offset.y, offset.z = vector
        turn.x, turn.y, turn.z, turn.w = rotation
        (self.core.set_transform_static if static else self.core.set_transform)(message, 'test')

    def clear(self) -> None:
        self.ours.clear()
        self.core.clear()
        self.cleared = True

    def their_answer(self, target: str, source: str, stamp_ns: int) -> Transform | str:
        from rclpy.time import Time

        try:
            found = self.core.lookup_transform_core(target, source, Time(nanoseconds=stamp_ns))
        except tf2.TransformException as exc:
            return str(exc)
        move = found.transform
        return Transform(
            (move.translation.x, move.translation.y, move.translation.z),
            (move.rotation.x, move.rotation.y, move.rotation.z, move.rotation.w),
            target,
            source,
            found.header.stamp.sec * 10**9 + found.header.stamp.nanosec,
        )

    def our_answer(self, target: str, source: str, stamp_ns: int) -> Transform | type[Exception]:
        try:
            return self.ours.lookup(target, source, stamp_ns)
        except FrameError as exc:
            return type(exc)


def _names(theirs: str, cleared: bool) -> set[type[Exception]]:
    """Return how a refusal of tf2 may be named by us.

    tf2, where its walk up a tree ends for want of data, does not look whether the frames hang
    together at all, and may name a link above the two frames that their answer does not need. A
    frame that only forgotten transforms named is unknown to us, and without data to tf2.
    """
    names: set[type[Exception]] = {UnknownFrameError} if cleared else set()
    if 'does not exist' in theirs:
        return names | {UnknownFrameError}
    if 'not part of the same tree' in theirs:
        return names | {DisconnectedFrameError}
    return names | {DisconnectedFrameError, TransformTooOldError, TransformTooNewError}


@settings(max_examples=scaled(400), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(transforms, min_size=1, max_size=25),
    st.lists(transforms, max_size=10),
    st.booleans(),
    st.lists(questions, min_size=1, max_size=12),
)
def test_every_question_has_the_same_answer(
    before: list[Any], after: list[Any], clear: bool, asked: list[tuple[str, str, int]]
) -> None:
    pair = Pair()
    for item in before:
        pair.tell(*item)
    if clear:
        pair.clear()
    for item in after:
        pair.tell(*item)
    for target, source, stamp_ns in asked:
        ours, theirs = pair.our_answer(target, source, stamp_ns), pair.their_answer(target, source, stamp_ns)
        if isinstance(theirs, str) and 'contains a loop' in theirs:
            continue  # two frames swapped places: tf2 walks round and round between the samples
        if isinstance(theirs, Transform):
            assert isinstance(ours, Transform), (target, source, stamp_ns, ours)
            _same(ours, theirs)
        else:
            assert not isinstance(ours, Transform), (target, source, stamp_ns, theirs)
            # "Latest" waits when a link was handed over later than the other links reach.
            waits = stamp_ns == 0 and ours is TransformTooNewError
            assert waits or ours in _names(theirs, clear), (target, source, stamp_ns, theirs)


def _same(ours: Transform, theirs: Transform) -> None:
    if ours.target_frame != ours.source_frame:
        assert ours.stamp_ns == theirs.stamp_ns
    assert np.allclose(ours.translation, theirs.translation, rtol=0, atol=1e-6)
    # q and -q are one rotation.
    assert abs(float(np.dot(ours.rotation, theirs.rotation))) > 1 - 1e-9
