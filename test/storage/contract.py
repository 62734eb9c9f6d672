"""The contract of a store, through the memory that stands on it: any back end must pass it.

A back end's test class inherits `StoreContract` and says in `open_memory` how a new memory is made;
one whose memories outlive their process also inherits `DurableContract` and says how one is opened
again. The clauses are in `clauses/`, one module for each part of the contract.
"""

from __future__ import annotations

from typing import Any

import pytest
from storage.clauses.answers import ExplanationClauses, PagingClauses, RankingClauses
from storage.clauses.asking import FilterClauses, MapClauses, PlaceClauses, TextClauses
from storage.clauses.base import Clauses, ManualClock, contents, fact, near, only, spans, thing
from storage.clauses.belief import BeliefClauses
from storage.clauses.correcting import CorrectionClauses
from storage.clauses.forgetting import EndClauses, ForgetClauses, RetractClauses
from storage.clauses.merging import MergeClauses
from storage.clauses.records import (
    AuditClauses,
    FeedClauses,
    HistoryClauses,
    PurgeClauses,
    RestoreClauses,
    SnapshotClauses,
)
from storage.clauses.timelines import KeylessClauses, TimelineClauses
from storage.clauses.writing import ConcurrencyClauses, WorkingClauses, WritingClauses

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import ClockError, ConfigurationError, EpochChangedError
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.perception import RigidCorrection
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.transforms import Transform

__all__ = ['DurableContract', 'StoreContract']


class StoreContract(
    TimelineClauses,
    KeylessClauses,
    MergeClauses,
    ForgetClauses,
    EndClauses,
    RetractClauses,
    BeliefClauses,
    PlaceClauses,
    MapClauses,
    FilterClauses,
    TextClauses,
    RankingClauses,
    ExplanationClauses,
    PagingClauses,
    WritingClauses,
    ConcurrencyClauses,
    WorkingClauses,
    HistoryClauses,
    FeedClauses,
    AuditClauses,
    SnapshotClauses,
    PurgeClauses,
    RestoreClauses,
    CorrectionClauses,
):
    """Everything that holds while a memory is open."""


class DurableContract(Clauses):
    """What holds across a restart."""

    def reopen(
        self, memory: MemoryService, clock: ManualClock, config: MemoryConfig | None = None, **options: Any
    ) -> MemoryService:
        """Close a memory and return it opened again."""
        raise NotImplementedError

    def test_everything_is_there_again(self, clock: ManualClock) -> None:
        memory = self.open_memory(clock)
        memory.write([fact('A', 1), fact('B', 2)], request_id='r1')
        memory.set_map('hall')
        memory.write([thing(0.0, 1, key='cup', content='red cup')])
        first = memory.write([thing(9.0, 1, key='pot', content='red pot')], request_id='r2')
        assert memory.forget(MemoryQuery(key='cup')) == 1
        memory.purge(MemoryQuery(key='pot'))
        memory.write([thing(3.0, 1, key='pan')])
        moved = memory.correct_map(RigidCorrection(Transform((1.0, 0.0, 0.0))))
        before = (
            memory.snapshot(),
            memory.manifest(),
            memory.sequence,
            memory.epoch,
            memory.counts(),
            memory.changes(),
        )
        line, past = spans(memory), memory.history(key='mug')
        with self.reopen(memory, clock, map_id='hall') as memory:
            after = (
                memory.snapshot(),
                memory.manifest(),
                memory.sequence,
                memory.epoch,
                memory.counts(),
                memory.changes(),
            )
            assert after == before
            assert (spans(memory), memory.history(key='mug')) == (line, past)
            assert contents(memory.query(MemoryQuery(key='mug', as_of=1.5))) == ['A']
            for query in (MemoryQuery(key='cup'), MemoryQuery(text='red'), near(0.0, 3.0)):
                assert memory.query(query).total == 0
            assert only(memory.query(near(0.0, 1.0, as_of=1.5))).ended_by == 'forget'
            assert only(memory.query(near(4.0, 0.0))).item.key == 'pan'
            memory.revert_correction(moved.correction_id)
            assert only(memory.query(near(3.0, 0.0))).item.key == 'pan'
            assert memory.write([fact('A', 1), fact('B', 2)], request_id='r1').sequence == 1
            assert memory.write([thing(9.0, 1, key='pot')], request_id='r2').sequence > first.sequence
            memory.set_map('hall', create=False)
            assert memory.verify().ok

    def test_working_memory_is_not(self, clock: ManualClock) -> None:
        memory = self.open_memory(clock)
        memory.write([fact('goal', 1, kind='working')])
        with self.reopen(memory, clock) as memory:
            assert memory.query(MemoryQuery(key='mug')).total == 0

    def test_time_does_not_run_backwards_over_a_restart(self, clock: ManualClock) -> None:
        memory = self.open_memory(clock)
        memory.write([fact('A')])
        clock.set(950)
        with self.reopen(memory, clock) as memory:
            memory.write([fact('B')])
            assert spans(memory) == [('B', 1000, None)]
            assert memory.query(MemoryQuery(key='mug')).total == 1

    def test_a_clock_far_behind_is_refused_unless_accepted(self, clock: ManualClock) -> None:
        memory = self.open_memory(clock)
        clock.set(5000)
        memory.write([fact('A', 1)])
        clock.set(5000 - 3601)
        with pytest.raises(ClockError, match='accept_older_clock'):
            self.reopen(memory, clock)
        with self.reopen(memory, clock, MemoryConfig(accept_older_clock=True)) as memory:
            assert memory.query(MemoryQuery(key='mug')).total == 1
        clock.set(5000 - 3600)
        with self.reopen(memory, clock) as memory:
            assert memory.query(MemoryQuery(key='mug')).total == 1

    def test_the_identity_scope_may_not_change(self, clock: ManualClock) -> None:
        memory = self.open_memory(clock)
        memory.write([fact('A', 1)])
        with pytest.raises(ConfigurationError, match='identity_scope'):
            self.reopen(memory, clock, MemoryConfig(identity_scope=('map_id', 'robot_id')))
        with self.reopen(memory, clock) as memory:
            assert memory.query(MemoryQuery(key='mug')).total == 1

    def test_a_page_goes_on_after_a_restart(self, clock: ManualClock) -> None:
        memory = self.open_memory(clock)
        memory.write([thing(n, key=f'k{n}') for n in range(10)])
        whole = list(memory.query(near(0.0, 50.0)))
        first = memory.query(near(0.0, 50.0, k=4))
        with self.reopen(memory, clock) as memory:
            rest = memory.query(near(0.0, 50.0, k=100, cursor=first.cursor))
            assert [hit.item for hit in (*first, *rest)] == [hit.item for hit in whole]

    def test_a_restore_outlives_a_restart(self, clock: ManualClock, tmp_path: Any) -> None:
        memory = self.open_memory(clock)
        memory.write([thing(0.0, 1, key='mug')])
        before = memory.epoch
        memory.snapshot(str(tmp_path / 'copy.db'))
        memory.write([thing(5.0, 1, key='cup')])
        memory.restore(str(tmp_path / 'copy.db'))
        epoch, digest = memory.epoch, memory.snapshot()
        with self.reopen(memory, clock) as memory:
            assert (memory.epoch, memory.snapshot()) == (epoch, digest)
            assert memory.query(near(0.0, 50.0)).total == 1
            with pytest.raises(EpochChangedError):
                memory.changes((before, 0))
