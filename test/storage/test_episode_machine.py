"""Whatever is said in whichever episode: a question by episode or outcome is what looking at all gives."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from storage.plain_memory import NS, PlainMemory, Stretch
from support.clock import ManualClock
from support.effort import scaled

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService

FACTS = frozenset({'semantic'})
OUTCOMES = ('success', 'failure')


ENDED = {'': '', 'forget': 'forgotten'}


class PlainEpisodes(PlainMemory):
    """The plain memory, with episodes as lists of sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.episodes: list[tuple[str, int, int | None, str]] = []

    def begin(self, name: str) -> None:
        self._commit()
        self.episodes.append((name, self.sequence, None, ''))

    def end(self, outcome: str) -> None:  # type: ignore[override]
        self._commit()
        name, begun, _, _ = self.episodes.pop()
        self.episodes.append((name, begun, self.sequence, outcome))

    @property
    def is_open(self) -> bool:
        return bool(self.episodes) and self.episodes[-1][2] is None

    def episode_of(self, seq: int) -> str:
        inside = (
            name
            for name, begun, ended, _ in self.episodes
            if begun <= seq and (ended is None or seq <= ended)
        )
        return next(inside, '')

    def meant(self, query: MemoryQuery) -> list[tuple[int, int | None]]:
        """Return the episodes that a question means, from where to where."""
        known = self.belief_of(query)
        return [
            (begun, ended)
            for name, begun, ended, outcome in self.episodes
            if query.episode in (None, name)
            and (query.outcome is None or (query.outcome == outcome and ended is not None and ended <= known))
        ]

    def said_in(self, query: MemoryQuery) -> set[tuple[object, ...]]:
        meant, known = self.meant(query), self.belief_of(query)

        def belongs(stretch: Stretch) -> bool:
            return any(
                begun <= said.seq <= (known if ended is None else min(ended, known))
                for said in self.said
                for begun, ended in meant
                if said.about == stretch.said.about
                and said.content == stretch.said.content
                and stretch.start <= said.at
                and (stretch.end is None or said.at < stretch.end)
            )

        asked = query.model_copy(update={'episode': None, 'outcome': None})
        return {
            (stretch.said.item.key, stretch.said.item.content, *stretch.face()[1:])
            for stretch in self.answer(asked)
            if belongs(stretch)
        }


def fact(key: str, content: str, at: int) -> MemoryItem:
    return MemoryItem(kind='semantic', key=key, content=content, valid_from=at)


facts = st.builds(fact, st.sampled_from('ab'), st.sampled_from('xy'), st.integers(1, 4))
steps = st.one_of(
    st.lists(facts, min_size=1, max_size=3),
    st.sampled_from(('begin', *OUTCOMES, 'begin', *OUTCOMES, 'forget')),
)
queries = st.builds(
    lambda **fields: MemoryQuery(
        kinds=FACTS, k=100, **{name: value for name, value in fields.items() if value is not None}
    ),
    episode=st.sampled_from((None, 'e0', 'e1', 'e2')),
    outcome=st.sampled_from((None, *OUTCOMES)),
    as_of=st.sampled_from((None, 2, 3)),
    known_seq=st.one_of(st.none(), st.integers(0, 12)),
    include_invalidated=st.booleans(),
).filter(lambda query: query.episode is not None or query.outcome is not None)


@settings(
    max_examples=scaled(25),
    deadline=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(steps=st.lists(steps, min_size=4, max_size=14), asked=st.lists(queries, min_size=4, max_size=12))
def test_a_question_is_what_looking_at_everything_gives(steps: list[Any], asked: list[MemoryQuery]) -> None:
    clock, plain = ManualClock(100.0), PlainEpisodes()
    with MemoryService.open(clock=clock) as memory:
        for second, step in enumerate(steps, start=101):
            clock.set(float(second))
            plain.look_at(second * NS)
            if isinstance(step, list):
                plain.write(step, list(memory.write(step).ids))
            elif step == 'forget':
                assert memory.forget(MemoryQuery(key='a')) == len(plain.forget(MemoryQuery(key='a')))
            elif step == 'begin' and not plain.is_open:
                name = f'e{len(plain.episodes)}'
                plain.begin(name)
                memory.begin_episode(name)
            elif step in OUTCOMES and plain.is_open:
                plain.end(step)
                memory.end_episode(outcome=step, events=0)
            assert memory.sequence == plain.sequence
        for query in asked:
            hits = memory.query(query)
            found = {
                (h.item.key, h.item.content, h.item.valid_from_ns, h.valid_to_ns, ENDED[h.ended_by])
                for h in hits
            }
            assert found == plain.said_in(query), query
        assert memory.verify().ok
