"""Any history of writes, removals, restarts and clock steps: the store answers as the plain memory does."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from storage.plain_memory import NS, PlainMemory, Stretch, Told, distance
from support.clock import ManualClock
from support.effort import scaled

from hylo_memory_ros.model import Hit, MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.perception import RigidCorrection
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.transforms import Transform

PLACES = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.3, 0.1, 0.2), (3.0, 4.0, 0.0))
STEPS = ((1.0, 0.0, 0.0), (-1.0, 0.5, 0.0), (3.0, 4.0, 0.0), (0.0, 0.0, 0.0))
RADII = (0.0, 0.3741657386773941, 1.0, 5.0, 100.0)
MAPS = ('', 'hall', 'lab')
TEXTS = ('mug', 'red', 'red mug', 'blue cup', 'thing')

seconds = st.integers(0, 60).map(lambda half: half / 2)
poses = st.builds(
    Pose, frame_id=st.sampled_from(['map', 'map', 'map', 'odom']), position=st.sampled_from(PLACES)
)
items = st.builds(
    MemoryItem,
    kind=st.sampled_from(['spatial', 'semantic']),
    key=st.sampled_from(['mug', 'cup', 'mug', None]),
    content=st.sampled_from(['red mug', 'blue']),
    label=st.sampled_from(['', 'thing']),
    pose=poses | st.none(),
    valid_from=st.none() | seconds,
    scope=st.just({}) | st.sampled_from([{'map_id': 'hall'}, {'robot_id': 'r1'}]),
    confidence=st.sampled_from([1.0, 0.5, 0.52]),
    source=st.sampled_from(['', '', 'camera']),
    evidence=st.sampled_from([(), (), ('a',), ('b',)]),
)
filters = st.one_of(
    st.builds(MemoryQuery, key=st.sampled_from(['mug', 'cup'])),
    st.builds(MemoryQuery, labels=st.just(['thing'])),
    st.builds(MemoryQuery, kinds=st.just(['spatial']), text=st.sampled_from(TEXTS)),
    st.builds(
        MemoryQuery, near=st.tuples(st.sampled_from(PLACES), st.sampled_from(RADII)).map(
            lambda near: (Pose(frame_id='map', position=near[0]), near[1])
        ), labels=st.sampled_from([(), ('thing',)]),
    ),
)  # fmt: skip


class MemoryMachine(RuleBasedStateMachine):
    """Runs every operation against a real file and against the plain memory."""

    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(10.0)
        self.plain = PlainMemory()
        self.folder = Path(tempfile.mkdtemp(dir=self.template.parent))
        shutil.copy(self.template, self.folder / 'memory.db')
        self.memory = self.open()
        self.chance = random.Random(0)
        self.corrections: list[tuple[int, str]] = []

    def open(self) -> MemoryService:
        url = f'sqlite:///{self.folder}/memory.db'
        return MemoryService.open(url, clock=self.clock, map_id=self.plain.map_id)

    def teardown(self) -> None:
        self.memory.close()
        shutil.rmtree(self.folder)

    @initialize(seed=st.integers(0, 9999))
    def choose_questions(self, seed: int) -> None:
        self.chance = random.Random(seed)

    @rule(batch=st.lists(items, min_size=1, max_size=3), rehearsed=st.booleans())
    def write(self, batch: list[MemoryItem], rehearsed: bool) -> None:
        self.write_both(batch, rehearsed)

    def write_both(self, batch: list[MemoryItem], rehearsed: bool) -> None:
        self.plain.look_at(self.clock())
        rehearsal = self.memory.write(batch, dry_run=True) if rehearsed else None
        result = self.memory.write(batch)
        assert rehearsal in (None, result)
        told = self.plain.write(batch, [self.named(item, result.ids) for item in batch])
        assert [Told(e.event, e.id, e.closed_id, e.reopened_id, e.reason) for e in result.events] == told
        assert result.sequence == self.plain.sequence

    @rule(key=st.sampled_from(['mug', None]), start=seconds, often=st.integers(2, 4), at_once=st.booleans())
    def confirm(self, key: str | None, start: float, often: int, at_once: bool) -> None:
        """The same statement again and again."""
        again = [
            MemoryItem(kind='semantic', key=key, content='blue', valid_from=start + step)
            for step in range(often)
        ]
        for batch in [again] if at_once else [[item] for item in again]:
            self.write_both(batch, rehearsed=False)

    def named(self, item: MemoryItem, answered: tuple[str, ...]) -> str:
        """Return the id that the store gave an item: the history of its identity tells."""
        from hylo_memory_ros.domain.identity import statement_of

        return statement_of(self.plain.resolved(item), ['map_id']).id

    @rule(query=filters)
    def forget(self, query: MemoryQuery) -> None:
        self.plain.look_at(self.clock())
        rehearsal = self.memory.forget(query, dry_run=True)
        removal = self.memory.forget(query)
        gone = self.plain.forget(query)
        assert rehearsal == removal == len(gone)
        assert sorted(removal.ids) == sorted(str(s.said.item.id) for s in gone)

    @rule(key=st.sampled_from(['mug', 'cup']), at=st.integers(0, 60))
    def end(self, key: str, at: int) -> None:
        self.plain.look_at(self.clock())
        rehearsal = self.memory.end([key], at * NS // 2, dry_run=True)
        removal = self.memory.end([key], at * NS // 2)
        gone = self.plain.end(key, at * NS // 2)
        assert rehearsal == removal == len(gone)
        assert sorted(removal.ids) == sorted(str(s.said.item.id) for s in gone)

    @rule(query=filters, ever=st.booleans())
    def retract(self, query: MemoryQuery, ever: bool) -> None:
        self.plain.look_at(self.clock())
        query = query.model_copy(update={'include_invalidated': ever})
        removal = self.memory.retract(query)
        gone = self.plain.retract(query)
        assert removal == len(gone)
        assert sorted(removal.ids) == sorted(str(s.said.item.id) for s in gone)

    @precondition(lambda self: self.plain.believed)
    @rule(pick=st.integers(0, 99))
    def retract_one(self, pick: int) -> None:
        ids = sorted({str(s.said.item.id) for s in self.plain.believed})
        query = MemoryQuery(ids=[ids[pick % len(ids)]])
        self.plain.look_at(self.clock())
        assert self.memory.retract(query) == len(self.plain.retract(query)) == 1

    @rule(step=st.sampled_from(STEPS), map_id=st.sampled_from(MAPS))
    def correct(self, step: tuple[float, float, float], map_id: str) -> None:
        self.plain.look_at(self.clock())
        self.memory.set_map(map_id)
        rigid = RigidCorrection(Transform(step))
        rehearsal = self.memory.correct_map(rigid, map_id=map_id, dry_run=True)
        done = self.memory.correct_map(rigid, map_id=map_id)
        self.memory.set_map(self.plain.map_id)
        assert rehearsal.moved == done.moved == self.plain.correct(step, map_id)
        assert (done.merged, done.split, done.sequence) == (0, 0, self.plain.sequence)
        self.corrections.append((done.sequence, done.correction_id))

    @precondition(lambda self: self.corrections)
    @rule(newest=st.booleans(), pick=st.integers(0, 9))
    def revert(self, newest: bool, pick: int) -> None:
        self.plain.look_at(self.clock())
        seq, name = self.corrections.pop(-1 if newest else pick % len(self.corrections))
        assert self.memory.revert_correction(name).moved == self.plain.revert(seq)

    @rule(query=filters)
    def purge(self, query: MemoryQuery) -> None:
        if self.chance.random() < 0.7:
            return
        self.plain.look_at(self.clock())
        removal = self.memory.purge(query)
        assert sorted(removal.ids) == sorted(self.plain.purge(query))

    @rule(by=st.sampled_from([0.5, 0.5, 1.0, 3.0, -2.0]))
    def step_clock(self, by: float) -> None:
        self.clock.now_ns = max(0, self.clock.now_ns + round(by * NS))
        self.plain.look_at(self.clock())
        assert self.memory.now_ns() == self.plain.now

    @rule()
    def restart(self) -> None:
        self.memory.close()
        self.memory = self.open()
        self.plain.restart(self.clock())

    @rule(map_id=st.sampled_from(MAPS))
    def set_map(self, map_id: str) -> None:
        assert self.memory.set_map(map_id) == self.plain.map_id
        self.plain.map_id = map_id

    @invariant()
    def answers_agree(self) -> None:
        near = (Pose(frame_id='map', position=self.chance.choice(PLACES)), self.chance.choice(RADII))
        self.compare({'key': self.chance.choice(['mug', 'cup'])})
        self.compare({'labels': ['thing'], 'kinds': self.chance.choice([['spatial'], None])})
        self.compare({'text': self.chance.choice(TEXTS)})
        self.compare({'near': near, 'horizontal': self.chance.random() < 0.2, **self.some_map()})
        self.compare({'near': near, 'labels': ['thing'], **self.some_map()})

    def some_map(self) -> dict[str, Any]:
        return self.chance.choice([{}, {}, {'any_map': True}, {'scope': {'map_id': 'hall'}}])

    def some_time(self) -> dict[str, Any]:
        choose = self.chance
        return {
            'as_of': choose.choice([None, choose.randrange(60) / 2]),
            'known_seq': choose.choice([None, choose.randrange(self.plain.sequence + 2)]),
            'include_invalidated': choose.random() < 0.3,
        }

    def compare(self, filters: dict[str, Any]) -> None:
        self.plain.look_at(self.clock())
        query = MemoryQuery(**filters, **self.some_time(), k=self.chance.choice([1, 2, 100]), explain=True)
        expected = self.plain.answer(query)
        result = self.memory.query(query)
        hits = list(result)
        while result.cursor is not None:
            result = self.memory.query(query.model_copy(update={'cursor': result.cursor}))
            hits += list(result)
        assert result.total == len(hits) == len(expected), query
        assert result.sequence == self.plain.belief_of(query)
        faces = [self.face(hit) for hit in hits]
        wanted = [self.expected_face(stretch, query) for stretch in expected]
        if query.text is not None:
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
            faces, wanted = sorted(faces, key=str), sorted(wanted, key=str)
        assert faces == wanted, query
        if query.known_seq is not None:
            assert result.purged == self.plain.purged_after(query.known_seq)
        if not query.labels:
            counts = {
                name: n
                for name, n in result.excluded.items()
                if name in ('not_yet_valid', 'forgotten', 'ended', 'invalidated')
            }
            assert counts == self.plain.left_out(query), query
        if query.near is not None:
            assert result.nearest_excluded_m == self.plain.nearest_outside(query), query

    def face(self, hit: Hit) -> tuple[object, ...]:
        item = hit.item
        return (
            item.id, item.valid_from_ns, hit.valid_to_ns, hit.status, hit.sequence, hit.distance_m,
            item.content, item.key, item.label, dict(item.scope), item.pose,
            (item.confidence, item.source, item.evidence),
        )  # fmt: skip

    def expected_face(self, stretch: Stretch, query: MemoryQuery) -> tuple[object, ...]:
        item = stretch.said.now
        since = self.plain.since(stretch, self.plain.belief_of(query))
        return (
            item.id, stretch.start, stretch.end, stretch.status(self.plain.time_of(query)), since,
            distance(stretch, query),
            item.content, item.key, item.label, dict(item.scope), item.pose,
            stretch.shown,
        )  # fmt: skip

    @invariant()
    def everything_is_consistent(self) -> None:
        assert self.memory.snapshot() == self.plain.snapshot()
        assert self.memory.mirror_sequence == self.memory.sequence == self.plain.sequence
        open_versions = [s for s in self.plain.believed if s.end is None]
        counts = self.memory.counts()
        assert sum(counts.values()) == len(open_versions)
        report = self.memory.verify()
        assert report.ok, report.problems
        assert report.versions == len(self.plain.believed)


def test_the_store_answers_as_the_plain_memory_does(tmp_path: Path) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    template = tmp_path / 'template.db'
    MemoryService.open(f'sqlite:///{template}').close()
    MemoryMachine.template = template
    run_state_machine_as_test(
        MemoryMachine,
        settings=settings(
            max_examples=scaled(25),
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
