"""Feedback over DDS: counted, shown, asked for, and refused by name."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from ros.harness import Talker, near, spatial

from hylo_memory_ros.model.feedback import VERDICTS
from hylo_memory_ros.msg import ErrorCode, MemoryFilter
from hylo_memory_ros.srv import Episode, Feedback, Purge, Query

pytestmark = pytest.mark.ros


@pytest.fixture(scope='module')
def talker(shared: SimpleNamespace) -> Talker:
    talker: Talker = shared.talker
    assert talker.write(
        *(spatial(f'thing {i}', float(i), label='thing', content=f'number {i}') for i in range(4))
    ).success
    return talker


def judge(talker: Talker, **fields: Any) -> Any:
    return talker.call(Feedback, 'feedback', **fields)


def helpfulness(talker: Talker, item_id: str) -> dict[str, Any]:
    (hit,) = talker.query(filter=MemoryFilter(ids=[item_id]), explain=True).hits
    told: dict[str, Any] = json.loads(hit.details_json).get('stats', {}).get('helpfulness', {})
    return told


def verdicts(talker: Talker, item_id: str) -> dict[str, Any]:
    told = helpfulness(talker, item_id)
    return {name: told.get(name) for name in VERDICTS}


def test_a_verdict_on_an_answer_is_counted_and_shown(talker: Talker) -> None:
    answer = talker.query(2, filter=near('map', 50.0), receipt=True)
    first, second = (hit.item.id for hit in answer.hits)
    assert helpfulness(talker, first) == {}
    judged = judge(talker, receipt_id=answer.receipt_id, outcome='useful', note='it was there')
    assert (judged.success, judged.updated, judged.message) == (True, 2, '')
    judged = judge(talker, receipt_id=answer.receipt_id, ids=[second], outcome='misleading')
    assert (judged.updated, judged.message) == (1, '1 earlier verdicts were replaced')
    told = helpfulness(talker, first)
    assert (told['useful'], told['misleading'], told['retrieved']) == (1, 0, 1)
    assert told['score'] == pytest.approx(2 / 3)
    assert helpfulness(talker, second)['misleading'] == 1
    assert talker.query(filter=MemoryFilter(ids=[first])).hits[0].details_json == ''


def test_each_who_says_so_counts_once(talker: Talker) -> None:
    (hit,) = talker.query(filter=MemoryFilter(keys=['thing 3'])).hits
    for actor in ('planner', 'operator', 'planner'):
        assert judge(talker, ids=[hit.item.id], outcome='not_applicable', actor=actor).success
    assert verdicts(talker, hit.item.id)['not_applicable'] == 2


def test_questions_may_ask_for_it_and_weigh_it(talker: Talker) -> None:
    ids = [hit.item.id for hit in talker.query(filter=near('map', 50.0)).hits]
    assert judge(talker, ids=ids[3:], outcome='useful').updated == 1
    assert judge(talker, ids=ids[2:3], outcome='wrong').updated == 1
    asked = near('map', 50.0, options_json='{"min_helpfulness": 0.6}')
    answer = talker.query(filter=asked)
    assert ids[3] in {hit.item.id for hit in answer.hits}
    assert ids[2] not in {hit.item.id for hit in answer.hits}
    assert 'below_helpfulness' in answer.excluded_reasons
    everything = near('map', 50.0, options_json='{"min_helpfulness": 0.0}')
    assert len(talker.query(filter=everything).hits) == 4
    weighed = near('map', 50.0, options_json='{"weights": {"helpfulness": 1.0, "near": 0.0}}')
    hits = talker.query(filter=weighed, explain=True).hits
    scores = [json.loads(hit.details_json)['helpfulness'] for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert hits[-1].item.id == ids[2]


def test_the_end_of_an_episode_speaks_for_what_was_looked_up_in_it(talker: Talker) -> None:
    talker.write(spatial('goal', 90.0, content='the goal'))
    assert talker.call(Episode, 'episode', op='begin', id='lap').success
    answer = talker.query(filter=near('map', 1.0, 90.0), receipt=True)
    (goal,) = (hit.item.id for hit in answer.hits)
    assert judge(talker, receipt_id=answer.receipt_id, outcome='not_applicable').updated == 1
    assert talker.call(Episode, 'episode', op='end', outcome='success').success
    told = helpfulness(talker, goal)
    assert (told['succeeded'], told['failed'], told['not_applicable']) == (1, 0, 1)
    assert judge(talker, ids=[goal], outcome='useful', episode='lap').updated == 1


REFUSED = {
    'outcome': ({'outcome': 'fine', 'ids': ['FIRST']}, ErrorCode.INVALID_FIELD, "outcome: 'fine'"),
    'nothing': ({'outcome': 'useful'}, ErrorCode.INVALID_FIELD, 'both are empty'),
    'receipt': (
        {'outcome': 'useful', 'receipt_id': 'retrieval/none'},
        ErrorCode.NOT_FOUND,
        "receipt_id: there is no receipt 'retrieval/none'",
    ),
    'id': ({'outcome': 'useful', 'ids': ['spatial/none']}, ErrorCode.NOT_FOUND, "'spatial/none'"),
    'not answered': (
        {'outcome': 'useful', 'receipt_id': 'RECEIPT', 'ids': ['SECOND']},
        ErrorCode.INVALID_FIELD,
        'did not answer',
    ),
    'episode': (
        {'outcome': 'useful', 'ids': ['FIRST'], 'episode': 'never'},
        ErrorCode.NOT_FOUND,
        "episode: there is no episode 'never'",
    ),
    'too many': (
        {'outcome': 'useful', 'ids': [str(i) for i in range(10_001)]},
        ErrorCode.TOO_LARGE,
        'ids: 10001',
    ),
    'note': ({'outcome': 'useful', 'ids': ['FIRST'], 'note': 'x' * 5000}, ErrorCode.TOO_LARGE, 'note'),
}  # fmt: skip


@pytest.mark.parametrize('name', REFUSED)
def test_what_makes_no_sense_is_refused_by_name(talker: Talker, name: str) -> None:
    answer = talker.query(1, filter=near('map', 0.5), receipt=True)
    (first,) = (hit.item.id for hit in answer.hits)
    (second,) = (hit.item.id for hit in talker.query(filter=near('map', 0.5, 1.0)).hits)
    names = {'FIRST': first, 'SECOND': second, 'RECEIPT': answer.receipt_id}
    fields, code, message = REFUSED[name]
    request = dict(fields)
    request['ids'] = [names.get(one, one) for one in fields.get('ids', ())]
    request['receipt_id'] = names.get(fields.get('receipt_id', ''), fields.get('receipt_id', ''))
    before = verdicts(talker, first)
    refused = judge(talker, **request)
    assert (refused.success, refused.updated, refused.error_code) == (False, 0, code), refused.message
    assert message in refused.message
    assert verdicts(talker, first) == before


@pytest.mark.parametrize('options', ['{"min_helpfulness": 1.5}', '{"min_helpfulness": "much"}'])
def test_no_score_is_refused_as_the_least(talker: Talker, options: str) -> None:
    refused = talker.call(Query, 'query', filter=near('map', 1.0, options_json=options))
    assert not refused.success
    assert 'filter.options_json.min_helpfulness' in refused.message


def test_a_purged_receipt_is_refused(talker: Talker) -> None:
    talker.write(spatial('person', 70.0, content='someone'))
    answer = talker.query(filter=near('map', 1.0, 70.0), receipt=True)
    assert judge(talker, receipt_id=answer.receipt_id, outcome='useful', note='someone was in').success
    purged = talker.call(Purge, 'purge', filter=MemoryFilter(keys=['person']))
    assert purged.success, purged.message
    refused = judge(talker, receipt_id=answer.receipt_id, outcome='useful')
    assert refused.error_code == ErrorCode.INVALID_FIELD
    assert 'purged' in refused.message
