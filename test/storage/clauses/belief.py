"""The two time axes: when it was so, and when it was believed."""

from __future__ import annotations

from storage.clauses.base import NS, Clauses, ManualClock, contents, fact, near, only, thing

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.service import MemoryService

MUG = MemoryQuery(key='mug')


class BeliefClauses(Clauses):
    """What did we believe at K was true at T?"""

    def test_a_late_fact_changes_the_past_but_not_what_was_believed(
        self, memory: MemoryService, clock: ManualClock
    ) -> None:
        for recorded, content, at in ((10, 'A', 1), (20, 'C', 9), (30, 'B', 5)):
            clock.set(recorded)
            memory.write([fact(content, at)])
        clock.set(40)
        table = {
            (9, 6): [], (10, 6): ['A'], (10, 12): ['A'], (19.5, 12): ['A'], (20, 6): ['A'], (20, 12): ['C'],
            (29, 6): ['A'], (30, 6): ['B'], (30, 12): ['C'], (30, 4): ['A'], (35, 0.5): [],
        }  # fmt: skip
        for (known_at, as_of), expected in table.items():
            assert contents(memory.query(MemoryQuery(key='mug', known_at=known_at, as_of=as_of))) == expected
        by_sequence = {
            (0, 6): [],
            (1, 6): ['A'],
            (2, 6): ['A'],
            (3, 6): ['B'],
            (99, 6): ['B'],
            (1, 12): ['A'],
        }
        for (known_seq, as_of), expected in by_sequence.items():
            assert (
                contents(memory.query(MemoryQuery(key='mug', known_seq=known_seq, as_of=as_of))) == expected
            )

    def test_the_same_holds_for_places(self, memory: MemoryService, clock: ManualClock) -> None:
        for recorded, x, at in ((10, 0.0, 1), (20, 9.0, 8), (30, 5.0, 4)):
            clock.set(recorded)
            memory.write([thing(x, at, key='mug')])
        clock.set(40)
        memory.forget(near(9.0, 0.5))
        clock.set(50)
        for known_at, as_of, x in (
            (10, 9, 0.0),
            (20, 9, 9.0),
            (20, 6, 0.0),
            (30, 6, 5.0),
            (39, 45, 9.0),
            (50, 9, 9.0),
        ):
            axes = {'known_at': known_at, 'as_of': as_of}
            for asked in (0.0, 5.0, 9.0):
                assert len(memory.query(near(asked, 0.5, **axes))) == (asked == x), (axes, asked)
        assert not memory.query(near(9.0, 0.5, known_at=50, as_of=45))

    def test_transactions_may_share_a_recorded_time(self, memory: MemoryService) -> None:
        memory.write([fact('A', 1)])
        memory.write([fact('B', 2)])
        assert contents(memory.query(MemoryQuery(key='mug', known_at=1000))) == ['B']
        assert contents(memory.query(MemoryQuery(key='mug', known_seq=1))) == ['A']
        assert not memory.query(MemoryQuery(key='mug', known_at=999.999))

    def test_a_known_time_goes_with_the_present(self, memory: MemoryService, clock: ManualClock) -> None:
        memory.write([fact('A', 1)])
        clock.set(1010)
        memory.write([fact('B', 2)])
        assert contents(memory.query(MemoryQuery(key='mug', known_at=1005))) == ['A']
        assert contents(memory.query(MemoryQuery(key='mug', as_of=1.5))) == ['A']

    def test_intervals_are_half_open(self, memory: MemoryService) -> None:
        memory.write([fact('A', 1), fact('B', 2)])
        for as_of_ns, expected in ((NS - 1, []), (NS, ['A']), (2 * NS - 1, ['A']), (2 * NS, ['B'])):
            assert contents(memory.query(MemoryQuery(key='mug', as_of_ns=as_of_ns))) == expected

    def test_nanoseconds_are_exact(self, memory: MemoryService, clock: ManualClock) -> None:
        stamp = 1553575413247045598
        clock.now_ns = stamp + NS
        memory.write([fact('A', None, valid_from_ns=stamp)])
        memory.write([fact('B', None, valid_from_ns=stamp + 1)])
        assert contents(memory.query(MemoryQuery(key='mug', as_of_ns=stamp))) == ['A']
        assert contents(memory.query(MemoryQuery(key='mug', as_of_ns=stamp + 1))) == ['B']
        assert not memory.query(MemoryQuery(key='mug', as_of_ns=stamp - 1))
        assert only(memory.query(MUG)).item.valid_from_ns == stamp + 1

    def test_the_answer_says_how_far_it_looked(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, key='a')])
        memory.write([thing(0.0, key='b')])
        for query in (MemoryQuery(key='a'), near(0.0, 1.0)):
            assert memory.query(query).sequence == 2
            assert memory.query(query.model_copy(update={'known_seq': 1})).sequence == 1
        assert memory.query(MemoryQuery(key='a', as_of=5)).as_of_ns == 5 * NS

    def test_the_near_future_counts_as_now(self, memory: MemoryService, clock: ManualClock) -> None:
        memory.write(
            [thing(0.0, 1001, key='within'), thing(0.0, None, key='beyond', valid_from_ns=1001 * NS + 1)]
        )
        assert [hit.item.key for hit in memory.query(near(0.0, 1.0))] == ['within']
        assert only(memory.query(MemoryQuery(key='within'))).status == 'current'
        assert not memory.query(MemoryQuery(key='beyond'))
        clock.now_ns += 1
        assert only(memory.query(MemoryQuery(key='beyond'))).status == 'current'

    def test_one_of_two_states_is_current_in_the_near_future(self, memory: MemoryService) -> None:
        memory.write(
            [thing(0.0, 1, key='door', content='shut'), thing(0.0, 1000.5, key='door', content='open')]
        )
        assert (
            contents(memory.query(MemoryQuery(key='door')))
            == contents(memory.query(near(0.0, 1.0)))
            == ['open']
        )

    def test_the_tolerance_is_a_setting(self, clock: ManualClock) -> None:
        with self.open_memory(clock, MemoryConfig(future_tolerance_s=0)) as memory:
            memory.write([fact('A', None, valid_from_ns=1000 * NS), fact('B', 1000.5, key='soon')])
            assert memory.query(MUG)
            assert not memory.query(MemoryQuery(key='soon'))

    def test_now_is_the_highest_time_seen(self, memory: MemoryService, clock: ManualClock) -> None:
        memory.write([fact('A', 1500)])
        clock.set(1500)
        assert memory.query(MUG)
        clock.set(900)
        assert memory.query(MUG)
        assert memory.now_ns() == 1500 * NS

    def test_each_version_has_its_status(self, memory: MemoryService, clock: ManualClock) -> None:
        memory.write([fact('old', 1), fact('now', 5), fact('next', 2000), fact('x', 1, key='cup')])
        memory.forget(MemoryQuery(key='cup'))
        statuses = {
            hit.item.content: hit.status
            for hit in memory.query(MemoryQuery(keys=['mug', 'cup'], include_invalidated=True))
        }
        assert statuses == {'old': 'invalidated', 'now': 'current', 'next': 'scheduled', 'x': 'forgotten'}
        assert only(memory.query(MemoryQuery(key='mug', as_of=2))).status == 'current'
        assert only(memory.query(MemoryQuery(key='mug', as_of=3000))).status == 'current'

    def test_every_version_is_one_hit(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, at, key='mug', content=f'state {at}') for at in range(1, 21)])
        for query in (MUG, near(0.0, 1.0), MemoryQuery(text='state')):
            hits = memory.query(query.model_copy(update={'include_invalidated': True, 'k': 100}))
            assert sorted(h.item.valid_from or 0 for h in hits) == list(range(1, 21))
            assert hits.total == 20

    def test_closed_versions_never_use_up_k(self, memory: MemoryService) -> None:
        memory.write([thing(0.01, 1, key='neighbour', label='cup')])
        for first in range(1, 1000, 100):
            memory.write([
                thing(0.0, at, key='busy', label='cup', content=f'state {at}')
                for at in range(first, first + 100)
            ])  # fmt: skip
        for query in (
            near(0.0, 1.0, k=10),
            MemoryQuery(labels=['cup'], k=10),
            near(0.0, 1.0, k=10, labels=['cup']),
        ):
            result = memory.query(query)
            assert sorted(hit.item.key or '' for hit in result) == ['busy', 'neighbour']
            assert (result.total, result.truncated) == (2, False)
        assert memory.query(near(0.0, 1.0, k=5, as_of=500)).total == 2
        assert memory.query(near(0.0, 1.0, k=5, include_invalidated=True)).total == 1001
