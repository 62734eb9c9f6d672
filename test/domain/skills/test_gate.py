"""A skill is verified by evidence alone: what lacks it is refused by name, and nothing is stored."""

from __future__ import annotations

from typing import Any

import pytest
from domain.skills.examples import EVIDENCE, payload, skill
from support.clock import NS, ManualClock

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import InvalidRequestError, SkillGateError
from hylo_memory_ros.model import SKILL_STATUSES, MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService

PATHS = {
    None: [],
    'proposed': ['proposed'],
    'verified': ['proposed', 'verified'],
    'refuted': ['proposed', 'refuted'],
    'deprecated': ['proposed', 'verified', 'deprecated'],
}
ALLOWED = {('proposed', 'verified'), ('proposed', 'refuted'), ('verified', 'deprecated'), (None, 'proposed')}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def memory(clock: ManualClock) -> Any:
    with MemoryService.open(clock=clock) as memory:
        yield memory


@pytest.fixture(scope='module')
def shared() -> Any:
    """Return a memory for what is refused, and so leaves nothing."""
    with MemoryService.open(clock=ManualClock(1000.0)) as memory:
        yield memory


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """Return a key of the test's own."""
    return f'key of {request.node.name}'[:500]


def state_of(memory: MemoryService) -> tuple[Any, ...]:
    return memory.snapshot(), memory.sequence, memory.skill_transitions()


@pytest.mark.parametrize('before', PATHS, ids=str)
@pytest.mark.parametrize('explicit', [False, True], ids=['now', 'at a time'])
def test_no_other_transition_than_those_of_the_gate(
    memory: MemoryService, clock: ManualClock, before: str | None, explicit: bool
) -> None:
    keys = [status for status in SKILL_STATUSES if status != before]
    for status in PATHS[before]:
        memory.write([skill(status, key) for key in keys])
    clock.now_ns += NS
    for after in keys:
        known, asked = state_of(memory), skill(after, after, at=1000.5 if explicit else None)
        if (before, after) in ALLOWED:
            assert memory.write([asked]).events[0].event in {'ADD', 'INVALIDATE'}
            assert [step.to_status for step in memory.skill_transitions(after)] == [*PATHS[before], after]
            continue
        with pytest.raises(SkillGateError, match=r'items\[0\]\.payload: \$\.status') as refusal:
            memory.write([asked])
        assert f"'{after}'" in refusal.value.message
        assert state_of(memory) == known


