"""Whatever is done in whichever order around consolidations: timelines follow, and the past stays."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.clock import ManualClock

from hylo_memory_ros.config import ConsolidationSettings, MemoryConfig
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import Budget, MemoryItem, MemoryQuery, TimeSpan
from hylo_memory_ros.service import MemoryService

START_S = 1_000_000
CONFIG = MemoryConfig(consolidation=ConsolidationSettings(group_items=4, slice_items=8))
EVERYTHING = {'include_invalidated': True, 'k': 1000}


class Life:
    """Does at random what can be done to events, and remembers what was known when."""

    def __init__(self, memory: MemoryService, clock: ManualClock, seed: int) -> None:
        self._memory = memory
        self._clock = clock
        self._rng = random.Random(seed)
        self._now_s = START_S
        self._written: list[MemoryItem] = []
        self._known: dict[int, Any] = {}

    def step(self) -> None:
        """Do one thing, and hold every answer about the past against what it was."""
        self._now_s += self._rng.randrange(3)
        self._clock.set(float(self._now_s))
        act = self._rng.choice(
            (self._write, self._write, self._repeat, self._take, self._consolidate, self._revert)
        )
        # A write changes how much a word tells, so ranks of the past too; a consolidation does not.
        ranked = act in (self._consolidate, self._revert)
        asked = self._rng.sample(sorted(self._known), min(len(self._known), 5))
        before = {seq: self._answers(seq) for seq in asked} if ranked else {}
        act()
        for seq in asked:
            now = self._answers(seq)
            assert _unranked(now) == self._known[seq], f'{act.__name__} changed what was known at {seq}'
            assert not ranked or now == before[seq], (
                f'{act.__name__} changed ranks of what was known at {seq}'
            )
        self._known[self._memory.sequence] = _unranked(self._answers(self._memory.sequence))

    def _answers(self, seq: int) -> list[list[tuple[Any, ...]]]:
        asked = (EVERYTHING, {'as_of': START_S - 50.0, 'k': 1000}, {'text': 'saw mug', 'k': 1000})
        return [
            sorted(
                (hit.item.id, hit.valid_to_ns, hit.status if 'as_of' in one else '', hit.score)
                for hit in self._memory.query(MemoryQuery(known_seq=seq, **one))
            )
            for one in asked
        ]

    def _write(self) -> None:
        things = self._rng.sample(('mug', 'cup', 'door', 'box'), 2)
        items = [
            MemoryItem(
                kind='episodic', content=f'saw {thing} {self._rng.randrange(99)}', label=things[0],
                event_time=TimeSpan(start=at_s, end=at_s + 1), key=self._rng.choice((None,) * 9 + ('k',)),
            )
            for thing in things
            for at_s in [START_S - self._rng.randrange(200)]
        ]  # fmt: skip
        self._written += items
        self._memory.write(items)

    def _repeat(self) -> None:
        if self._written:
            self._memory.write([self._rng.choice(self._written)])

    def _take(self) -> None:
        ids = [str(hit.item.id) for hit in self._memory.query(MemoryQuery(k=1000, include_invalidated=True))]
        if ids:
            take = self._rng.choice((self._memory.forget, self._memory.retract))
            take(MemoryQuery(ids=(self._rng.choice(ids),)))

    def _consolidate(self) -> None:
        budget = Budget(items=self._rng.randrange(1, 12))
        dry = self._memory.consolidate(budget=budget, dry_run=True)
        wet = self._memory.consolidate(budget=budget)
        assert (wet.merged, wet.summarized, wet.aged) == (dry.merged, dry.summarized, dry.aged)
        # A summary that is made again after a reversal brings back what was said of it before.
        if all(record.reverted_ns is None for record in self._memory.consolidations()):
            assert (wet.items_after, wet.bytes_after) == (dry.items_after, dry.bytes_after)

    def _revert(self) -> None:
        records = self._memory.consolidations()
        if records:
            try:
                self._memory.revert_consolidation(self._rng.choice(records).name)
            except InvalidRequestError as exc:
                assert 'reverted before' in exc.message or 'again by' in exc.message  # noqa: PT017


def _unranked(answers: list[list[tuple[Any, ...]]]) -> list[list[tuple[Any, ...]]]:
    return [[hit[:-1] for hit in hits] for hits in answers]


@pytest.mark.parametrize('seed', range(2))
def test_timelines_follow_and_the_past_stays(tmp_path: Path, seed: int) -> None:
    clock = ManualClock(float(START_S))
    with MemoryService.open(f'sqlite:///{tmp_path}/memory.db', clock=clock, config=CONFIG) as memory:
        life = Life(memory, clock, seed)
        for _ in range(20):
            life.step()
        assert memory.verify().problems == ()
