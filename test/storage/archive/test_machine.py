"""Any history of writes, removals and corrections: moves to the archive and back change no answer."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.clock import ManualClock
from support.effort import scaled

from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose, QueryResult
from hylo_memory_ros.perception import RigidCorrection
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.transforms import Transform

NS = 10**9
PLACES = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (3.0, 4.0, 0.0))
KEYS = ('mug', 'cup', 'O1')
SPACE = 'test@1'

seconds = st.integers(0, 40).map(lambda half: half / 2)
poses = st.builds(Pose, frame_id=st.just('map'), position=st.sampled_from(PLACES))
items = st.builds(
    MemoryItem,
    kind=st.sampled_from(['spatial', 'semantic', 'episodic']),
    key=st.sampled_from([*KEYS, None, None]),
    content=st.sampled_from(['red mug', 'blue', 'a red cup']),
    label=st.sampled_from(['', 'thing']),
    pose=poses | st.none(),
    valid_from=st.none() | seconds,
    event_time=st.none() | seconds.map(lambda start: {'start': start, 'end': start + 1.0, 'clock': 'wall'}),
    entities=st.sampled_from([(), ('ann',), ('ann', 'bob')]),
    object_ids=st.sampled_from([(), ('O1',), ('O2',)]),
    links=st.sampled_from([(), (('on', 'O1'),), (('on', 'mug'),), (('in', 'cup'),)]),
    scope=st.sampled_from([{}, {}, {'map_id': 'hall'}, {'task_id': 't1'}]),
    confidence=st.sampled_from([1.0, 0.5]),
    payload=st.sampled_from([{}, {'n': 1}]),
    embeddings=st.sampled_from([{}, {SPACE: (1.0, 0.0)}, {SPACE: (0.6, 0.8)}]),
)
filters = st.one_of(
    st.builds(MemoryQuery, key=st.sampled_from(KEYS)),
    st.builds(MemoryQuery, labels=st.just(['thing']), kinds=st.sampled_from([['episodic'], ['spatial']])),
    st.builds(MemoryQuery, text=st.sampled_from(['red', 'blue']), entities=st.sampled_from([(), ('bob',)])),
    st.builds(MemoryQuery, relation=st.just(('on', 'O1')), depth=st.sampled_from([1, 3])),
    st.builds(
        MemoryQuery, near=st.tuples(poses, st.sampled_from([0.0, 1.0, 5.0])), labels=st.just(['thing'])
    ),
)


class ArchiveMachine(RuleBasedStateMachine):
    """Does everything in two files; one of them moves what has ended to the archive, and back."""

    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(10.0)
        self.folder = Path(tempfile.mkdtemp(dir=self.template.parent))
        for name in ('plain', 'archived'):
            shutil.copy(self.template, self.folder / f'{name}.db')
        self.plain, self.archived = self.open('plain'), self.open('archived')
        self.chance = random.Random(0)
        self.corrections: list[str] = []
        self.episodes: list[str] = []
        self.moved = 0

    def open(self, name: str) -> MemoryService:
        return MemoryService.open(f'sqlite:///{self.folder}/{name}.db', clock=self.clock)

    def teardown(self) -> None:
        self.plain.close()
        self.archived.close()
        shutil.rmtree(self.folder)

    def both(self, act: Callable[[MemoryService], Any], what: object = '') -> Any:
        told = act(self.plain)
        assert act(self.archived) == told, what
        return told

    @initialize(seed=st.integers(0, 9999))
    def choose_questions(self, seed: int) -> None:
        self.chance = random.Random(seed)

    @rule(batch=st.lists(items, min_size=1, max_size=3), rehearsed=st.booleans(), again=st.booleans())
    def write(self, batch: list[MemoryItem], rehearsed: bool, again: bool) -> None:
        if rehearsed:
            self.both(lambda memory: memory.write(batch, dry_run=True))
        for _ in range(1 + again):
            self.both(lambda memory: memory.write(batch))

    @rule(item=items, start=st.integers(0, 40), often=st.integers(3, 9), in_order=st.booleans())
    def say_again_and_again(self, item: MemoryItem, start: int, often: int, in_order: bool) -> None:
        """As somebody who watches: in the order of time, or as it comes."""
        times = [start / 2 + step / 2 for step in range(often)]
        if not in_order:
            self.chance.shuffle(times)
        for at in times:
            again = item.model_copy(update={'valid_from_ns': round(at * NS), 'event_time': None})
            self.both(lambda memory, again=again: memory.write([again]))

    @rule(outcome=st.sampled_from(['success', 'failure']))
    def begin_or_end_an_episode(self, outcome: str) -> None:
        if self.episodes and self.both(lambda memory: memory.current_episode):
            self.both(lambda memory: memory.end_episode(self.episodes[-1], outcome).end_seq)
        else:
            self.episodes.append(f'e{len(self.episodes)}')
            self.both(lambda memory: memory.begin_episode(self.episodes[-1]).begin_seq)

    @rule(query=filters, item=items)
    def write_a_known_id(self, query: MemoryQuery, item: MemoryItem) -> None:
        """The id of something that may be archived, with what was said there or with something else."""
        hits = list(self.plain.query(query.model_copy(update={'include_invalidated': True})))
        if hits:
            known = self.chance.choice(hits).item
            other = item.model_copy(update={'id': known.id})
            self.both(lambda memory: outcome(lambda: memory.write([self.chance_of(known, other)])))

    def chance_of(self, known: MemoryItem, other: MemoryItem) -> MemoryItem:
        return known if len(known.content) % 2 else other

    @rule(query=filters, ever=st.booleans(), dry_run=st.booleans())
    def retract(self, query: MemoryQuery, ever: bool, dry_run: bool) -> None:
        query = query.model_copy(update={'include_invalidated': ever})
        self.both(lambda memory: removal(memory.retract(query, dry_run=dry_run)))

    @rule(query=filters, at=seconds)
    def retract_what_was(self, query: MemoryQuery, at: float) -> None:
        query = MemoryQuery(**query.model_dump(exclude_defaults=True), as_of=at)
        self.both(lambda memory: removal(memory.retract(query)))

    @rule(query=filters)
    def forget(self, query: MemoryQuery) -> None:
        self.both(lambda memory: removal(memory.forget(query)))

    @rule(key=st.sampled_from(KEYS), at=st.integers(0, 40), kind=st.sampled_from(['spatial', 'semantic']))
    def end(self, key: str, at: int, kind: Any) -> None:
        self.both(lambda memory: removal(memory.end([key], at * NS // 2, kind=kind)))

    @rule(query=filters)
    def purge(self, query: MemoryQuery) -> None:
        if self.chance.random() < 0.3:
            self.both(lambda memory: removal(memory.purge(query)))

    @rule(step=st.sampled_from([(1.0, 0.0, 0.0), (-1.0, 0.5, 0.0)]), map_id=st.sampled_from(['', 'hall']))
    def correct(self, step: tuple[float, float, float], map_id: str) -> None:
        def move(memory: MemoryService) -> Any:
            memory.set_map(map_id)
            done = memory.correct_map(RigidCorrection(Transform(step)), map_id=map_id)
            memory.set_map('')
            return done.moved, done.correction_id

        self.corrections.append(self.both(move)[1])

    @precondition(lambda self: self.corrections)
    @rule(pick=st.integers(0, 9))
    def revert(self, pick: int) -> None:
        name = self.corrections.pop(pick % len(self.corrections))
        self.both(lambda memory: memory.revert_correction(name).moved)

    @rule(by=st.sampled_from([0.5, 3.0, 10.0]))
    def step_clock(self, by: float) -> None:
        self.clock.now_ns += round(by * NS)
        self.both(lambda memory: memory.now_ns())

    @rule()
    def restart(self) -> None:
        self.plain.close()
        self.archived.close()
        self.plain, self.archived = self.open('plain'), self.open('archived')

    @rule(limit=st.sampled_from([1, 2, 3, 100]), back=st.sampled_from([0.0, 0.0, 5.0]))
    def move(self, limit: int, back: float) -> None:
        store = self.archived._core.store
        before_ns = self.archived.now_ns() - round(back * NS)
        found = store.archive.archivable(ended_before_ns=before_ns)
        ids = [one.identity_id for one in found if self.chance.random() < 0.8]
        told = store.archive.move(ids, ended_before_ns=before_ns, limit=limit)
        assert bool(told.assertions) == bool(ids)
        self.moved += told.assertions

    @rule()
    def archive_everything(self) -> None:
        store = self.archived._core.store
        while found := store.archive.archivable():
            told = store.archive.move([one.identity_id for one in found])
            assert told.assertions
            self.moved += told.assertions

    @rule(limit=st.sampled_from([1, 100]))
    def restore(self, limit: int) -> None:
        last = self.archived._core.store.archive.restore(range(1, 100), limit=limit)
        assert last.assertions <= max(limit, self.moved)

    @invariant()
    def answers_agree(self) -> None:
        choose = self.chance
        place = Pose(frame_id='map', position=choose.choice(PLACES))
        questions: list[dict[str, Any]] = [
            {'key': choose.choice(KEYS)},
            {'labels': ['thing'], 'kinds': choose.choice([['spatial'], ['episodic'], None])},
            {'text': choose.choice(['red', 'blue', 'cup'])},
            {'near': (place, choose.choice([0.0, 1.0, 9.0])), 'any_map': True},
            {'near': (place, choose.choice([1.0, 9.0])), 'labels': ['thing']},
            {'embedding': (SPACE, (0.8, 0.6)), 'text': choose.choice([None, 'red'])},
            {'relation': ('on', 'O1'), 'depth': choose.choice([1, 3])},
            {'episode': choose.choice(self.episodes or ['e0'])},
            {'outcome': 'success', 'kinds': ['semantic', 'spatial']},
            {'entities': ('ann',), 'depth': choose.choice([1, 3]), 'kinds': ['semantic', 'spatial']},
            {'time_range': (3.0, 9.0), 'scope': choose.choice([{'task_id': 't1'}, {'map_id': 'hall'}, {}])},
        ]
        for fields in choose.sample(questions, 3):
            self.compare(**fields)

    def compare(self, **fields: Any) -> None:
        choose = self.chance
        sequence = self.plain.sequence
        query = MemoryQuery(
            **fields,
            as_of=choose.choice([None, choose.randrange(40) / 2]),
            known_seq=choose.choice([None, choose.randrange(sequence + 2)]),
            include_invalidated=choose.random() < 0.3,
            k=choose.choice([1, 2, 100]),
            explain=True,
        )
        self.both(lambda memory: answered(memory, query), query)
        ids = [hit.item.id for hit in self.plain.query(query)]
        if ids:
            named = MemoryQuery(ids=[choose.choice(ids)], include_invalidated=choose.random() < 0.5)
            self.both(lambda memory: answered(memory, named), named)
            self.both(lambda memory: told_history(memory, id=named.ids[0]))

    @invariant()
    def records_agree(self) -> None:
        key = self.chance.choice(KEYS)
        self.both(lambda memory: told_history(memory, key=key, limit=3))
        self.both(lambda memory: memory.changes().changes)
        self.both(lambda memory: {**memory.manifest(), 'epoch': ''})
        self.both(lambda memory: (memory.snapshot(), memory.counts(), memory.sequence))
        report = self.both(lambda memory: memory.verify())
        assert report.ok, report.problems


def answered(memory: MemoryService, query: MemoryQuery) -> list[Any]:
    """Return the pages of an answer, all but the plan: that counts what stands in the main file."""
    pages = [memory.query(query)]
    while pages[-1].cursor is not None and len(pages) < 5:
        pages.append(memory.query(query.model_copy(update={'cursor': pages[-1].cursor})))
    return [page_of(page) for page in pages]


def page_of(page: QueryResult) -> tuple[Any, ...]:
    return (
        tuple(page), page.total, page.sequence, page.as_of_ns, page.total_is_lower_bound, page.truncated,
        page.excluded, page.nearest_excluded_m, page.purged, page.notes,
    )  # fmt: skip


def told_history(memory: MemoryService, limit: int = 100, **named: Any) -> list[Any]:
    pages = [memory.history(**named, limit=limit)]
    while pages[-1].cursor is not None:
        pages.append(memory.history(**named, limit=limit, cursor=pages[-1].cursor))
    return [version for page in pages for version in page.versions]


def removal(gone: Any) -> tuple[Any, ...]:
    return int(gone), sorted(gone.ids), gone.sequence


def outcome(act: Callable[[], Any]) -> Any:
    """Return what was told, or the kind of refusal."""
    from hylo_memory_ros.errors import HyloMemoryError

    try:
        return act()
    except HyloMemoryError as refused:
        return type(refused), str(refused)


def test_moves_change_no_answer(tmp_path: Path) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    template = tmp_path / 'template.db'
    MemoryService.open(f'sqlite:///{template}').close()
    ArchiveMachine.template = template
    run_state_machine_as_test(
        ArchiveMachine,
        settings=settings(
            max_examples=scaled(6),
            stateful_step_count=20,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
