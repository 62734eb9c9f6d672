"""Clauses: a map that moves changes what is believed, not what was true when, and can be taken back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from storage.clauses.base import Clauses, ManualClock, fact, near, only, place, spans, state_of, thing

from hylo_memory_ros.errors import IdConflictError, InvalidRequestError, NotFoundError
from hylo_memory_ros.model import MemoryQuery, Pose
from hylo_memory_ros.perception import PathCorrection, RigidCorrection, Trajectory
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.transforms import Transform

NS = 10**9


def shift(x: float, y: float = 0.0, z: float = 0.0) -> RigidCorrection:
    return RigidCorrection(Transform((x, y, z)))


def where(memory: MemoryService, key: str = 'mug', **axes: object) -> list[float]:
    """Return the x of what is under a key, whenever it holds, in order of world time."""
    hits = memory.query(MemoryQuery(key=key, include_invalidated=True, k=100, **axes))
    return [hit.item.pose.position[0] for hit in sorted(hits, key=lambda hit: hit.item.valid_from_ns)]


class CorrectionClauses(Clauses):
    """`correct_map` and `revert_correction`."""

    def test_every_version_moves_and_keeps_its_id_and_interval(self, memory: MemoryService) -> None:
        memory.write([thing(1.0, 1, 'mug'), thing(2.0, 5, 'mug')])
        before = memory.history(key='mug').versions
        done = memory.correct_map(shift(10.0))
        assert (done.moved, done.merged, done.split, done.sequence) == (2, 0, 0, 2)
        assert where(memory) == [11.0, 12.0]
        assert where(memory, known_seq=1) == [1.0, 2.0]
        assert only(memory.query(MemoryQuery(key='mug', as_of=3))).item.pose.position[0] == 11.0
        assert only(memory.query(MemoryQuery(key='mug', as_of=3, known_seq=1))).item.pose.position[0] == 1.0
        after = [one for one in memory.history(key='mug').versions if one.to_seq is None]
        faces = [
            [(one.item.id, one.valid_from_ns, one.valid_to_ns) for one in some] for some in (before, after)
        ]
        assert faces[0] == faces[1]

    def test_the_places_are_found_where_they_are_now(self, memory: MemoryService) -> None:
        memory.write([thing(1.0, 1, 'mug')])
        memory.correct_map(shift(10.0))
        assert memory.query(near(1.0, 1.0)).total == 0
        assert memory.query(near(11.0, 1.0)).total == 1
        assert memory.query(near(1.0, 1.0, known_seq=1)).total == 1
        assert memory.query(near(11.0, 1.0, known_seq=1)).total == 0

    def test_history_names_the_correction(self, memory: MemoryService) -> None:
        memory.write([thing(1.0, 1, 'mug')])
        done = memory.correct_map(shift(10.0))
        first, second = memory.history(key='mug').versions
        assert (first.cause, first.superseded_cause, first.correction_id) == ('write', 'correct', '')
        assert (second.cause, second.superseded_cause) == ('correct', None)
        assert second.correction_id == done.correction_id

    def test_the_feed_tells_what_moved(self, memory: MemoryService) -> None:
        memory.write([thing(1.0, 1, 'mug'), fact('A', 1, 'note')])
        memory.correct_map(shift(10.0), actor='slam')
        change = memory.changes().changes[-1]
        assert (change.op, change.keys, change.outcomes, change.actor) == (
            'correct', ('mug',), ('CORRECT',), 'slam',
        )  # fmt: skip

    def test_orientation_and_covariance_turn_with_the_map(self, memory: MemoryService) -> None:
        half = math.sqrt(0.5)
        covariance = tuple(float(n) for n in np.diag([1.0, 4.0, 9.0, 0.1, 0.2, 0.3]).ravel())
        pose = Pose(
            frame_id='map', position=(1, 0, 0), orientation=(0, 0, 0, 1), covariance=covariance, stamp=1
        )
        memory.write([thing(0.0, 1, 'mug', pose=pose)])
        memory.correct_map(RigidCorrection(Transform((0.0, 0.0, 5.0), (0.0, 0.0, half, half))))
        moved = only(memory.query(MemoryQuery(key='mug'))).item.pose
        assert moved.position == pytest.approx((0.0, 1.0, 5.0))
        assert moved.orientation == pytest.approx((0.0, 0.0, half, half))
        assert np.diag(np.reshape(moved.covariance, (6, 6))) == pytest.approx([4.0, 1.0, 9.0, 0.2, 0.1, 0.3])
        assert moved.stamp_ns == NS

    def test_each_statement_moves_as_the_map_did_at_its_stamp(self, memory: MemoryService) -> None:
        stamps, still = [0, 10 * NS, 20 * NS], [(0.0, 0.0, 0.0, 1.0)] * 3
        old = Trajectory.of(stamps, [(0.0, 0.0, 0.0), (5.0, 0.0, 0.0), (10.0, 0.0, 0.0)], still)
        new = Trajectory.of(stamps, [(0.0, 0.0, 0.0), (5.0, 2.0, 0.0), (10.0, 4.0, 0.0)], still)
        pose = Pose(frame_id='map', position=(3.0, 0.0, 0.0), stamp=5)
        memory.write([thing(0.0, 20, 'stamped', pose=pose), thing(1.0, 10, 'dated'), thing(2.0, 0, 'first')])
        assert memory.correct_map(PathCorrection(old, new)).moved == 2
        ys = {key: only(memory.query(MemoryQuery(key=key, as_of=30))).item.pose.position[1]
              for key in ('stamped', 'dated', 'first')}  # fmt: skip
        assert ys == pytest.approx({'stamped': 1.0, 'dated': 2.0, 'first': 0.0})

    def test_other_maps_other_frames_and_what_has_no_place_stay(self, memory: MemoryService) -> None:
        memory.set_map('hall')
        memory.write([thing(1.0, 1, 'here'), thing(1.0, 1, 'there', scope={'map_id': 'lab'})])
        memory.write([thing(1.0, 1, 'kept', pose=place(1.0, frame='odom')), fact('A', 1)])
        assert memory.correct_map(shift(10.0)).moved == 1
        assert [where(memory, key) for key in ('here', 'there', 'kept')] == [[11.0], [1.0], [1.0]]
        assert memory.correct_map(shift(10.0), map_id='lab').moved == 1
        assert where(memory, 'there') == [11.0]

    def test_forgotten_and_closed_versions_move_too(self, memory: MemoryService, clock: ManualClock) -> None:
        memory.write([thing(1.0, 1, 'mug')])
        memory.forget(MemoryQuery(key='mug'))
        clock.set(2000)
        memory.correct_map(shift(10.0))
        assert only(memory.query(MemoryQuery(key='mug', as_of=5))).ended_by == 'forget'
        assert where(memory) == [11.0]
        assert memory.query(MemoryQuery(key='mug')).total == 0
        again = memory.write([thing(1.0, 1, 'mug')]).events[0]
        assert (again.event, again.reason) == ('SKIP_DUP', 'forgotten')

    def test_the_same_write_again_is_the_same_statement(self, memory: MemoryService) -> None:
        first = memory.write([thing(1.0, 1, 'mug'), thing(7.0, None)]).events
        memory.correct_map(shift(10.0))
        events = memory.write([thing(1.0, 1, 'mug'), thing(7.0, None)]).events
        assert [(e.event, e.id) for e in events] == [('SKIP_DUP', e.id) for e in first]
        assert where(memory) == [11.0]
        with pytest.raises(IdConflictError):
            memory.write([thing(11.0, 1, 'mug', id=first[0].id)])
        memory.correct_map(shift(1.0))
        memory.retract(MemoryQuery(ids=[first[0].id]))
        assert memory.query(MemoryQuery(key='mug', include_invalidated=True)).total == 0

    def test_a_later_write_means_the_map_as_it_is_now(self, memory: MemoryService) -> None:
        memory.write([thing(1.0, 1, 'mug')])
        memory.correct_map(shift(10.0))
        assert memory.write([thing(1.0, 5, 'mug')]).events[0].event == 'INVALIDATE'
        assert where(memory) == [11.0, 1.0]
        memory.write([thing(11.0, 3, 'mug')])
        assert spans(memory) == [('', 1, 5), ('', 5, None)]

    def test_a_late_fact_splits_what_was_corrected(self, memory: MemoryService) -> None:
        memory.write([thing(1.0, 1, 'mug'), thing(1.0, 9, 'mug')])
        memory.correct_map(shift(10.0))
        memory.write([thing(3.0, 5, 'mug')])
        assert where(memory) == [11.0, 3.0, 11.0]
        assert [span[1:] for span in spans(memory)] == [(1, 5), (5, 9), (9, None)]
        memory.retract(MemoryQuery(key='mug', as_of=6))
        assert (where(memory), [span[1:] for span in spans(memory)]) == ([11.0], [(1, None)])

    def test_what_a_retraction_brings_back_is_where_the_map_is_now(self, memory: MemoryService) -> None:
        memory.write([thing(1.0, 1, 'mug'), thing(2.0, 1, 'mug')])
        memory.correct_map(shift(10.0))
        assert where(memory) == [12.0]
        memory.retract(MemoryQuery(key='mug'))
        assert where(memory) == [11.0]

    def test_the_snapshot_is_of_what_is_believed(self, memory: MemoryService, clock: ManualClock) -> None:
        memory.write([thing(1.0, 1, 'mug')])
        before = memory.snapshot()
        memory.correct_map(shift(10.0))
        with self.open_memory(clock) as other:
            other.write([thing(11.0, 1, 'mug')])
            assert other.snapshot() == memory.snapshot() != before

    def test_a_reversal_gives_back_the_memory_before_bit_for_bit(self, memory: MemoryService) -> None:
        awkward = [thing(0.1 * n, n, f'k{n % 7}', pose=place(0.1 * n, 1 / 3, -1e-7)) for n in range(1, 40)]
        memory.write(awkward)
        memory.forget(MemoryQuery(key='k3'))
        before = (memory.snapshot(), memory.manifest()['timeline_digest'])
        faces = [where(memory, f'k{n}') for n in range(7)]
        turn = RigidCorrection(Transform((0.1, 0.2, 0.3), (0.5, 0.5, 0.5, 0.5)))
        done = memory.correct_map(turn)
        assert memory.snapshot() != before[0]
        back = memory.revert_correction(done.correction_id)
        assert back.moved == done.moved
        assert (memory.snapshot(), memory.manifest()['timeline_digest']) == before
        assert [where(memory, f'k{n}') for n in range(7)] == faces
        assert memory.verify().ok

    def test_corrections_are_taken_back_one_after_the_other(self, memory: MemoryService) -> None:
        memory.write([thing(1.0, 1, 'mug')])
        snapshots, names = [memory.snapshot()], []
        for _ in range(3):
            names.append(memory.correct_map(shift(0.1)).correction_id)
            snapshots.append(memory.snapshot())
        for name in reversed(names):
            snapshots.pop()
            memory.revert_correction(name)
            assert memory.snapshot() == snapshots[-1]
        causes = [one.correction_id for one in memory.history(key='mug').versions]
        assert causes == ['', *names, names[1], names[0], '']

    def test_a_reversal_leaves_what_was_moved_or_written_since(self, memory: MemoryService) -> None:
        memory.write([thing(1.0, 1, 'mug'), thing(1.0, 1, 'cup')])
        done = memory.correct_map(shift(10.0))
        memory.write([thing(5.0, 8, 'cup'), thing(1.0, 1, 'mug')])
        back = memory.revert_correction(done.correction_id)
        assert (back.moved, back.remark) == (2, '')
        assert [where(memory, 'mug'), where(memory, 'cup')] == [[1.0], [1.0, 5.0]]
        done = memory.correct_map(shift(10.0))
        memory.correct_map(shift(100.0))
        back = memory.revert_correction(done.correction_id)
        assert back.moved == 0
        assert 'moved again since' in back.remark
        assert where(memory, 'mug') == [111.0]

    def test_a_rehearsal_counts_and_changes_nothing(self, memory: MemoryService) -> None:
        memory.write([thing(1.0, 1, 'mug'), thing(2.0, 5, 'mug')])
        before = state_of(memory)
        rehearsal = memory.correct_map(shift(10.0), dry_run=True)
        assert (rehearsal.moved, rehearsal.sequence) == (2, 0)
        assert state_of(memory) == before
        done = memory.correct_map(shift(10.0))
        before = state_of(memory)
        assert memory.revert_correction(done.correction_id, dry_run=True).moved == 2
        assert state_of(memory) == before

    def test_a_correction_that_moves_nothing_is_recorded_and_leaves_all_as_it_is(
        self, memory: MemoryService
    ) -> None:
        memory.write([thing(1.0, 1, 'mug')])
        before = memory.snapshot()
        done = memory.correct_map(shift(0.0))
        assert (done.moved, done.sequence) == (0, 2)
        assert memory.snapshot() == before
        assert len(memory.history(key='mug').versions) == 1

    def test_what_cannot_be_done_is_refused_and_changes_nothing(self, memory: MemoryService) -> None:
        memory.write([thing(1.0, 1, 'mug')])
        done = memory.correct_map(shift(1.0))
        back = memory.revert_correction(done.correction_id)
        before = state_of(memory)
        with pytest.raises(NotFoundError, match='map_id'):
            memory.correct_map(shift(1.0), map_id='cellar')
        with pytest.raises(NotFoundError, match="revert_id: 'correction/0' names no correction"):
            memory.revert_correction('correction/0')
        with pytest.raises(InvalidRequestError, match='taken back before'):
            memory.revert_correction(done.correction_id)
        with pytest.raises(InvalidRequestError, match='is a reversal'):
            memory.revert_correction(back.correction_id)
        with pytest.raises(InvalidRequestError, match='beyond 1e'):
            memory.correct_map(shift(1e9))
        assert state_of(memory) == before

    def test_a_purge_leaves_nothing_of_what_was_corrected(self, memory: MemoryService) -> None:
        memory.write([thing(1.0, 1, 'mug'), thing(1.0, 1, 'cup')])
        done = memory.correct_map(shift(1.0))
        memory.purge(MemoryQuery(key='mug'))
        assert memory.query(MemoryQuery(key='mug', known_seq=2, include_invalidated=True)).total == 0
        assert memory.revert_correction(done.correction_id).moved == 1
        assert where(memory, 'cup') == [1.0]

    def test_text_and_vectors_find_what_was_corrected(self, memory: MemoryService) -> None:
        memory.write([thing(1.0, 1, 'mug', content='red mug', label='mug')])
        memory.correct_map(shift(1.0))
        for query in (MemoryQuery(text='red'), MemoryQuery(labels=['mug']), MemoryQuery(kinds=['spatial'])):
            assert only(memory.query(query)).item.pose.position[0] == 2.0
