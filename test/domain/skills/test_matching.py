"""Skills answer when they are verified and fit the caller's state, at any time and on every way of asking."""

from __future__ import annotations

from typing import Any

import pytest
from domain.skills.examples import skill
from pydantic import ValidationError
from support.clock import NS, ManualClock

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose, SkillStatus
from hylo_memory_ros.service import MemoryService

ALL: tuple[SkillStatus, ...] = ('proposed', 'verified', 'refuted', 'deprecated')


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def memory(clock: ManualClock) -> Any:
    with MemoryService.open(clock=clock) as memory:
        yield memory


def keys(memory: MemoryService, **fields: Any) -> list[str | None]:
    return sorted(hit.item.key or '' for hit in memory.query(MemoryQuery(**{'kinds': ['skill'], **fields})))


def taught(memory: MemoryService, key: str, **fields: Any) -> None:
    memory.write([skill('proposed', key, **fields), skill('verified', key, **fields)])


def test_without_more_only_verified_skills_answer(memory: MemoryService) -> None:
    memory.write([skill(key=key) for key in 'abcd'])
    memory.write([skill('verified', key) for key in 'bc'])
    memory.write([skill('deprecated', 'c'), skill('refuted', 'd')])
    memory.write([MemoryItem(kind='semantic', key='fact', content='how to x')])

    assert keys(memory) == ['b']
    assert keys(memory, kinds=None) == ['b', 'fact']
    assert memory.query(MemoryQuery()).excluded == {'not_verified': 3}
    assert keys(memory, skill_status=('proposed',)) == ['a']
    assert keys(memory, skill_status=('refuted', 'deprecated')) == ['c', 'd']
    assert keys(memory, skill_status=ALL) == ['a', 'b', 'c', 'd']
    asked = MemoryQuery(kinds=['skill'], skill_status=('refuted',))
    assert memory.query(asked).excluded == {'other_skill_status': 3}
    assert memory.query(MemoryQuery(ids=[memory.query(asked)[0].item.id])).excluded == {'not_verified': 1}
    assert [version.item.payload['status'] for version in memory.history(key='c').versions][
        -1
    ] == 'deprecated'


def test_it_answers_when_its_trigger_and_all_its_preconditions_hold(memory: MemoryService) -> None:
    taught(memory, 'dock', trigger='task == "dock"', preconditions=['battery < 0.3', 'robot.speed <= 0.5'])
    fits = {'task': 'dock', 'battery': 0.2, 'robot': {'speed': 0}}

    assert keys(memory, state=fits) == ['dock']
    assert keys(memory, state=fits, k=0) == []
    for state, reason in (
        ({**fits, 'task': 'rest'}, 'trigger_failed'),
        ({**fits, 'task': 'rest', 'battery': 0.9}, 'trigger_failed'),
        ({**fits, 'battery': 0.9}, 'precondition_failed'),
        ({'task': 'dock', 'battery': 0.9}, 'precondition_failed'),
        ({'task': 'dock', 'battery': 0.2}, 'precondition_unknown'),
        ({'battery': 0.2, 'robot': {'speed': 0}}, 'precondition_unknown'),
        ({**fits, 'battery': 'low'}, 'precondition_unfit'),
        ({**fits, 'robot': 7}, 'precondition_unfit'),
        ({**fits, 'task': 7}, 'trigger_failed'),
        ({}, 'precondition_unknown'),
    ):
        result = memory.query(MemoryQuery(kinds=['skill'], state=state))
        assert (len(result), dict(result.excluded)) == (0, {reason: 1}), state


def test_without_a_state_predicates_say_nothing(memory: MemoryService) -> None:
    taught(memory, 'dock', trigger='false')
    assert keys(memory) == ['dock']
    assert keys(memory, state={}) == []


def test_postconditions_do_not_filter(memory: MemoryService) -> None:
    taught(memory, 'dock', postconditions=['false', 'docked'])
    assert keys(memory, state={}) == ['dock']


def test_what_is_no_skill_answers_in_any_state(memory: MemoryService) -> None:
    taught(memory, 'dock', preconditions=['battery < 0.3'])
    memory.write([MemoryItem(kind='semantic', key='fact', content='how to x')])
    assert keys(memory, kinds=None, state={'battery': 1}) == ['fact']
    result = memory.query(MemoryQuery(kinds=['semantic'], state={}))
    assert (len(result), dict(result.excluded)) == (1, {})


