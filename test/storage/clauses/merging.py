"""Repetitions that add confidence, source, covariance, evidence, provenance or vectors."""

from __future__ import annotations

from typing import Any

import pytest
from storage.clauses.base import NS, Clauses, ManualClock, fact, only, spans, thing

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.perception import RigidCorrection
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.transforms import Transform

MUG = MemoryQuery(key='mug')
COVARIANCE = [0.25, *[0.0] * 35]


def shown(memory: MemoryService, **axes: Any) -> tuple[object, ...]:
    """Return confidence, source, evidence, provenance and vectors of the mug."""
    query = MUG.model_copy(update=axes)
    item = only(memory.query(query)).item
    return item.confidence, item.source, item.evidence, dict(item.provenance), dict(item.embeddings)


class MergeClauses(Clauses):
    """Merges: what a repetition adds is believed from its transaction on."""

    def events(self, memory: MemoryService, *items: MemoryItem) -> list[str]:
        return [event.event for item in items for event in memory.write([item]).events]

    def test_what_a_repetition_adds_is_shown_and_what_was_before_stays_known(
        self, memory: MemoryService
    ) -> None:
        first = fact('red', 1, confidence=0.5, source='a@1', evidence=['x'], provenance={'n': 1, 'm': 1})
        again = fact('red', 2, confidence=0.9, source='b@1', evidence=['y', 'x'], provenance={'n': 2})
        (one,) = memory.write([first]).events
        (event,) = memory.write([again]).events
        assert (event.event, event.id, event.key, event.closed_id) == ('MERGE', one.id, 'mug', '')
        assert shown(memory) == (0.9, 'b@1', ('x', 'y'), {'n': 2, 'm': 1}, {})
        assert shown(memory, known_seq=1) == (0.5, 'a@1', ('x',), {'n': 1, 'm': 1}, {})
        hit = only(memory.query(MUG))
        assert (hit.item.valid_from, hit.valid_to, hit.sequence) == (1, None, 2)
        assert memory.changes().changes[-1].outcomes == ('MERGE',)
        assert [version.from_seq for version in memory.history(key='mug').versions] == [1, 2]
        assert memory.query(MemoryQuery(key='mug', include_invalidated=True)).total == 1

    def test_vectors_are_merged_by_space(self, memory: MemoryService) -> None:
        memory.write([fact('red', 1, embeddings={'clip@1': [1, 0], 'text@1': [1, 0, 0]})])
        vectors = {'clip@1': [0, 1], 'face@1': [1, 1]}
        assert self.events(memory, fact('red', 2, embeddings=vectors)) == ['MERGE']
        assert shown(memory)[4] == {'clip@1': (0, 1), 'text@1': (1, 0, 0), 'face@1': (1, 1)}
        for space, vector, similarity in (('clip@1', (0, 1), 1.0), ('text@1', (1, 0, 0), 1.0)):
            hit = only(memory.query(MemoryQuery(embedding=(space, vector))))
            assert hit.score == pytest.approx(similarity)
        before = only(memory.query(MemoryQuery(embedding=('clip@1', (1, 0)), known_seq=1)))
        assert before.score == pytest.approx(1.0)
        assert not memory.query(MemoryQuery(embedding=('face@1', (1, 1)), known_seq=1))

    def test_a_covariance_comes_with_its_stamp_and_without_another_place(self, memory: MemoryService) -> None:
        pose = {'frame_id': 'map', 'position': (1, 0, 0), 'stamp': 1}
        memory.write([thing(0, 1, key='mug', pose=pose)])
        again = thing(0, 2, key='mug', pose={**pose, 'stamp': 2, 'covariance': COVARIANCE})
        assert self.events(memory, again, again) == ['MERGE', 'SKIP_DUP']
        merged = only(memory.query(MUG)).item.pose
        assert merged is not None
        assert (merged.covariance, merged.stamp_ns) == (tuple(COVARIANCE), 2 * NS)
        before = only(memory.query(MemoryQuery(key='mug', known_seq=1))).item.pose
        assert before is not None
        assert (before.covariance, before.stamp_ns) == (None, NS)

    def test_what_is_not_given_takes_nothing_away(self, memory: MemoryService) -> None:
        full = fact(
            'red', 1, source='a@1', evidence=['x'], provenance={'n': 1}, embeddings={'clip@1': [1, 0]}
        )
        memory.write([full])
        before = shown(memory)
        assert self.events(memory, fact('red', 2), fact('red', 3, evidence=['x'])) == ['SKIP_DUP'] * 2
        assert shown(memory) == before

    def test_confidence_that_moves_by_less_than_the_step_changes_nothing(self, clock: ManualClock) -> None:
        with self.open_memory(clock, MemoryConfig(confidence_step=0.2)) as memory:
            written = [fact('red', at, confidence=value) for at, value in ((1, 0.5), (2, 0.65), (3, 0.69))]
            assert self.events(memory, *written) == ['ADD', 'SKIP_DUP', 'SKIP_DUP']
            assert self.events(memory, fact('red', 4, confidence=0.7)) == ['MERGE']
            assert self.events(memory, fact('red', 5, confidence=0.55)) == ['SKIP_DUP']
            assert shown(memory)[0] == 0.7

    def test_a_door_that_is_reported_every_second_does_not_grow(self, memory: MemoryService) -> None:
        memory.write([fact('open', 1, confidence=0.9)])
        before = memory.over_limit(), memory.fill()
        for at in range(200):
            confidence = 0.9 + 0.04 * (at % 3 - 1)
            assert self.events(memory, fact('open', 2 + at, confidence=confidence)) == ['SKIP_DUP']
        assert (memory.over_limit(), memory.fill()) == before
        assert len(memory.history(key='mug').versions) == 1

    def test_evidence_that_never_ends_is_bounded_to_the_newest(self, memory: MemoryService) -> None:
        for at in range(70):
            memory.write([fact('open', 1 + at, evidence=[f'photo/{at}'])])
        assert shown(memory)[2] == tuple(f'photo/{at}' for at in range(6, 70))

    @pytest.mark.parametrize('order', [(0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)])
    @pytest.mark.parametrize('one_call', [False, True], ids=['call by call', 'in one call'])
    def test_the_order_of_writes_does_not_matter(
        self, clock: ManualClock, order: tuple[int, ...], one_call: bool
    ) -> None:
        items = [
            fact('red', 1, confidence=0.5, evidence=['x'], embeddings={'clip@1': [1, 0]}),
            fact('red', 2, confidence=0.9, source='b@1', embeddings={'clip@1': [0, 1]}),
            fact('red', 3, confidence=0.7, evidence=['z'], provenance={'n': 3}),
        ]
        written = [items[place] for place in order]
        with self.open_memory(clock) as memory:
            for call in [written] if one_call else [[item] for item in written]:
                memory.write(call)
            expected = (0.7, 'b@1', ('x', 'z'), {'n': 3}, {'clip@1': (0, 1)})
            assert shown(memory) == expected
            digest = memory.snapshot()
            assert memory.verify().ok
        with self.open_memory(clock) as memory:
            memory.write(items)
            assert memory.snapshot() == digest

    def test_a_late_fact_parts_what_was_merged(self, memory: MemoryService) -> None:
        memory.write([fact('red', 1, confidence=0.5), fact('red', 5, confidence=0.9)])
        assert shown(memory)[0] == 0.9
        memory.write([fact('blue', 3)])
        assert spans(memory) == [('red', 1, 3), ('blue', 3, 5), ('red', 5, None)]
        assert (shown(memory, as_of_ns=2 * NS)[0], shown(memory)[0]) == (0.5, 0.9)
        memory.retract(MemoryQuery(key='mug', as_of=4))
        assert spans(memory) == [('red', 1, None)]
        assert shown(memory)[0] == 0.9
        assert shown(memory, as_of_ns=2 * NS, known_seq=2)[0] == 0.5

    def test_an_end_parts_what_was_merged(self, memory: MemoryService) -> None:
        memory.write([thing(0, 1, key='mug', confidence=0.5), thing(0, 5, key='mug', confidence=0.9)])
        memory.end(['mug'], 3 * NS)
        assert (shown(memory, as_of_ns=2 * NS)[0], shown(memory)[0]) == (0.5, 0.9)

    def test_a_forgotten_version_may_gain_evidence_and_stays_forgotten(
        self, memory: MemoryService, clock: ManualClock
    ) -> None:
        memory.write([fact('red', 1)])
        memory.forget(MUG)
        (event,) = memory.write([fact('red', 50, evidence=['x'])]).events
        assert (event.event, event.reason) == ('MERGE', 'forgotten')
        assert not memory.query(MUG)
        assert shown(memory, as_of_ns=60 * NS)[2] == ('x',)

    def test_what_is_retracted_is_gone_with_all_that_was_merged(self, memory: MemoryService) -> None:
        memory.write([fact('blue', 1), fact('red', 2), fact('red', 3, confidence=0.2)])
        assert memory.retract(MUG) == 1
        assert spans(memory) == [('blue', 1, None)]
        assert self.events(memory, fact('red', 2)) == ['INVALIDATE']
        assert shown(memory)[0] == 1.0

    def test_statements_without_a_key_are_merged_too(self, memory: MemoryService) -> None:
        text = fact('door opened', 1, key=None, confidence=0.5)
        again = text.model_copy(update={'confidence': 0.9, 'evidence': ('x',)})
        assert self.events(memory, text, again, again) == ['ADD', 'MERGE', 'SKIP_DUP']
        item = only(memory.query(MemoryQuery(text='door'))).item
        assert (item.confidence, item.evidence) == (0.9, ('x',))

    def test_working_memory_merges_too(self, memory: MemoryService) -> None:
        goal = fact('fetch', 1, kind='working', confidence=0.5)
        again = goal.model_copy(update={'confidence': 0.9, 'evidence': ('x',)})
        assert self.events(memory, goal, again, again) == ['ADD', 'MERGE', 'SKIP_DUP']
        assert shown(memory)[:3] == (0.9, '', ('x',))

    def test_filters_see_what_is_shown(self, memory: MemoryService) -> None:
        memory.write([fact('red', 1, confidence=0.9)])
        memory.write([fact('red', 2, confidence=0.2)])
        certain = MemoryQuery(key='mug', min_confidence=0.5)
        assert not memory.query(certain)
        assert memory.query(certain.model_copy(update={'known_seq': 1})).total == 1

    def test_a_correction_moves_what_was_merged_and_its_reversal_puts_it_back(
        self, memory: MemoryService
    ) -> None:
        memory.set_map('hall')
        memory.write([thing(1.0, 1, key='mug', confidence=0.5)])
        memory.write([thing(1.0, 2, key='mug', confidence=0.9, evidence=['x'])])
        merged = memory.snapshot()
        moved = memory.correct_map(RigidCorrection(Transform((1.0, 0.0, 0.0))))
        assert moved.moved == 1
        item = only(memory.query(MUG)).item
        assert item.pose is not None
        assert (item.pose.position, item.confidence, item.evidence) == ((2.0, 0.0, 0.0), 0.9, ('x',))
        # The same statement in the old map, with more to add.
        again = thing(1.0, 1, key='mug', confidence=0.5, source='late@1')
        assert self.events(memory, again) == ['MERGE']
        item = only(memory.query(MUG)).item
        assert item.pose is not None
        assert (item.pose.position, item.source, item.confidence) == ((2.0, 0.0, 0.0), 'late@1', 0.9)
        assert memory.verify().ok
        memory.revert_correction(moved.correction_id)
        item = only(memory.query(MUG)).item
        assert item.pose is not None
        assert (item.pose.position, item.source, item.confidence) == ((1.0, 0.0, 0.0), 'late@1', 0.9)
        assert shown(memory, known_seq=2)[:3] == (0.9, '', ('x',))
        assert memory.snapshot() != merged

    def test_a_purge_takes_merges_too(self, memory: MemoryService) -> None:
        memory.write([fact('red', 1)])
        memory.write([fact('red', 2, evidence=['secret'])])
        assert memory.purge(MUG) == 1
        assert not memory.query(MemoryQuery(key='mug', known_seq=2))
        assert memory.history(key='mug').versions == ()
