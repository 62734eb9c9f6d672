"""Filters, places and maps: what matches."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from storage.clauses.base import Clauses, contents, fact, near, only, place, thing

from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService


def keys(hits: Any) -> set[str | None]:
    return {hit.item.key for hit in hits}


class PlaceClauses(Clauses):
    """What is within r metres."""

    def test_the_boundary_belongs_to_it(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, key='p', pose=place(0.3, 0.1, 0.2))])
        assert only(memory.query(near(0.0, 0.3741657386773941))).distance_m == 0.3741657386773941
        assert not memory.query(near(0.0, math.nextafter(0.3741657386773941, 0.0)))

    def test_no_boundary_point_is_lost_of_2000(self, memory: MemoryService) -> None:
        draw = random.Random(7)
        points = [tuple(draw.uniform(-20, 20) for _ in range(3)) for _ in range(2000)]
        memory.write([thing(0.0, key=f'p{n}', pose=place(*point)) for n, point in enumerate(points)])
        center = tuple(draw.uniform(-1, 1) for _ in range(3))
        for horizontal, axes in ((False, 3), (True, 2)):
            distances = sorted(math.dist(point[:axes], center[:axes]) for point in points)
            for rank, radius in enumerate(distances, start=1):
                query = MemoryQuery(near=(place(*center), radius), horizontal=horizontal, k=0)
                assert memory.query(query).total == rank

    def test_it_equals_brute_force(self, memory: MemoryService) -> None:
        draw = random.Random(8)
        points = {f'p{n}': [draw.gauss(0, 5) for _ in range(3)] for n in range(2000)}
        memory.write([thing(0.0, key=key, pose=place(*point)) for key, point in points.items()])
        for _ in range(40):
            center, radius = [draw.gauss(0, 5) for _ in range(3)], draw.uniform(0, 8)
            expected = {key: math.dist(point, center) for key, point in points.items()}
            expected = {key: d for key, d in expected.items() if d <= radius}
            hits = memory.query(MemoryQuery(near=(place(*center), radius), k=2000))
            assert {hit.item.key: hit.distance_m for hit in hits} == expected
            assert [hit.distance_m for hit in hits] == sorted(expected.values())

    def test_a_radius_of_zero_finds_what_is_exactly_there(self, memory: MemoryService) -> None:
        memory.write([thing(1.0, key='there'), thing(math.nextafter(1.0, 2.0), key='beside')])
        assert keys(memory.query(near(1.0, 0.0))) == {'there'}

    def test_far_coordinates_keep_their_precision(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, key='far', pose=place(3948996.1, -1e9, 1e9))])
        query = MemoryQuery(near=(place(3948996.1, -1e9, 1e9), 0.0))
        assert only(memory.query(query)).item.pose == place(3948996.1, -1e9, 1e9)
        assert not memory.query(MemoryQuery(near=(place(3948996.2, -1e9, 1e9), 0.05)))

    def test_the_distance_may_be_horizontal(self, memory: MemoryService) -> None:
        memory.write(
            [thing(0.0, key='high', pose=place(3, 4, 100)), thing(0.0, key='wide', pose=place(3, 4.01, 0))]
        )
        hit = only(memory.query(near(0.0, 5.0, horizontal=True)))
        assert (hit.item.key, hit.distance_m) == ('high', 5.0)
        assert not memory.query(near(0.0, 5.0))

    def test_other_frames_never_match(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, key='a'), thing(0.0, key='b', pose=place(0.0, frame='odom'))])
        assert keys(memory.query(near(0.0, 1e9))) == {'a'}
        assert keys(memory.query(MemoryQuery(near=(place(0.0, frame='odom'), 1e9)))) == {'b'}

    def test_one_leading_slash_means_the_same_frame_on_both_doors(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, key='a', pose=place(0.0, frame='/map')), thing(0.0, key='b')])
        for frame in ('map', '/map'):
            hits = memory.query(MemoryQuery(near=(place(0.0, frame=frame), 0.5)))
            assert keys(hits) == {'a', 'b'}
            assert {hit.item.pose.frame_id for hit in hits if hit.item.pose} == {'map'}

    def test_the_centre_used_is_returned(self, memory: MemoryService) -> None:
        assert memory.query(near(1.5, 0.5)).center_used == place(1.5)
        assert memory.query(MemoryQuery(key='mug')).center_used is None

    def test_what_has_no_place_is_nowhere(self, memory: MemoryService) -> None:
        memory.write([fact('idea', 1)])
        assert memory.query(near(0.0, 1e9)).total == 0

    def test_a_thing_that_moved_is_where_it_is(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, 1, key='mug'), thing(5.0, 2, key='mug')])
        assert not memory.query(near(0.0, 1.0))
        assert keys(memory.query(near(5.0, 1.0))) == {'mug'}
        assert keys(memory.query(near(0.0, 1.0, as_of=1.5))) == {'mug'}


class MapClauses(Clauses):
    """Which map is meant."""

    def test_the_current_map_is_filled_into_spatial_items_only(self, memory: MemoryService) -> None:
        memory.set_map('hall')
        memory.write([
            thing(0.0, key='a'), fact('b', 1, key='b'), thing(0.0, key='c', scope={'map_id': 'lab'}),
            thing(0.0, key='d', scope={'task_id': 't'}), thing(0.0, key='e', pose=None),
            fact('f', 1, key='f', pose=place(0.0)), fact('g', 1, key='g', scope={'map_id': 'hall'}),
        ])  # fmt: skip
        scopes = {key: only(memory.query(MemoryQuery(key=key))).item.scope for key in 'abcdefg'}
        hall = {'map_id': 'hall'}
        expected = [hall, {}, {'map_id': 'lab'}, {'task_id': 't', **hall}, hall, {}, hall]
        assert scopes == dict(zip('abcdefg', expected, strict=True))

    @pytest.mark.parametrize('map_id', ['', 'hall'])
    @pytest.mark.parametrize('placed_first', [True, False])
    @pytest.mark.parametrize('kind', ['spatial', 'semantic', 'episodic'])
    def test_a_key_names_one_thing_with_or_without_a_pose(
        self, memory: MemoryService, map_id: str, placed_first: bool, kind: str
    ) -> None:
        memory.set_map(map_id)
        poses = [place(1.0), None] if placed_first else [None, place(1.0)]
        written = [fact('mug', at, kind=kind, pose=pose) for at, pose in zip((1, 2), poses, strict=True)]
        events = [memory.write([item]).events[0].event for item in written]
        assert events == ['ADD', 'INVALIDATE']
        assert only(memory.query(MemoryQuery(key='mug'))).item.pose == poses[1]
        if map_id:
            memory.set_map('lab')
            other = 'ADD' if kind == 'spatial' else 'INVALIDATE'
            assert memory.write([fact('mug', 3, kind=kind, pose=poses[0])]).events[0].event == other

    def test_the_current_map_is_searched_unless_another_is_named(self, memory: MemoryService) -> None:
        memory.write([thing(0.0, key='none')])
        for map_id in ('hall', 'lab'):
            memory.set_map(map_id)
            memory.write([thing(0.0, key=map_id)])
        assert keys(memory.query(near(0.0, 1.0))) == {'lab'}
        assert keys(memory.query(near(0.0, 1.0, scope={'map_id': 'hall'}))) == {'hall'}
        assert keys(memory.query(near(0.0, 1.0, any_map=True))) == {'none', 'hall', 'lab'}
        assert memory.query(near(0.0, 1.0, scope={'map_id': 'attic'})).total == 0
        memory.set_map('')
        assert keys(memory.query(near(0.0, 1.0))) == {'none'}

    def test_keys_span_maps_unless_one_is_named(self, memory: MemoryService) -> None:
        for map_id in ('hall', 'lab'):
            memory.set_map(map_id)
            memory.write([thing(0.0, key='mug', content=map_id)])
        assert sorted(contents(memory.query(MemoryQuery(key='mug')))) == ['hall', 'lab']
        assert contents(memory.query(MemoryQuery(key='mug', scope={'map_id': 'hall'}))) == ['hall']
        assert memory.forget(MemoryQuery(key='mug', scope={'map_id': 'hall'})) == 1
        assert contents(memory.query(MemoryQuery(key='mug'))) == ['lab']

    def test_forgetting_a_place_forgets_it_in_this_map(self, memory: MemoryService) -> None:
        for map_id in ('hall', 'lab'):
            memory.set_map(map_id)
            memory.write([thing(0.0, key=map_id)])
        assert memory.forget(near(0.0, 1.0)) == 1
        assert keys(memory.query(near(0.0, 1.0, any_map=True))) == {'hall'}

    def test_switching_returns_the_map_before(self, memory: MemoryService) -> None:
        assert (memory.set_map('hall'), memory.set_map('lab'), memory.map_id) == ('', 'hall', 'lab')

    def test_an_unknown_map_is_made_only_when_allowed(self, memory: MemoryService) -> None:
        with pytest.raises(NotFoundError, match='attic'):
            memory.set_map('attic', create=False)
        assert memory.map_id == ''
        memory.set_map('attic')
        memory.write([thing(0.0, scope={'map_id': 'cellar'})])
        for known in ('cellar', 'attic'):
            memory.set_map(known, create=False)

    def test_the_first_map_is_known(self, clock: Any) -> None:
        with self.open_memory(clock, map_id='home') as memory:
            memory.set_map('lab')
            assert memory.set_map('home', create=False) == 'lab'

    @pytest.mark.parametrize('name', [' ', '\t', 'a\nb', '\ud800', 'x' * 513])
    def test_a_map_has_a_sound_name(self, memory: MemoryService, clock: Any, name: str) -> None:
        with pytest.raises(InvalidRequestError, match='map_id'):
            memory.set_map(name)
        with pytest.raises(InvalidRequestError, match='map_id'):
            self.open_memory(clock, map_id=name)
        assert memory.map_id == ''


class FilterClauses(Clauses):
    """Everything else that narrows a question down."""

    def test_keys_are_taken_literally(self, memory: MemoryService) -> None:
        names = ['cup_1', 'cupX1', '%', '_', '*', 'all', 'a', 'a ', 'A', 'a%', "o'neil", '"', 'x' * 512]
        memory.write([fact(name, 1, key=name) for name in names])
        for name in names:
            assert contents(memory.query(MemoryQuery(key=name))) == [name]
        assert memory.query(MemoryQuery(keys=['%', '*', 'nothing'])).total == 2
        assert memory.forget(MemoryQuery(key='%')) == 1
        assert memory.query(MemoryQuery(kinds=['semantic'], k=0)).total == len(names) - 1

    def test_filters_combine(self, memory: MemoryService) -> None:
        memory.write([
            fact('1', 1, key='1', label='cup', entities=['ann', 'bob'], object_ids=['7', '8'],
                 confidence=0.5),
            fact('2', 1, key='2', label='mug', entities=['bob'], object_ids=['7'], links=[('on', 'O12')]),
            fact('3', 1, key='3', kind='episodic', label='mug', links=[('on', 'O12'), ('by', 'O13')]),
        ])  # fmt: skip
        cases: list[tuple[dict[str, Any], str]] = [
            ({'kinds': ['semantic']}, '12'), ({'kinds': ['semantic', 'episodic']}, '123'),
            ({'kinds': []}, ''),
            ({'keys': ['1', '3', '9']}, '13'), ({'labels': ['cup', 'mug']}, '123'), ({'labels': ['cu']}, ''),
            ({'entities': ['bob']}, '12'), ({'entities': ['ann', 'bob']}, '1'),
            ({'entities': ['ann', 'eve']}, ''),
            ({'object_ids': ['7']}, '12'), ({'object_ids': ['7', '8']}, '1'),
            ({'relation': ('on', 'O12')}, '23'),
            ({'relation': ('by', 'O12')}, ''), ({'min_confidence': 0.6}, '23'),
            ({'min_confidence': 0.5}, '123'),
            ({'labels': ['mug'], 'entities': ['bob']}, '2'),
            ({'kinds': ['episodic'], 'relation': ('by', 'O13')}, '3'),
        ]  # fmt: skip
        for filters, expected in cases:
            result = memory.query(MemoryQuery(**filters))
            assert (''.join(sorted(contents(result))), result.total) == (expected, len(expected)), filters
        ids = [only(memory.query(MemoryQuery(key=key))).item.id for key in '13']
        assert sorted(contents(memory.query(MemoryQuery(ids=ids)))) == ['1', '3']

    def test_scope_is_a_subset(self, memory: MemoryService) -> None:
        memory.write([
            fact('1', 1, key='1', scope={'task_id': 't', 'robot_id': 'r', 'map_id': 'm'}),
            fact('2', 1, key='2', scope={'task_id': 't'}),
            fact('3', 1, key='3'),
        ])  # fmt: skip
        cases = [
            ({}, '123'), ({'task_id': 't'}, '12'), ({'task_id': 't', 'robot_id': 'r'}, '1'),
            ({'task_id': 'x'}, ''),
            ({'map_id': 'm'}, '1'), ({'map_id': 'm', 'task_id': 't'}, '1'), ({'other': 't'}, ''),
        ]  # fmt: skip
        for scope, expected in cases:
            assert ''.join(sorted(contents(memory.query(MemoryQuery(scope=scope))))) == expected, scope

    def test_pairs_are_compared_part_by_part(self, memory: MemoryService) -> None:
        memory.write([fact('1', 1, links=[('a:b', 'c')], scope={'a=b': 'c'})])
        assert memory.query(MemoryQuery(relation=('a:b', 'c'), scope={'a=b': 'c'})).total == 1
        assert memory.query(MemoryQuery(relation=('a', 'b:c'))).total == 0
        assert memory.query(MemoryQuery(scope={'a': 'b=c'})).total == 0

    def test_a_time_range_is_closed(self, memory: MemoryService) -> None:
        memory.write([
            fact('span', 1, key='span', event_time={'start': 10, 'end': 20}),
            fact('open', 1, key='open', event_time={'start': 15}),
            fact('never', 1, key='never'),
        ])  # fmt: skip
        cases: list[tuple[tuple[float | None, float | None], list[str]]] = [
            ((0, 10), ['span']), ((0, 9.5), []), ((20, 30), ['open', 'span']), ((20.5, 30), ['open']),
            ((12, 13), ['span']), ((15, 15), ['open', 'span']), ((None, 10), ['span']), ((None, 9), []),
            ((1e6, None), ['open']), ((None, None), ['open', 'span']), ((5, 50), ['open', 'span']),
        ]  # fmt: skip
        for span, expected in cases:
            assert sorted(contents(memory.query(MemoryQuery(time_range=span)))) == expected, span

    def test_events_of_another_clock_are_left_out_and_counted(self, memory: MemoryService) -> None:
        memory.write([
            fact('wall', 1, key='1', event_time={'start': 10, 'end': 20}),
            fact('sim', 1, key='2', event_time={'start': 10, 'end': 20, 'clock': 'sim'}),
        ])  # fmt: skip
        result = memory.query(MemoryQuery(time_range=(0, 30)))
        assert contents(result) == ['wall']
        assert result.excluded['other_clock'] == 1
        assert only(memory.query(MemoryQuery(key='2'))).item.event_time.clock == 'sim'

    def test_a_place_and_filters_combine(self, memory: MemoryService) -> None:
        memory.write([
            thing(0.0, key='a', label='cup', content='red', entities=['ann'],
                  event_time={'start': 5, 'end': 6}),
            thing(0.5, key='b', label='mug', content='red'),
            thing(9.0, key='c', label='cup', content='red'),
        ])  # fmt: skip
        cases: list[tuple[dict[str, Any], set[str]]] = [
            ({}, {'a', 'b'}), ({'labels': ['cup']}, {'a'}), ({'key': 'b'}, {'b'}), ({'key': 'c'}, set()),
            ({'text': 'red'}, {'a', 'b'}), ({'text': 'red', 'labels': ['mug']}, {'b'}),
            ({'entities': ['ann']}, {'a'}),
            ({'time_range': (5.5, 7)}, {'a'}), ({'kinds': ['semantic']}, set()),
            ({'min_confidence': 0.9}, {'a', 'b'}),
        ]  # fmt: skip
        for filters, expected in cases:
            result = memory.query(near(0.0, 1.0, **filters))
            assert (keys(result), result.total) == (expected, len(expected)), filters


class TextClauses(Clauses):
    """Words: all of them, and nothing but words."""

    @pytest.fixture
    def library(self, memory: MemoryService) -> MemoryService:
        memory.write([
            MemoryItem(kind='semantic', key='k1', content='the red mug or cup', valid_from=1),
            MemoryItem(kind='semantic', key='k2', content='red', label='mug', valid_from=1),
            MemoryItem(kind='semantic', key='k3', content='blue', entities=['Mug House'], valid_from=1),
            MemoryItem(kind='semantic', key='mug', content='nothing', valid_from=1),
            MemoryItem(kind='semantic', key='k5', content='Stra\u00dfe caf\u00e9 \u676f\u5b50', valid_from=1),
        ])  # fmt: skip
        return memory

    @pytest.mark.parametrize(
        ('text', 'expected'),
        [
            ('mug', {'k1', 'k2', 'k3', 'mug'}),
            ('MUG', {'k1', 'k2', 'k3', 'mug'}),
            ('mug red', {'k1', 'k2'}),
            ('mu', set()),
            ('mug OR blue', set()),
            ('mug OR cup', {'k1'}),
            ('mug NOT red', set()),
            ('mug*', {'k1', 'k2', 'k3', 'mug'}),
            ('-mug', {'k1', 'k2', 'k3', 'mug'}),
            ('^mug', {'k1', 'k2', 'k3', 'mug'}),
            ('content:mug', set()),
            ('label : mug', set()),
            ('{content key} : mug', set()),
            ('NEAR(red mug)', set()),
            ('"red mug"', {'k1', 'k2'}),
            ('mug"; DROP TABLE version; --', set()),
            ("mug' --", {'k1', 'k2', 'k3', 'mug'}),
            ('mug\0red', {'k1', 'k2'}),
            ('cafe\u0301', {'k5'}),
            ('\u676f\u5b50', {'k5'}),
            ('mug ' * 500, {'k1', 'k2', 'k3', 'mug'}),
        ],
    )
    def test_every_word_must_appear_and_operators_mean_nothing(
        self, library: MemoryService, text: str, expected: set[str]
    ) -> None:
        result = library.query(MemoryQuery(text=text, k=100))
        assert keys(result) == expected
        assert result.total == len(expected)

    @pytest.mark.parametrize('text', ['', ' ', '***', '"" -- ()', '\u2615', '\0'])
    def test_a_text_without_words_is_an_explained_empty_answer(
        self, library: MemoryService, text: str
    ) -> None:
        result = library.query(MemoryQuery(text=text))
        assert (len(result), result.total, result.truncated) == (0, 0, False)
        assert result.excluded == {'no_search_words': 1}
        assert library.forget(MemoryQuery(text=text)) == 0

    def test_text_goes_with_time(self, memory: MemoryService) -> None:
        memory.write([fact('red mug', 1), fact('blue mug', 2)])
        assert contents(memory.query(MemoryQuery(text='mug'))) == ['blue mug']
        assert contents(memory.query(MemoryQuery(text='mug', as_of=1))) == ['red mug']
        assert not memory.query(MemoryQuery(text='red'))
