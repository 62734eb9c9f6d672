"""What is kept about what happened: history, feed, snapshot, purge, restore, verification."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from storage.clauses.base import NS, Clauses, ManualClock, contents, fact, near, only, spans, state_of, thing

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import (
    ConfigurationError,
    EpochChangedError,
    HyloMemoryError,
    InvalidRequestError,
    StoreError,
)
from hylo_memory_ros.model import Change, MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService

MUG = MemoryQuery(key='mug')


class HistoryClauses(Clauses):
    """Versions with both intervals, and what caused them."""

    def test_it_tells_when_and_why_each_belief_began_and_ended(
        self, memory: MemoryService, clock: ManualClock
    ) -> None:
        clock.set(10)
        memory.write([fact('A', 1)])
        clock.set(20)
        memory.write([fact('B', 5)])
        clock.set(30)
        memory.forget(MUG)
        clock.set(40)
        memory.retract(MemoryQuery(key='mug', as_of=2))
        told = [
            (v.item.content, v.valid_from_ns // NS, v.valid_to_ns and v.valid_to_ns // NS, v.forgotten,
             v.from_seq, v.to_seq, v.recorded_at_ns // NS, v.superseded_at_ns and v.superseded_at_ns // NS,
             v.cause, v.superseded_cause)
            for v in memory.history(key='mug').versions
        ]  # fmt: skip
        assert told == [
            ('A', 1, None, False, 1, 2, 10, 20, 'write', 'write'),
            ('A', 1, 5, False, 2, 4, 20, 40, 'write', 'retract'),
            ('B', 5, None, False, 2, 3, 20, 30, 'write', 'forget'),
            ('B', 5, 30, True, 3, None, 30, None, 'forget', None),
        ]

    def test_an_id_tells_the_past_of_its_thing_and_is_marked(self, memory: MemoryService) -> None:
        (first,) = memory.write([fact('A', 1)]).ids
        (second,) = memory.write([fact('B', 2), fact('other', 1, key='cup')]).ids[:1]
        told = [(v.item.id, v.valid_to_ns, v.is_asked) for v in memory.history(first).versions]
        assert told == [(first, None, True), (first, 2 * NS, True), (second, None, False)]
        by_key = memory.history(key='mug').versions
        assert not any(version.is_asked for version in by_key)
        for item_id in (first, second):
            by_id = memory.history(item_id).versions
            assert tuple(replace(version, is_asked=False) for version in by_id) == by_key
            assert {version.item.id for version in by_id if version.is_asked} == {item_id}
        assert memory.history('nothing').versions == ()

    def test_the_id_of_a_repetition_tells_the_past_of_its_thing(self, memory: MemoryService) -> None:
        memory.write([fact('A', 1), fact('A', 2, id='again'), fact('B', 3)])
        assert [v.item.content for v in memory.history('again').versions] == ['A', 'B']

    def test_a_map_or_a_statement_without_a_key_is_another_thing(self, memory: MemoryService) -> None:
        items = [fact('a', 1, scope={'map_id': name}) for name in ('lab', 'hall')]
        ids = memory.write([*items, fact('x', 1, key=None), fact('y', 1, key=None)]).ids
        for item_id in ids:
            assert [v.item.id for v in memory.history(item_id).versions] == [item_id]

    def test_the_history_of_an_id_goes_on_where_it_ended(self, memory: MemoryService) -> None:
        ids = [memory.write([fact(f'{at}', at)]).ids[0] for at in range(1, 6)]
        whole = memory.history(ids[2]).versions
        page = memory.history(ids[2], limit=4)
        rest = memory.history(ids[2], cursor=page.cursor)
        assert (*page.versions, *rest.versions) == whole

    def test_kind_and_map_narrow_it_down(self, memory: MemoryService) -> None:
        memory.write([
            fact('a', 1), fact('b', 1, kind='episodic'), fact('c', 1, scope={'map_id': 'lab'}),
        ])  # fmt: skip
        assert len(memory.history(key='mug').versions) == 3
        assert [v.item.content for v in memory.history(key='mug', kind='episodic').versions] == ['b']
        assert [v.item.content for v in memory.history(key='mug', map_id='lab').versions] == ['c']

    @pytest.mark.parametrize(
        'asked',
        [{}, {'id': 'a', 'key': 'b'}, {'key': ' '}, {'key': ''}, {'id': ''}, {'key': 'x\ud800'},
         {'id': '\ud800'},
                  {'key': 'a\n'}, {'key': 'mug', 'limit': 0}, {'key': 'mug', 'limit': -1},
                  {'key': 'mug', 'kind': 'none'},
                  {'key': 'mug', 'map_id': '\ud800'}],
    )  # fmt: skip
    def test_unsound_questions_are_refused(self, memory: MemoryService, asked: dict[str, Any]) -> None:
        with pytest.raises(InvalidRequestError):
            memory.history(**asked)

    def test_keys_are_normalized_like_everywhere(self, memory: MemoryService) -> None:
        memory.write([fact('a', 1, key='caf\u00e9')])
        assert len(memory.history(key='cafe\u0301').versions) == 1


class FeedClauses(Clauses):
    """Every transaction, without a gap."""

    def test_every_operation_is_told_once_in_order(self, memory: MemoryService, clock: ManualClock) -> None:
        heard: list[Change] = []
        stop = memory.subscribe(heard.append)
        ids = memory.write([fact('a', 1), fact('a', 1), thing(0.0)], actor='ann').ids
        clock.set(1001)
        memory.forget(MUG, actor='bob', reason='because')
        memory.write([fact('b', 1002)])
        memory.retract(MUG)
        memory.write([fact('c', 1003, key='other')])
        memory.purge(MemoryQuery(key='other'))
        feed = memory.changes()
        assert [change.sequence for change in feed.changes] == list(range(1, 7))
        assert feed.last_sequence == memory.sequence == 6
        assert (feed.gap, feed.epoch) == (False, memory.epoch)
        first, second, *_ = feed.changes
        assert (first.op, first.ids, first.actor) == ('write', ids, 'ann')
        assert (first.keys, first.outcomes) == (('mug', 'mug', ''), ('ADD', 'SKIP_DUP', 'ADD'))
        assert (second.op, second.ids, second.actor, second.recorded_at_ns) == (
            'forget',
            ids[:1],
            'bob',
            1001 * NS,
        )
        assert [change.op for change in feed.changes] == [
            'write',
            'forget',
            'write',
            'retract',
            'PURGED',
            'purge',
        ]
        stop()
        memory.write([fact('d', 1)])
        assert [(c.sequence, c.op) for c in heard] == [
            (n, op) for n, op in enumerate(['write', 'forget', 'write', 'retract', 'write', 'purge'], start=1)
        ]
        assert heard[:4] == list(feed.changes[:4])

    def test_it_goes_on_from_any_position(self, memory: MemoryService) -> None:
        for n in range(10):
            memory.write([fact(f'{n}', n)])
        got: list[int] = []
        while True:
            feed = memory.changes((memory.epoch, got[-1] if got else 0), limit=3)
            got += [change.sequence for change in feed.changes]
            if got and got[-1] == feed.last_sequence:
                break
        assert got == list(range(1, 11))
        assert memory.changes((memory.epoch, 10)).changes == ()
        assert not memory.changes((memory.epoch, 10)).gap

    def test_another_history_is_refused(self, memory: MemoryService) -> None:
        with pytest.raises(EpochChangedError):
            memory.changes(('another', 0))

    @pytest.mark.parametrize(('position', 'limit'), [(-1, 10), (0, 0), (0, -1)])
    def test_unsound_positions_are_refused(self, memory: MemoryService, position: int, limit: int) -> None:
        with pytest.raises(InvalidRequestError):
            memory.changes((memory.epoch, position), limit)

    def test_old_changes_leave_and_the_gap_is_told(self, clock: ManualClock) -> None:
        with self.open_memory(clock, MemoryConfig(event_retention=10)) as memory:
            for n in range(600):
                memory.write([fact(f'{n}', n)], durable=False)
            feed = memory.changes(limit=5)
            assert feed.gap
            assert len(feed.changes) == 5
            first = feed.changes[0].sequence
            assert 1 < first <= 590
            assert [change.sequence for change in feed.changes] == list(range(first, first + 5))
            rest = memory.changes((memory.epoch, first - 1), limit=1000)
            assert not rest.gap
            assert [change.sequence for change in rest.changes] == list(range(first, 601))
            assert memory.changes((memory.epoch, first - 2), limit=1).gap
            assert memory.query(MemoryQuery(key='mug', known_seq=3)).total == 1

    def test_a_failing_listener_harms_nobody(self, memory: MemoryService, tmp_path: Path) -> None:
        heard = []

        def fail(change: Change) -> None:
            heard.append(change.op)
            raise RuntimeError('listener')

        memory.subscribe(fail)
        memory.write([thing(0.0, key='mug')])
        memory.snapshot(str(tmp_path / 'copy.db'))
        memory.restore(str(tmp_path / 'copy.db'))
        assert memory.query(near(0.0, 1.0)).total == 1
        assert heard == ['write', 'restore']


class AuditClauses(Clauses):
    """Who removed what, when and why."""

    def test_every_removal_is_recorded_with_its_reason(
        self, memory: MemoryService, clock: ManualClock
    ) -> None:
        memory.write([fact(letter, 1, key=letter) for letter in 'abc'])
        memory.write([thing(0.0, 1, key='d'), fact('secret', 1, key='e')])
        clock.set(1010)
        memory.forget(MemoryQuery(key='a'), reason='moved out', actor='ann')
        memory.retract(MemoryQuery(key='b'), reason='never true')
        memory.end(['d'], 5 * NS, reason='sold', actor='bob')
        memory.forget(MemoryQuery(keys=['c', 'e']))
        forgotten, retracted, ended, both = memory.audit()
        assert (forgotten.op, forgotten.reason, forgotten.actor, forgotten.count) == (
            'forget', 'moved out', 'ann', 1,
        )  # fmt: skip
        assert (forgotten.sequence, forgotten.recorded_at_ns) == (3, 1010 * NS)
        assert forgotten.query == {'key': 'a'}
        assert forgotten.ids == memory.changes().changes[2].ids
        assert (retracted.op, retracted.reason, retracted.actor) == ('retract', 'never true', '')
        assert (ended.op, ended.reason, ended.query) == (
            'end', 'sold', {'end': [['d', 5 * NS, '', 'sold', '']], 'kind': 'spatial'},
        )  # fmt: skip
        assert (both.count, len(both.ids or ())) == (2, 2)
        assert [change.extra for change in memory.changes().changes] == [
            {}, {}, {'reason': 'moved out'}, {'reason': 'never true'}, {'reason': 'sold'}, {},
        ]  # fmt: skip

    def test_it_is_asked_by_item_and_in_pieces(self, memory: MemoryService) -> None:
        ids = memory.write([fact(letter, 1, key=letter) for letter in 'abcd']).ids
        for letter in 'abcd':
            memory.forget(MemoryQuery(key=letter), reason=letter)
        assert [entry.reason for entry in memory.audit(ids[2])] == ['c']
        assert memory.audit('nobody') == ()
        assert [entry.reason for entry in memory.audit(limit=2)] == ['a', 'b']
        assert [entry.reason for entry in memory.audit(after=3)] == ['c', 'd']
        for wrong in ({'after': -1}, {'limit': 0}):
            with pytest.raises(InvalidRequestError, match='audit'):
                memory.audit(**wrong)

    def test_what_removes_nothing_or_is_only_tried_is_not_in_it(self, memory: MemoryService) -> None:
        memory.write([fact('a', 1)])
        memory.forget(MUG, dry_run=True)
        memory.forget(MemoryQuery(key='cup'))
        assert memory.audit() == ()

    def test_a_purge_leaves_when_and_how_many(self, memory: MemoryService) -> None:
        memory.write([fact('zebra', 1), fact('kept', 1, key='cup')])
        memory.forget(MUG, reason='old')
        memory.forget(MemoryQuery(key='cup'), reason='older')
        memory.purge(MUG, reason='on request', actor='ann')
        first, second, last = memory.audit()
        assert (first.op, first.count, first.ids, first.query, first.reason) == ('forget', 1, None, None, '')
        assert (second.reason, second.count) == ('older', 1)
        assert (last.op, last.count, last.ids, last.query) == ('purge', 1, None, None)
        assert (last.reason, last.actor) == ('on request', 'ann')

    def test_listeners_hear_the_reason(self, memory: MemoryService) -> None:
        heard: list[Any] = []
        memory.subscribe(heard.append)
        memory.write([fact('a', 1)])
        memory.forget(MUG, reason='moved out')
        assert [change.extra for change in heard] == [{}, {'reason': 'moved out'}]
        assert tuple(heard) == memory.changes().changes


class SnapshotClauses(Clauses):
    """The hash of what is open."""

    def digest_of(self, *calls: list[MemoryItem], at: float = 1000.0) -> str:
        with self.open_memory(ManualClock(at)) as memory:
            for items in calls:
                memory.write(items)
            return memory.snapshot()

    def test_the_order_of_writes_does_not_matter(self) -> None:
        items = [
            fact('a', 1),
            fact('b', 2),
            fact('a', 3),
            fact('x', 1, key='cup'),
            thing(1.0),
            fact('e', None, key=None),
        ]
        expected = self.digest_of(items)
        draw = random.Random(3)
        for _ in range(5):
            draw.shuffle(items)
            assert self.digest_of(*[[item] for item in items], at=draw.uniform(5, 5000)) == expected

    def test_every_field_of_the_content_changes_it(self) -> None:
        pose = {'frame_id': 'map', 'position': (1, 2, 3)}
        base: dict[str, Any] = {'content': 'mug', 'at': 1, 'pose': pose}
        variants: list[dict[str, Any]] = [
            {}, {'content': 'cup'}, {'kind': 'episodic'}, {'key': 'cup'}, {'key': None}, {'label': 'x'},
            {'payload': {'a': 1}}, {'payload': {'a': 1.0}}, {'payload': {'a': '1'}}, {'payload': {'b': 1}},
            {'entities': ['bob']}, {'object_ids': ['bob']}, {'scope': {'map_id': 'm'}},
            {'scope': {'task_id': 'm'}},
            {'links': [('on', 'table')]}, {'extent': (1, 1, 1)}, {'pose': {**pose, 'frame_id': 'odom'}},
            {'pose': {**pose, 'position': (1, 2, 4)}}, {'pose': {**pose, 'orientation': (0, 0, 0, 1)}},
            {'pose': None},
            {'at': 2}, {'at': None}, {'key': None, 'event_time': {'start': 1}}, {'key': None, 'at': 2},
            {'key': None, 'event_time': {'start': 1, 'clock': 'sim'}},
            {'key': None, 'event_time': {'start': 1, 'end': 2}},
        ]  # fmt: skip
        digests = [self.digest_of([fact(**{**base, **fields})]) for fields in variants]
        assert len(set(digests)) == len(variants)

    def test_what_an_answer_shows_beside_the_content_changes_it_too(self) -> None:
        pose = {'frame_id': 'map', 'position': (1, 2, 3)}
        base: dict[str, Any] = {'content': 'mug', 'at': 1, 'pose': pose, 'evidence': ['e']}
        variants: list[dict[str, Any]] = [
            {}, {'confidence': 0.5}, {'source': 's'}, {'evidence': ['e', 'f']}, {'evidence': ['f', 'e']},
            {'provenance': {'a': 1}}, {'embeddings': {'clip@1': [1, 0]}}, {'embeddings': {'clip@1': [0, 1]}},
            {'embeddings': {'clip@2': [1, 0]}}, {'pose': {**pose, 'stamp': 9}}, {'event_time': {'start': 9}},
            {'pose': {**pose, 'covariance': [1.0, *[0.0] * 35]}}, {'confidence': 0.1},
        ]  # fmt: skip
        written = [fact(**{**base, **fields}) for fields in variants]
        assert len({self.digest_of([item]) for item in written}) == len(variants)
        lines = {self.timeline_digest(item, fact('cup', 5)) for item in written}
        assert len(lines) == len(variants)

    def test_nothing_else_changes_it(self) -> None:
        pose = {'frame_id': 'map', 'position': (1, 2, 3), 'orientation': (0.5, 0.5, 0.5, 0.5)}
        base: dict[str, Any] = {
            'content': 'mug',
            'at': 1,
            'pose': pose,
            'entities': ['a', 'b'],
            'payload': {'a': 1, 'b': 2},
        }
        variants: list[dict[str, Any]] = [
            {}, {'id': 'mine'}, {'pose': {**pose, 'frame_id': '/map'}},
            {'pose': {**pose, 'orientation': (-0.5, -0.5, -0.5, -0.5)}}, {'entities': ['b', 'a', 'b']},
            {'payload': {'b': 2, 'a': 1}},
        ]  # fmt: skip
        assert len({self.digest_of([fact(**{**base, **fields})]) for fields in variants}) == 1

    def test_what_is_closed_or_gone_is_not_in_it(self, memory: MemoryService) -> None:
        empty = memory.snapshot()
        assert empty.startswith('sha256:')
        memory.write([fact('a', 1), fact('w', 1, key='w', kind='working')])
        one = memory.snapshot()
        assert one == self.digest_of([fact('a', 1)]) != empty
        memory.write([fact('b', 2)])
        assert memory.snapshot() == self.digest_of([fact('b', 2)])
        memory.retract(MUG)
        assert memory.snapshot() == one
        memory.write([fact('x', 1, key='cup')])
        assert memory.forget(MemoryQuery(key='cup')) == memory.forget(MUG) == 1
        assert memory.snapshot() == empty

    def test_an_assumed_beginning_is_not_in_it(self) -> None:
        assert self.digest_of([fact('a')], at=1) == self.digest_of([fact('a')], at=2)
        assert self.digest_of([fact('a', 1)]) != self.digest_of([fact('a', 2)])

    def test_the_manifest_says_what_it_stands_for(self, memory: MemoryService) -> None:
        memory.write([fact('a', 1), fact('b', 2), thing(0.0)])
        manifest = memory.manifest()
        assert manifest['digest'] == memory.snapshot()
        assert (manifest['sequence'], manifest['epoch'], manifest['complete']) == (1, memory.epoch, True)
        assert manifest['counts'] == {'semantic': 1, 'spatial': 1}
        assert {'timeline_digest', 'canonical_form', 'schema'} <= set(manifest)

    def timeline_digest(self, *items: MemoryItem) -> str:
        with self.open_memory(ManualClock(1000.0)) as memory:
            memory.write(items)
            return str(memory.manifest()['timeline_digest'])

    def test_the_timeline_digest_tells_closed_versions_too(self) -> None:
        timeline_digest = self.timeline_digest
        assert timeline_digest(fact('a', 1), fact('b', 2)) == timeline_digest(fact('b', 2), fact('a', 1))
        assert timeline_digest(fact('a', 1), fact('b', 2)) != timeline_digest(fact('c', 1), fact('b', 2))


class PurgeClauses(Clauses):
    """Real deletion: the one exception to "what was believed stays answerable"."""

    def test_nothing_is_left_on_any_axis(self, memory: MemoryService, clock: ManualClock) -> None:
        memory.write(
            [thing(0.0, 1, key='secret', content='zebra', entities=['zoo']), fact('kept', 1)], request_id='r1'
        )
        clock.set(1010)
        memory.write([thing(5.0, 2, key='secret', content='zebra moved', entities=['zoo'])])
        memory.forget(MemoryQuery(key='secret'))
        removal = memory.purge(MemoryQuery(text='zebra'))
        assert (removal, len(removal.ids), removal.sequence) == (2, 2, 4)
        for query in (
            MemoryQuery(key='secret'), MemoryQuery(text='zebra'), MemoryQuery(entities=['zoo']),
            near(0.0, 9.0),
            near(5.0, 9.0), MemoryQuery(ids=removal.ids),
        ):  # fmt: skip
            for axes in ({}, {'known_seq_': 1}, {'as_of_ns': NS}, {'include_invalidated': True}):
                axes = {name.rstrip('_'): value for name, value in axes.items()}
                assert memory.query(query.model_copy(update=axes)).total == 0, (query, axes)
        assert memory.history(key='secret').versions == ()
        assert contents(memory.query(MUG)) == ['kept']
        assert contents(memory.query(MemoryQuery(key='mug', known_seq=1))) == ['kept']

    def test_answers_about_the_time_before_say_so(self, memory: MemoryService) -> None:
        memory.write([fact('secret', 1), fact('kept', 1, key='cup')])
        assert memory.query(MemoryQuery(key='cup', known_seq=1)).purged == 0
        memory.purge(MUG)
        assert memory.query(MemoryQuery(key='cup', known_seq=1)).purged == 1
        assert memory.query(MemoryQuery(key='cup', known_seq=2)).purged == 0
        assert memory.query(MemoryQuery(key='cup')).purged == 0

    def test_the_feed_keeps_the_place_and_nothing_else(self, memory: MemoryService) -> None:
        memory.write([fact('secret', 1)])
        memory.write([fact('secret 2', 2), fact('kept', 1, key='cup')])
        memory.purge(MUG)
        first, second, third = memory.changes().changes
        assert (first.op, first.ids, first.keys) == ('PURGED', (), ())
        assert (second.op, second.keys, second.outcomes) == ('write', ('cup',), ('ADD',))
        assert (third.ids, third.keys) == ((), ())

    def test_a_kept_answer_is_gone_too(self, memory: MemoryService) -> None:
        first = memory.write([fact('secret', 1)], request_id='r1')
        memory.purge(MUG)
        again = memory.write([fact('secret', 1)], request_id='r1')
        assert again.sequence > first.sequence
        assert again.events[0].event == 'ADD'

    def test_what_was_purged_may_be_said_again(self, memory: MemoryService) -> None:
        memory.write([fact('a', 1, id='x')])
        memory.purge(MUG)
        memory.write([fact('b', 5, id='x')])
        assert spans(memory) == [('b', 5, None)]

    def test_snapshots_and_counts_follow(self, memory: MemoryService) -> None:
        memory.write([fact('kept', 1, key='cup')])
        before = memory.snapshot()
        memory.write([fact('a', 1), fact('b', 2), fact('c', None, key=None, label='x')])
        assert memory.purge(MUG) == 2
        assert memory.purge(MemoryQuery(labels=['x'])) == 1
        assert (memory.snapshot(), memory.counts()['semantic']) == (before, 1)


class RestoreClauses(Clauses):
    """A verified copy takes the place of the whole memory."""

    @pytest.fixture
    def copied(self, memory: MemoryService, tmp_path: Path) -> Path:
        memory.write([thing(0.0, 1, key='mug', content='red')])
        memory.write([fact('idea', 1, key='idea')])
        copy = tmp_path / 'copy.db'
        assert memory.snapshot(str(copy)) == memory.snapshot()
        return copy

    def test_the_past_comes_back_under_a_new_name(self, memory: MemoryService, copied: Path) -> None:
        digest, epoch = memory.snapshot(), memory.epoch
        memory.forget(MUG)
        memory.write([thing(7.0, 1, key='new'), fact('w', 1, key='w', kind='working')])
        memory.restore(str(copied))
        assert memory.snapshot() == digest
        assert memory.epoch != epoch
        assert memory.query(near(0.0, 1.0)).total == 1
        assert memory.query(near(7.0, 1.0)).total == 0
        assert memory.query(MemoryQuery(keys=['new', 'w'])).total == 0
        feed = memory.changes()
        assert [change.op for change in feed.changes] == ['write', 'write', 'restore']
        with pytest.raises(EpochChangedError):
            memory.changes((epoch, 1))
        memory.write([thing(8.0, 1, key='after')])
        assert memory.query(near(8.0, 0.5)).total == 1
        assert memory.mirror_sequence == memory.sequence == 4

    def test_restoring_twice_works(self, memory: MemoryService, copied: Path) -> None:
        epochs = {memory.epoch}
        for _ in range(2):
            memory.write([fact('more', 5, key='more')])
            memory.restore(str(copied))
            epochs.add(memory.epoch)
            assert memory.query(MemoryQuery(key='more')).total == 0
        assert len(epochs) == 3

    def test_a_damaged_copy_changes_nothing(
        self, memory: MemoryService, copied: Path, tmp_path: Path
    ) -> None:
        memory.write([fact('later', 5, key='later')])
        before = state_of(memory)
        whole = copied.read_bytes()
        broken = {
            'half.db': whole[: len(whole) // 2], 'empty.db': b'', 'text.db': b'no database' * 100,
            'flipped.db': whole.replace(b'red', b'rad'),
        }  # fmt: skip
        for name, data in broken.items():
            (tmp_path / name).write_bytes(data)
            with pytest.raises(StoreError, match=name):
                memory.restore(str(tmp_path / name))
            assert state_of(memory) == before, name
            assert (tmp_path / name).read_bytes() == data
        with pytest.raises(HyloMemoryError, match='nowhere'):
            memory.restore(str(tmp_path / 'nowhere.db'))
        with pytest.raises(StoreError):
            memory.restore(str(tmp_path))
        assert state_of(memory) == before

    def test_a_copy_of_another_identity_scope_is_refused(self, clock: ManualClock, copied: Path) -> None:
        with self.open_memory(clock, MemoryConfig(identity_scope=('map_id', 'robot_id'))) as other:
            other.write([fact('a', 1)])
            before = state_of(other)
            with pytest.raises((ConfigurationError, StoreError), match='identity_scope'):
                other.restore(str(copied))
            assert state_of(other) == before

    def test_a_copy_is_never_overwritten(self, memory: MemoryService, copied: Path, tmp_path: Path) -> None:
        data = copied.read_bytes()
        with pytest.raises(StoreError, match='exists'):
            memory.snapshot(str(copied))
        with pytest.raises(StoreError, match='missing'):
            memory.snapshot(str(tmp_path / 'missing' / 'copy.db'))
        assert copied.read_bytes() == data
        assert sorted(path.name for path in tmp_path.glob('*copy*')) == ['copy.db']

    def test_the_copy_stands_alone(self, memory: MemoryService, copied: Path, clock: ManualClock) -> None:
        memory.write([fact('later', 5, key='later')])
        with MemoryService.open(f'sqlite:///{copied}', clock=clock, read_only=True) as other:
            assert only(other.query(near(0.0, 1.0))).item.content == 'red'
            assert other.query(MemoryQuery(key='later')).total == 0
            assert other.verify().ok