def test_words_and_vectors_never_admit_what_predicates_exclude(memory: MemoryService) -> None:
    for key, vector, condition in (
        ('near', (1.0, 0.0), 'battery > 0.5'),
        ('far', (0.0, 1.0), 'battery < 0.5'),
    ):
        steps = [skill(status, key, preconditions=[condition]) for status in ('proposed', 'verified')]
        memory.write([step.model_copy(update={'embeddings': {'e@1': vector}}) for step in steps])
    memory.write([skill(key='idea').model_copy(update={'embeddings': {'e@1': (1.0, 0.0)}})])
    memory.write([MemoryItem(kind='semantic', key='fact', content='how to', embeddings={'e@1': (0.6, 0.8)})])
    vector = ('e@1', (1.0, 0.0))

    for kinds in (None, ['skill']):
        others = [] if kinds else ['fact']
        assert keys(memory, kinds=kinds, embedding=vector) == sorted([*others, 'far', 'near'])
        assert keys(memory, kinds=kinds, embedding=vector, state={'battery': 0.1}) == sorted([*others, 'far'])
        assert keys(memory, kinds=kinds, text='how', state={'battery': 0.9}) == sorted([*others, 'near'])
        both = keys(memory, kinds=kinds, text='how', embedding=vector, state={'battery': 0.9})
        assert both == sorted([*others, 'near'])
    result = memory.query(MemoryQuery(embedding=vector, state={'battery': 0.1}, k=1))
    assert (result[0].item.key, result.total) == ('fact', 2)
    explained = memory.query(MemoryQuery(embedding=vector, state={'battery': 0.1}, explain=True)).excluded
    assert (explained['not_verified'], explained['precondition_failed']) == (1, 1)


def test_the_past_is_asked_with_the_status_and_the_predicates_believed_then(
    memory: MemoryService, clock: ManualClock
) -> None:
    state = {'a': True}
    memory.write([skill(at=10, preconditions=['b'])])
    memory.write([skill(at=20, preconditions=['a'])])
    proposed = memory.sequence
    memory.write([skill('verified', at=30, preconditions=['a'])])
    verified = memory.sequence
    clock.now_ns += 10 * NS
    memory.write([skill('deprecated', at=40, preconditions=['a'])])

    def found(**fields: Any) -> list[str]:
        result = memory.query(MemoryQuery(kinds=['skill'], state=state, **fields))
        return [hit.item.payload['status'] for hit in result]

    assert found() == []
    assert found(as_of=35) == ['verified']
    assert found(as_of=25) == []
    assert found(as_of=25, skill_status=ALL) == ['proposed']
    assert found(as_of=15, skill_status=ALL) == []
    assert found(known_seq=verified) == ['verified']
    assert found(known_seq=proposed) == []
    assert found(known_seq=proposed, skill_status=ALL) == ['proposed']
    assert found(known_at=1000) == ['verified']
    assert found(as_of=35, known_seq=proposed, skill_status=ALL) == ['proposed']
    assert found(include_invalidated=True, skill_status=ALL) == ['deprecated', 'verified', 'proposed']
    assert memory.query(MemoryQuery(key='dock', as_of=25)).excluded['not_verified'] == 1


def test_a_retraction_brings_back_the_status_before(memory: MemoryService) -> None:
    memory.write([skill(at=10)])
    memory.write([skill('verified', at=20)])
    memory.write([skill('deprecated', at=30)])
    assert keys(memory, state={}) == []
    assert memory.retract(MemoryQuery(key='dock')) == 1
    assert keys(memory, state={}) == ['dock']


def test_pages_of_an_answer_hold_together(memory: MemoryService) -> None:
    for number in range(7):
        taught(memory, f'k{number}', preconditions=[f'{number} != n'])
    query = MemoryQuery(kinds=['skill'], state={'n': 3}, k=2)
    first = memory.query(query)
    taught(memory, 'later')
    seen = [hit.item.key for hit in first]
    cursor = first.cursor
    while cursor:
        page = memory.query(query.model_copy(update={'cursor': cursor}))
        seen, cursor = [*seen, *(hit.item.key for hit in page)], page.cursor
    assert sorted(seen) == ['k0', 'k1', 'k2', 'k4', 'k5', 'k6']
    assert first.total == 6
    with pytest.raises(InvalidRequestError, match='cursor'):
        memory.query(query.model_copy(update={'cursor': first.cursor, 'state': {'n': 4}}))


def test_a_receipt_replays_with_the_state_it_was_asked_in(memory: MemoryService) -> None:
    taught(memory, 'dock', preconditions=['battery < 0.3'])
    result = memory.query(MemoryQuery(kinds=['skill'], state={'battery': 0.2}), receipt=True)
    memory.write([skill('deprecated', preconditions=['battery < 0.3'])])
    assert memory.replay_receipt(result.receipt_id).same


