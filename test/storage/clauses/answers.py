"""How an answer is ordered, how it explains itself, and how it goes on."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from storage.clauses.base import Clauses, ManualClock, fact, near, only, place, thing

from hylo_memory_ros.errors import EpochChangedError, HyloMemoryError, InvalidRequestError
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.service import MemoryService


class RankingClauses(Clauses):
    """Scores are higher-better, in [0, 1], and name their parts."""

    def test_near_scores_fall_with_the_distance(self, memory: MemoryService) -> None:
        memory.write([thing(x, key=f'{x}') for x in (0.0, 1.0, 3.0)])
        hits = memory.query(near(0.0, 5.0))
        assert [(hit.score, hit.distance_m) for hit in hits] == [(1.0, 0.0), (0.5, 1.0), (0.25, 3.0)]
        assert hits[1].details == {'near': 0.5}

    def test_filters_alone_score_one(self, memory: MemoryService) -> None:
        memory.write([fact('a', 1)])
        hit = only(memory.query(MemoryQuery(key='mug')))
        assert (hit.score, hit.distance_m) == (1.0, None)

    def test_text_scores_lie_between_and_fall(self, memory: MemoryService) -> None:
        memory.write([fact(f'mug {"filler " * n}', 1, key=f'k{n}') for n in range(5)])
        memory.write([fact('something else', 1, key=f'other{n}') for n in range(20)])
        hits = memory.query(MemoryQuery(text='mug'))
        scores = [hit.score for hit in hits]
        assert [hit.item.key for hit in hits] == [f'k{n}' for n in range(5)]
        assert scores == sorted(set(scores), reverse=True)
        assert all(0.0 < score < 1.0 for score in scores)
        assert hits[0].details == {'text': scores[0]}

    def test_a_place_and_a_text_are_fused(self, memory: MemoryService) -> None:
        memory.write(
            [thing(0.0, key='best', content='mug'), thing(1.0, key='far', content='mug with a long tale')]
        )
        hits = memory.query(near(0.0, 5.0, text='mug'))
        assert [hit.item.key for hit in hits] == ['best', 'far']
        assert hits[0].score == 1.0
        assert 0.0 < hits[1].score < 1.0
        assert set(hits[0].details) >= {'near', 'text'}
        assert (hits[0].details['near'], hits[1].details['near']) == (1.0, 0.5)

    def test_ties_are_ordered_by_newest_then_id(self, memory: MemoryService) -> None:
        memory.write([thing(1.0, at, key=f'{at} {n}') for at in (1, 2) for n in range(3)])
        memory.write([thing(-1.0, 3, key='newest'), thing(0.5, 1, key='nearest')])
        hits = list(memory.query(near(0.0, 5.0)))
        assert [hit.item.key for hit in hits[:2]] == ['nearest', 'newest']
        order = [(-(hit.item.valid_from or 0), hit.item.id) for hit in hits[2:]]
        assert order == sorted(order)
        assert [hit.item.id for hit in memory.query(near(0.0, 5.0, k=4))] == [hit.item.id for hit in hits[:4]]
        by_filter = [
            (-(hit.item.valid_from or 0), hit.item.id) for hit in memory.query(MemoryQuery(kinds=['spatial']))
        ]
        assert by_filter == sorted(by_filter)

    def test_a_least_score_leaves_out_and_counts(self, memory: MemoryService) -> None:
        memory.write([thing(x, key=f'{x}', content='mug') for x in (0.0, 1.0, 3.0)])
        result = memory.query(near(0.0, 5.0, min_score=0.5))
        assert ([hit.score for hit in result], result.total) == ([1.0, 0.5], 2)
        assert result.excluded['below_score'] == 1
        text = memory.query(MemoryQuery(text='mug', min_score=0.99))
        assert (len(text), text.total, text.excluded['below_score']) == (0, 0, 3)

    @pytest.mark.parametrize('operation', ['forget', 'retract', 'purge'])
    def test_similarity_never_decides_what_is_taken_away(self, memory: MemoryService, operation: str) -> None:
        memory.write([fact('red mug', 1, embeddings={'clip@1': (1.0, 0.0)})])
        with pytest.raises(InvalidRequestError, match='embedding'):
            getattr(memory, operation)(MemoryQuery(key='mug', embedding=('clip@1', (1.0, 0.0))))
        assert memory.query(MemoryQuery(embedding=('clip@1', (1.0, 0.0)))).total == 1
        assert getattr(memory, operation)(MemoryQuery(key='mug')) == 1
        assert memory.query(MemoryQuery(embedding=('clip@1', (1.0, 0.0)))).total == 0

    def test_a_removal_follows_links_exactly(self, memory: MemoryService) -> None:
        memory.write(
            [fact('tray', 1, 'tray', links=(('on', 'O12'),)), fact('cup', 1, 'cup', links=(('on', 'tray'),))]
        )
        assert memory.forget(MemoryQuery(relation=('on', 'O12'), depth=2), dry_run=True) == 2
        assert memory.forget(MemoryQuery(relation=('on', 'O12'))) == 1
        # The chain is broken where it was forgotten, and whole before.
        assert memory.query(MemoryQuery(relation=('on', 'O12'), depth=2)).total == 0
        assert memory.query(MemoryQuery(relation=('on', 'O12'), depth=2, as_of=5)).total == 2


class ExplanationClauses(Clauses):
    """An answer with fewer than k hits says what it left out, and why."""

    def test_each_reason_near_a_place(self, memory: MemoryService, clock: ManualClock) -> None:
        memory.write([
            thing(0.0, 1, key='other map', scope={'map_id': 'lab'}),
            thing(0.0, 1, key='other frame', pose=place(0.0, frame='odom')),
            thing(0.0, 2000, key='later'),
            thing(0.0, 1, key='moved'), thing(50.0, 2, key='moved'),
            thing(0.0, 1, key='gone'),
            thing(2.5, 1, key='outside'),
        ])  # fmt: skip
        assert memory.forget(MemoryQuery(key='gone')) == 1
        result = memory.query(near(0.0, 2.0))
        assert not result
        assert result.excluded == {
            'other_map': 1, 'other_frame': 1, 'not_yet_valid': 1, 'invalidated': 1, 'forgotten': 1,
            'outside_radius': 2,
        }  # fmt: skip
        assert result.nearest_excluded_m == 2.5

    @pytest.mark.parametrize(
        'filters', [{'key': 'mug'}, {'labels': ['cup']}, {'text': 'tea'}, {'entities': ['ann']}]
    )
    def test_each_reason_of_time_without_a_place(
        self, memory: MemoryService, filters: dict[str, Any]
    ) -> None:
        rest = {'label': 'cup', 'entities': ['ann']}
        memory.write([fact('tea 1', 1, **rest), fact('tea 2', 2, **rest), fact('tea 3', 2000, **rest)])
        memory.write([fact('tea 4', 1, kind='episodic', **rest)])
        assert memory.forget(MemoryQuery(kinds=['episodic'], key='mug')) == 1
        result = memory.query(MemoryQuery(**filters))
        assert [hit.item.content for hit in result] == ['tea 2']
        assert result.excluded == {'not_yet_valid': 1, 'invalidated': 1, 'forgotten': 1}

    def test_another_map_is_named(self, memory: MemoryService) -> None:
        memory.write([fact('a', 1, scope={'map_id': 'lab'}), fact('b', 1, scope={'map_id': 'hall'})])
        result = memory.query(MemoryQuery(key='mug', scope={'map_id': 'attic'}))
        assert result.excluded == {'other_map': 2}

    def test_the_nearest_outside_is_found_at_any_distance(self, memory: MemoryService) -> None:
        assert memory.query(near(0.0, 1.0)).nearest_excluded_m is None
        memory.write([thing(1e8, key='far'), thing(2e8, key='farther')])
        result = memory.query(near(0.0, 1.0))
        assert (result.nearest_excluded_m, result.excluded) == (1e8, {'outside_radius': 2})

    def test_the_nearest_outside_passes_the_filters(self, memory: MemoryService) -> None:
        memory.write([thing(3.0, key=f'c{n}', label='cup') for n in range(100)])
        memory.write(
            [thing(5.0, key='m', label='mug'), thing(3.0, 1, key='x', label='mug'), thing(9.0, 2, key='x')]
        )
        assert memory.query(near(0.0, 1.0, labels=['mug'])).nearest_excluded_m == 5.0
        assert memory.query(near(0.0, 1.0, labels=['jug'])).nearest_excluded_m is None

    def test_of_several_at_one_distance_any_may_match(self, memory: MemoryService) -> None:
        memory.write([thing(5.0, key=label, label=label) for label in ('cup', 'jug', 'mug', 'pot')])
        for label in ('cup', 'jug', 'mug', 'pot'):
            assert memory.query(near(0.0, 1.0, labels=[label])).nearest_excluded_m == 5.0

    def test_a_full_answer_explains_on_request(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, 1, key='mug'), thing(0.1, 2, key='mug'), thing(0.0, 1, key='cup')])
        assert memory.query(near(0.0, 1.0, k=2)).excluded == {}
        assert memory.query(near(0.0, 1.0, k=2, explain=True)).excluded == {'invalidated': 1}

    def test_past_questions_explain_the_past(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, 10, key='mug'), thing(3.0, 20, key='mug')])
        for query in (near(0.0, 1.0, as_of=5), MemoryQuery(key='mug', as_of=5, k=1)):
            assert memory.query(query).excluded['not_yet_valid'] >= 1
        assert memory.query(near(0.0, 1.0, as_of=25)).excluded == {'invalidated': 1, 'outside_radius': 1}
        assert memory.query(MemoryQuery(key='mug', known_seq=0)).excluded == {}


class PagingClauses(Clauses):
    """A truncated answer goes on where it ended, as if nothing had happened meanwhile."""

    QUERIES = {
        'filters': MemoryQuery(labels=['cup']),
        'place': near(0.0, 50.0),
        'place and filter': near(0.0, 50.0, labels=['cup']),
        'text': MemoryQuery(text='red'),
        'place and text': near(0.0, 50.0, text='red'),
        'every version': MemoryQuery(labels=['cup'], include_invalidated=True),
        'the past': near(0.0, 50.0, as_of=1.5, known_seq=1),
    }

    @pytest.fixture
    def shelf(self, memory: MemoryService) -> MemoryService:
        def row(at: float, first: int, step: int, tail: str) -> None:
            memory.write([
                thing((n % 10) / 2, at, key=f'k{n}', label='cup', content=f'red {"word " * (n % 7)}{tail}')
                for n in range(first, 40, step)
            ])  # fmt: skip

        row(1, 0, 1, 'one')
        row(2, 0, 3, 'two')
        return memory

    @staticmethod
    def pages(
        memory: MemoryService, query: MemoryQuery, k: int, between: Callable[[int], object]
    ) -> list[Any]:
        hits, cursor, count = [], None, 0
        while True:
            page = memory.query(query.model_copy(update={'k': k, 'cursor': cursor}))
            hits += list(page)
            assert page.truncated == (page.cursor is not None)
            if page.cursor is None:
                return hits
            assert len(page) == k
            cursor, count = page.cursor, count + 1
            between(count)

    @pytest.mark.parametrize('query', QUERIES.values(), ids=QUERIES)
    @pytest.mark.parametrize('k', [1, 7])
    def test_pages_equal_one_big_answer(self, shelf: MemoryService, query: MemoryQuery, k: int) -> None:
        whole = shelf.query(query.model_copy(update={'k': 1000}))
        assert whole.total == len(whole) >= 40
        assert not whole.truncated
        assert self.pages(shelf, query, k, lambda n: None) == list(whole)

    @pytest.mark.parametrize('query', QUERIES.values(), ids=QUERIES)
    def test_pages_equal_one_big_answer_while_writes_happen(
        self, shelf: MemoryService, clock: ManualClock, query: MemoryQuery
    ) -> None:
        def meanwhile(count: int) -> None:
            clock.now_ns += 1_000_000_000
            shelf.write([
                thing(0.1, 3 + count, key=f'new{count}', label='cup', content='red red ' + 'blue ' * count),
                thing(0.2, 3 + count, key=f'k{count}', label='cup', content='a red word moved'),
            ])  # fmt: skip
            shelf.forget(MemoryQuery(key=f'k{20 + count}'))
            shelf.retract(MemoryQuery(key=f'k{30 + count}'))

        whole = [(hit.item, hit.distance_m) for hit in shelf.query(query.model_copy(update={'k': 1000}))]
        paged = [(hit.item, hit.distance_m) for hit in self.pages(shelf, query, 7, meanwhile)]
        assert paged == whole

    @pytest.mark.parametrize('query', [MemoryQuery(text='ann bob'), near(0.0, 50.0, text='ann bob')])
    def test_pages_stay_when_words_become_commoner(self, memory: MemoryService, query: MemoryQuery) -> None:
        for n in range(10):
            memory.write([
                thing(1.0, key=f'a{n}', content='ann ann ann bob'),
                thing(1.0, key=f'b{n}', content='ann bob bob bob'),
                thing(1.0, key=f'c{n}', content='ann'), fact('filler', 1, key=f'd{n}'),
            ])  # fmt: skip
        whole = list(memory.query(query.model_copy(update={'k': 1000})))
        assert len(whole) == 20
        crowd = [fact('bob', 1, key=f'crowd{n}') for n in range(50)]
        paged = self.pages(memory, query, 6, lambda n: memory.write(crowd))
        assert paged == whole

    @pytest.mark.parametrize('other', [{'labels': ['mug']}, {'labels': ['cup'], 'as_of': 1}, {'text': 'red'}])
    def test_a_cursor_belongs_to_its_question(self, shelf: MemoryService, other: dict[str, Any]) -> None:
        cursor = shelf.query(MemoryQuery(labels=['cup'], k=5)).cursor
        assert shelf.query(MemoryQuery(labels=['cup'], k=7, cursor=cursor)).hits
        with pytest.raises(InvalidRequestError, match='cursor'):
            shelf.query(MemoryQuery(**other, cursor=cursor))

    @pytest.mark.parametrize(
        'text', ['', 'x', '\u2615', 'e30=', 'W10=', base64.b64encode(b'[1,2,3,4,5]').decode(), 'A' * 10_000]
    )
    def test_what_is_no_cursor_is_refused(self, shelf: MemoryService, text: str) -> None:
        with pytest.raises(InvalidRequestError, match='cursor'):
            shelf.query(MemoryQuery(key='k1', cursor=text or ' '))
        with pytest.raises(InvalidRequestError, match='cursor'):
            shelf.history(key='k1', cursor=text or ' ')

    @pytest.mark.parametrize('value', [10**30, -1, 1.5, '1', None, True, [1]])
    @pytest.mark.parametrize('part', [2, 3, 4])
    def test_a_forged_cursor_is_refused(self, shelf: MemoryService, part: int, value: object) -> None:
        cursor = shelf.query(MemoryQuery(labels=['cup'], k=5)).cursor
        assert cursor is not None
        parts = json.loads(base64.urlsafe_b64decode(cursor))
        parts[part] = value
        forged = base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()
        with pytest.raises(HyloMemoryError):
            shelf.query(MemoryQuery(labels=['cup'], k=5, cursor=forged))

    def test_k_may_be_zero(self, shelf: MemoryService) -> None:
        for query, total in ((MemoryQuery(labels=['cup'], k=0), 40), (near(0.0, 50.0, k=0), 40)):
            result = shelf.query(query)
            assert (len(result), result.total, result.excluded) == (0, total, {})

    def test_totals_are_exact_up_to_a_limit(self, memory: MemoryService) -> None:
        memory.write([thing(n / 1e4, key=f'k{n}') for n in range(10_000)])
        for query in (MemoryQuery(kinds=['spatial']), near(0.0, 5.0, k=1)):
            result = memory.query(query)
            assert (result.total, result.total_is_lower_bound) == (10_000, False)
        memory.write([thing(0.0, key='one more')])
        for query in (MemoryQuery(kinds=['spatial']), near(0.0, 5.0, k=1)):
            result = memory.query(query)
            assert (result.total, result.total_is_lower_bound, result.truncated) == (10_000, True, True)

    def test_history_goes_on_where_it_ended(self, shelf: MemoryService) -> None:
        shelf.write([fact(f'v{n}', n, key='busy') for n in range(20)])
        whole = shelf.history(key='busy').versions
        versions, cursor = [], None
        while True:
            page = shelf.history(key='busy', limit=3, cursor=cursor)
            versions += page.versions
            cursor = page.cursor
            if cursor is None:
                break
        assert tuple(versions) == whole
        with pytest.raises(InvalidRequestError, match='cursor'):
            shelf.history(key='other', cursor=shelf.history(key='busy', limit=3).cursor)

    def test_a_cursor_of_another_history_is_refused(self, shelf: MemoryService, tmp_path: Any) -> None:
        cursor = shelf.query(MemoryQuery(labels=['cup'], k=5)).cursor
        past = shelf.history(key='k0', limit=1).cursor
        shelf.snapshot(str(tmp_path / 'copy.db'))
        shelf.restore(str(tmp_path / 'copy.db'))
        with pytest.raises(EpochChangedError):
            shelf.query(MemoryQuery(labels=['cup'], k=5, cursor=cursor))
        with pytest.raises(EpochChangedError):
            shelf.history(key='k0', limit=1, cursor=past)