@pytest.mark.parametrize(
    ('fields', 'told'),
    [
        ({'evidence': ['a', 'b']}, r'\$\.evidence: expected at least 3 traces \(skill_min_traces\), got 2'),
        ({'evidence': ['a', 'b', 'a', 'a']}, r'\$\.evidence: .* got 2'),
        ({'evidence': []}, r'\$\.evidence: .* got 0'),
        ({'verdicts': {'useful': 2}}, r'\$\.verdicts\.useful: .* least 3 \(skill_min_useful\), got 2'),
        ({'verdicts': {}}, r'\$\.verdicts\.useful: .* got 0'),
        ({'verdicts': {'useful': 7, 'misleading': 1, 'wrong': 1}}, r'got 0\.22 \(2 of 9\)'),
        ({'verdicts': {'useful': 3, 'wrong': 1}}, r'share of 0\.2 .*_misleading_share\), got 0\.25'),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(shared: MemoryService, key: str, fields: dict[str, Any], told: str) -> None:
    shared.write([skill(key=key)])
    known = state_of(shared)
    with pytest.raises(SkillGateError, match=told):
        shared.write([skill('verified', key, **fields)])
    assert state_of(shared) == known


def test_everything_that_is_missing_is_named_at_once(memory: MemoryService) -> None:
    memory.write([skill()])
    with pytest.raises(SkillGateError) as refusal:
        memory.write([skill('verified', evidence=[], verdicts={'wrong': 1}, trigger='other')])
    assert len(refusal.value.details['problems']) == 4
    assert refusal.value.details['key'] == 'dock'


def test_the_thresholds_are_parameters(clock: ManualClock) -> None:
    config = MemoryConfig(skill_min_traces=0, skill_min_useful=1, skill_max_misleading_share=1.0)
    with MemoryService.open(clock=clock, config=config) as memory:
        memory.write([skill()])
        with pytest.raises(SkillGateError, match='at least 1'):
            memory.write([skill('verified', evidence=[], verdicts={})])
        memory.write([skill('verified', evidence=[], verdicts={'useful': 1, 'wrong': 9})])
        assert len(memory.query(MemoryQuery(key='dock'))) == 1


def test_not_applicable_counts_neither_way(memory: MemoryService) -> None:
    memory.write([skill()])
    memory.write([skill('verified', verdicts={'useful': 3, 'not_applicable': 50})])
    assert memory.query(MemoryQuery(key='dock')).total == 1


@pytest.mark.parametrize(
    'fields',
    [
        {'params': {'speed': 0.3}},
        {'code': 'dock()'},
        {'api_surface': 'hylo.tools@v2'},
        {'trigger': 'task == "dock"'},
        {'preconditions': ['battery > 0.1']},
        {'postconditions': ['docked']},
    ],
)
def test_evidence_is_of_what_was_proposed(shared: MemoryService, key: str, fields: dict[str, Any]) -> None:
    shared.write([skill(key=key)])
    with pytest.raises(SkillGateError, match=rf'\$\.{next(iter(fields))}'):
        shared.write([skill('verified', key, **fields)])
    shared.write([skill('verified', key)])
    with pytest.raises(SkillGateError, match='differs from the verified skill'):
        shared.write([skill('deprecated', key, **fields)])


def test_a_proposal_may_be_revised_until_it_is_judged(memory: MemoryService) -> None:
    memory.write([skill(trigger='a')])
    memory.write([skill(trigger='b')])
    memory.write([skill('verified', trigger='b')])
    with pytest.raises(SkillGateError):
        memory.write([skill('verified', trigger='c')])
    assert [(step.from_status, step.to_status) for step in memory.skill_transitions()] == [
        (None, 'proposed'), ('proposed', 'proposed'), ('proposed', 'verified'),
    ]  # fmt: skip


def test_a_verified_skill_gains_verdicts_as_long_as_it_would_still_pass(memory: MemoryService) -> None:
    memory.write([skill()])
    memory.write([skill('verified')])
    memory.write([skill('verified', verdicts={'useful': 20, 'wrong': 1})])
    with pytest.raises(SkillGateError, match='skill_max_misleading_share'):
        memory.write([skill('verified', verdicts={'useful': 20, 'wrong': 9})])
    hit = memory.query(MemoryQuery(key='dock'))[0]
    assert hit.item.payload['verdicts'] == {'useful': 20, 'wrong': 1}


def test_a_promotion_that_tells_no_verdicts_has_those_of_feedback(memory: MemoryService) -> None:
    memory.write([skill(verdicts={'useful': 2, 'wrong': 1})])
    proposed = MemoryQuery(kinds=['skill'], skill_status=('proposed',))
    for _ in range(6):
        found = memory.query(proposed, receipt=True)
        memory.feedback('useful', receipt_id=found.receipt_id)
    memory.feedback('not_applicable', ids=[str(found[0].item.id)])
    told = payload('verified')
    del told['verdicts']
    memory.write([skill().model_copy(update={'payload': told})])
    (hit,) = memory.query(MemoryQuery(kinds=['skill']))
    assert hit.item.payload['verdicts'] == {'useful': 8, 'misleading': 0, 'wrong': 1, 'not_applicable': 1}
    assert memory.skill_transitions()[-1].evidence['verdicts'] == hit.item.payload['verdicts']
    assert memory.verify().ok


def test_feedback_alone_is_weighed_like_verdicts_that_are_told(memory: MemoryService) -> None:
    memory.write([skill()])
    (hit,) = memory.query(MemoryQuery(kinds=['skill'], skill_status=('proposed',)))
    memory.feedback('misleading', ids=[str(hit.item.id)])
    told = payload('verified')
    del told['verdicts']
    with pytest.raises(SkillGateError, match=r'useful: .*got 0.*misleading or wrong .*1 of 1'):
        memory.write([skill().model_copy(update={'payload': told})])


def test_the_same_again_is_no_transition(memory: MemoryService, clock: ManualClock) -> None:
    for item in (skill(), skill('verified'), skill('verified')):
        clock.now_ns += round(1.0 * NS)
        event = memory.write([item]).events[0].event
    assert event == 'SKIP_DUP'
    assert len(memory.skill_transitions()) == 2


def test_a_call_may_propose_and_promote_in_order(memory: MemoryService) -> None:
    memory.write([skill(), skill('verified'), skill(key='other')])
    assert [step.to_status for step in memory.skill_transitions('dock')] == ['proposed', 'verified']
    known = state_of(memory)
    with pytest.raises(SkillGateError, match=r'items\[1\]'):
        memory.write([skill(key='third'), skill('verified', key='fourth')])
    assert state_of(memory) == known


def test_a_dry_run_asks_the_gate_and_stores_nothing(memory: MemoryService) -> None:
    memory.write([skill()])
    known = state_of(memory)
    with pytest.raises(SkillGateError):
        memory.write([skill('deprecated')], dry_run=True)
    assert memory.write([skill('verified')], dry_run=True).events[0].event == 'INVALIDATE'
    assert state_of(memory) == known


def test_a_late_statement_passes_on_both_sides(memory: MemoryService) -> None:
    memory.write([skill(at=10)])
    memory.write([skill('verified', at=20)])
    memory.write([skill(at=15).model_copy(update={'content': 'told otherwise'})])
    assert [step.from_status for step in memory.skill_transitions()] == [None, 'proposed', 'proposed']
    assert memory.query(MemoryQuery(key='dock')).total == 1


@pytest.mark.parametrize(
    ('late', 'told'),
    [
        (skill('refuted', at=15), 'which it is from later on'),
        (skill(at=15, trigger='another'), 'which it is from later on'),
        (skill('verified', at=5), 'a new or forgotten skill'),
    ],
)
def test_a_late_statement_cannot_take_away_what_later_ones_stand_on(
    memory: MemoryService, late: MemoryItem, told: str
) -> None:
    memory.write([skill(at=10)])
    memory.write([skill('verified', at=20)])
    known = state_of(memory)
    with pytest.raises(SkillGateError, match=told):
        memory.write([late])
    assert state_of(memory) == known


def test_a_forgotten_skill_begins_anew(memory: MemoryService, clock: ManualClock) -> None:
    memory.write([skill(), skill('verified')])
    clock.now_ns += round(10.0 * NS)
    assert memory.forget(MemoryQuery(key='dock')) == 1
    clock.now_ns += round(10.0 * NS)
    with pytest.raises(SkillGateError, match="expected 'proposed' for a new"):
        memory.write([skill('verified')])
    memory.write([skill()])
    assert memory.query(MemoryQuery(key='dock')).excluded['not_verified'] == 1
    memory.write([skill('verified')])
    assert memory.query(MemoryQuery(key='dock')).total == 1


def test_who_moved_it_when_and_why_is_recorded(memory: MemoryService, clock: ManualClock) -> None:
    first = memory.write([skill()], actor='planner')
    clock.now_ns += round(5.0 * NS)
    second = memory.write([skill('verified')], actor='reviewer')
    proposed, verified = memory.skill_transitions('dock')

    assert (proposed.actor, proposed.from_status, proposed.to_status) == ('planner', None, 'proposed')
    assert (proposed.sequence, proposed.id) == (first.sequence, first.ids[0])
    assert (verified.actor, verified.from_status, verified.to_status) == ('reviewer', 'proposed', 'verified')
    assert (verified.sequence, verified.id, verified.key) == (second.sequence, second.ids[0], 'dock')
    assert verified.recorded_at_ns == 1005 * 10**9
    assert verified.evidence == {'traces': EVIDENCE['evidence'], 'verdicts': EVIDENCE['verdicts']}
    assert memory.skill_transitions(limit=1) == (verified,)
    assert memory.skill_transitions('other') == ()


def test_a_purge_leaves_that_somebody_moved_something(memory: MemoryService) -> None:
    memory.write([skill(), skill('verified')], actor='reviewer')
    memory.purge(MemoryQuery(key='dock'))
    for step in memory.skill_transitions():
        assert (step.actor, step.id, step.key, step.evidence) == ('reviewer', None, None, {})
        assert step.to_status in {'proposed', 'verified'}


def test_scopes_have_skills_of_their_own(memory: MemoryService) -> None:
    kitchen = skill().model_copy(update={'scope': {'map_id': 'kitchen'}})
    memory.write([kitchen])
    with pytest.raises(SkillGateError):
        memory.write([skill('verified')])


@pytest.mark.parametrize(
    ('change', 'told'),
    [
        ({'params': None}, 'code, params: give exactly one'),
        ({'code': 'x', 'params': {}}, 'code, params: give exactly one'),
        ({'code': ''}, r'\$\.code'),
        ({'code': 7}, r'\$\.code: 7'),
        ({'params': [1]}, r'\$\.params'),
        ({'api_surface': ''}, r'\$\.api_surface'),
        ({'api_surface': None}, r'\$\.api_surface'),
        ({'status': 'done'}, r"\$\.status: 'done'"),
        ({'status': None}, r'\$\.status'),
        ({'trigger': 7}, r'\$\.trigger: 7'),
        ({'trigger': 'battery >'}, r'\$\.trigger: at 10'),
        ({'preconditions': 'battery > 1'}, r'\$\.preconditions'),
        ({'preconditions': ['a', 'eval(b)']}, r"\$\.preconditions\[1\]: at 1: unknown function 'eval'"),
        ({'preconditions': ['a', '']}, r'\$\.preconditions\[1\]'),
        ({'preconditions': ['(' * 40]}, r'\$\.preconditions\[0\]: at \d+: nested deeper'),
        ({'preconditions': ['a'] * 65}, r'\$\.preconditions'),
        ({'postconditions': [None]}, r'\$\.postconditions\[0\]'),
        ({'verdicts': {'useful': -1}}, r'\$\.verdicts\.useful: -1'),
        ({'verdicts': {'useful': 1.5}}, r'\$\.verdicts\.useful: 1\.5'),
        ({'verdicts': {'useful': True}}, r'\$\.verdicts\.useful: True'),
        ({'verdicts': {'useful': '3'}}, r'\$\.verdicts\.useful'),
        ({'verdicts': {'good': 1}}, r'\$\.verdicts\.good'),
        ({'verdicts': 3}, r'\$\.verdicts: 3'),
        ({'evidence': 'bag'}, r'\$\.evidence'),
        ({'evidence': ['ok', ' ']}, r'\$\.evidence\[1\]'),
        ({'evidence': [7]}, r'\$\.evidence\[0\]'),
        ({'extra': 1}, r'\$\.extra'),
    ],
)
def test_a_malformed_payload_is_refused_by_its_path(
    shared: MemoryService, change: dict[str, Any], told: str
) -> None:
    known = state_of(shared)
    fields = {name: value for name, value in {**payload(), **change}.items() if value is not None}
    with pytest.raises(InvalidRequestError, match=told) as refusal:
        shared.write([skill(key='sound'), MemoryItem(kind='skill', key='dock', payload=fields)])
    assert 'items[1].payload: $' in refusal.value.message
    assert state_of(shared) == known


@pytest.mark.parametrize(
    ('fields', 'told'),
    [
        ({'key': None}, r'items\[0\]\.key: expected a text, got None'),
        (
            {'pose': {'frame_id': 'map', 'position': (0, 0, 0)}},
            r'items\[0\]\.pose: expected None, a skill has no place',
        ),
        ({'extent': (1, 1, 1)}, r'items\[0\]\.extent'),
        ({'payload': {}}, r'items\[0\]\.payload: \$\.api_surface: Field required'),
    ],
)
def test_what_no_skill_has_is_refused(shared: MemoryService, fields: dict[str, Any], told: str) -> None:
    known = state_of(shared)
    item = MemoryItem(**{'kind': 'skill', 'key': 'dock', 'payload': payload(), **fields})
    with pytest.raises(InvalidRequestError, match=told):
        shared.write([item])
    assert state_of(shared) == known


def test_a_payload_that_contains_itself_is_refused() -> None:
    round_and_round: dict[str, Any] = payload()
    round_and_round['params'] = round_and_round
    with pytest.raises(ValueError, match='nested deeper'):
        MemoryItem(kind='skill', key='dock', payload=round_and_round)