def test_removals_mean_skills_of_every_status_and_no_state(memory: MemoryService, clock: ManualClock) -> None:
    memory.write([skill(key=key) for key in 'ab'])
    clock.now_ns += NS
    for removal in (memory.forget, memory.retract, memory.purge):
        with pytest.raises(InvalidRequestError, match='state'):
            removal(MemoryQuery(key='a', state={}))
    assert memory.forget(MemoryQuery(key='a')) == 1
    assert memory.purge(MemoryQuery(key='b')) == 1
    assert keys(memory, skill_status=ALL, state={}) == []
    assert keys(memory, skill_status=ALL, include_invalidated=True) == ['a']


def test_what_was_purged_is_out_of_the_index(memory: MemoryService) -> None:
    taught(memory, 'a', preconditions=['x == "secret"'])
    taught(memory, 'b')
    memory.purge(MemoryQuery(key='a'))
    assert keys(memory, state={'x': 'secret'}) == ['b']
    taught(memory, 'a', preconditions=['x == "new"'])
    assert keys(memory, state={'x': 'new'}) == ['a', 'b']


def test_a_place_never_finds_a_skill(memory: MemoryService) -> None:
    taught(memory, 'dock')
    near = (Pose(frame_id='map', position=(0.0, 0.0, 0.0)), 5.0)
    assert keys(memory, kinds=None, near=near) == []
    assert keys(memory, near=near, state={}) == []


@pytest.mark.parametrize(
    ('state', 'told'),
    [
        (7, 'expected a JSON object, got int'),
        ([1], 'expected a JSON object, got list'),
        ('{}', 'expected a JSON object, got str'),
        ({1: 2}, 'expected a text as key, got 1'),
        ({'a': float('nan')}, r'\$\.a: expected a finite number, got nan'),
        ({'a': [float('inf')]}, r'\$\.a\[0\]: expected a finite number, got inf'),
        ({'a': object()}, r'\$\.a: expected a JSON value, got object'),
        ({'a': b''}, r'\$\.a: expected a JSON value, got bytes'),
        ({'a': '\ud800'}, r'\$\.a: a lone surrogate'),
        ({'caf\u00e9': 1, 'cafe\u0301': 2}, 'the key appears twice'),
        ({'a': 2**63}, r'\$\.a: an integer of more than 64 bits'),
        ({'a': 'x' * 70_000}, 'bytes, at most 65536'),
        ({'a': [0] * 9_000}, 'bytes, at most 65536'),
    ],
)
def test_a_state_that_is_none_is_refused(state: Any, told: str) -> None:
    with pytest.raises(ValidationError, match=told) as refusal:
        MemoryQuery(state=state)
    assert refusal.value.errors()[0]['loc'] == ('state',)


def test_too_deep_a_state_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(16):
        deep = {'a': deep}
    with pytest.raises(ValidationError, match='nested 17 deep, at most 16'):
        MemoryQuery(state=deep)
    round_and_round: dict[str, Any] = {}
    round_and_round['a'] = round_and_round
    with pytest.raises(ValidationError, match='nested deeper'):
        MemoryQuery(state=round_and_round)


@pytest.mark.parametrize('statuses', [('done',), (), ('verified', 'VERIFIED')])
def test_statuses_that_do_not_exist_are_refused(statuses: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match='skill_status'):
        MemoryQuery(skill_status=statuses)


def test_the_index_is_that_of_the_file_after_a_restart(tmp_path: Any, clock: ManualClock) -> None:
    url = f'sqlite:///{tmp_path}/memory.db'
    with MemoryService.open(url, clock=clock) as memory:
        taught(memory, 'dock', preconditions=['battery < 0.3'])
        memory.write([skill(key='idea')])
        now = [keys(memory, state={'battery': level}, skill_status=ALL) for level in (0.1, 0.9)]
    for read_only in (False, True):
        with MemoryService.open(url, clock=clock, read_only=read_only) as memory:
            asked = [keys(memory, state={'battery': level}, skill_status=ALL) for level in (0.1, 0.9)]
            assert asked == now == [['dock', 'idea'], ['idea']]


def test_payloads_with_limits_of_their_own_are_held_to_them(clock: ManualClock) -> None:
    with MemoryService.open(clock=clock, config=MemoryConfig(max_payload_bytes=300)) as memory:
        with pytest.raises(InvalidRequestError, match='payload'):
            memory.write([skill(code='x' * 400)])
        assert memory.sequence == 0
