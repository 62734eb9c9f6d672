"""Receipts, prompts and the question of reuse, over DDS."""

from __future__ import annotations

import json
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest
from domain.identity.examples import codec, segment, semantic, token_kv
from ros.harness import NODE, Talker, near, spatial

from hylo_memory_ros.domain.identity import CachedPrefix, TokenKvIdentity
from hylo_memory_ros.msg import ErrorCode, MemoryEvent, MemoryFilter
from hylo_memory_ros.srv import MayReuse, Purge, Query, Receipt, Render

pytestmark = pytest.mark.ros


@pytest.fixture(scope='module')
def parameters() -> dict[str, Any]:
    return {'publish_retrievals': True, 'reply_limit_bytes': 16384}


@pytest.fixture(scope='module')
def talker(shared: SimpleNamespace) -> Talker:
    assert shared.talker.write(
        *(spatial(f'thing {i}', float(i), label='thing', content=f'number {i}') for i in range(5))
    ).success
    return shared.talker


THINGS = near('map', 50.0)


def receipt_of(talker: Talker, name: str) -> dict[str, Any]:
    answer = talker.call(Receipt, 'receipt', id=name)
    assert answer.success, answer.message
    return json.loads(answer.receipt_json)


def test_a_query_keeps_a_receipt_when_asked(talker: Talker) -> None:
    assert talker.query(filter=THINGS).receipt_id == ''
    answer = talker.query(3, filter=THINGS, receipt=True)
    told = receipt_of(talker, answer.receipt_id)
    assert [hit['id'] for hit in told['hits']] == [hit.item.id for hit in answer.hits]
    assert told['sequence'] == answer.sequence
    assert told['exactness'] == 'exact_reference'
    assert told['query']['k'] == 3


def test_a_reply_that_is_cut_has_the_receipt_of_what_it_shows(talker: Talker) -> None:
    talker.write(*(spatial(f'long {i}', 200.0 + i, content='x' * 6000) for i in range(6)))
    answer = talker.query(filter=near('map', 50.0, 200.0), receipt=True)
    assert 0 < len(answer.hits) < 6
    assert len(receipt_of(talker, answer.receipt_id)['hits']) == len(answer.hits)


def test_retrievals_are_events_at_the_sequence_that_they_read(talker: Talker) -> None:
    events: list[Any] = []
    talker.node.create_subscription(MemoryEvent, f'{NODE}/events', events.append, 1000)
    talker.spin_until(lambda: talker.node.count_publishers(f'{NODE}/events'), 'events')
    asked = talker.spin_until(
        lambda: (
            (answer := talker.query(2, filter=THINGS, receipt=True))
            and talker.spin_for(0.3) is None
            and [event for event in events if event.receipt_id == answer.receipt_id]
            and answer
        ),
        'retrieval event',
    )
    (event,) = [event for event in events if event.receipt_id == asked.receipt_id]
    assert (event.op, event.sequence) == ('retrieval', asked.sequence)
    assert list(event.ids) == [hit.item.id for hit in asked.hits]
    extra = json.loads(event.extra_json)
    assert [hit['position'] for hit in extra['hits']] == [0, 1]
    assert [hit['score'] for hit in extra['hits']] == [hit.score for hit in asked.hits]
    assert extra['query']['k'] == 2


@pytest.mark.parametrize(
    ('name', 'code'), [('', ErrorCode.INVALID_FIELD), ('retrieval/0', ErrorCode.NOT_FOUND), ('\ufffd', 101)]
)
def test_an_unknown_receipt_is_refused(talker: Talker, name: str, code: int) -> None:
    answer = talker.call(Receipt, 'receipt', id=name)
    assert not answer.success
    assert 100 <= answer.error_code < 200
    assert code == 101 or answer.error_code == code
    assert answer.receipt_json == ''


def test_a_large_receipt_is_cut_and_says_so(talker: Talker) -> None:
    talker.write(*(spatial(f'many {i}', 400.0) for i in range(120)))
    answer = talker.call(Query, 'query', filter=near('map', 1.0, 400.0), k=120, ids_only=True, receipt=True)
    assert len(answer.ids) == 120
    told = receipt_of(talker, answer.receipt_id)
    assert told['hits_left_out'] + len(told['hits']) == 120


def test_a_prompt_is_rendered_with_digests(talker: Talker) -> None:
    answer = talker.call(Render, 'render', filter=THINGS, k=10)
    assert answer.success, answer.message
    assert answer.digest == 'sha256:' + sha256(answer.text.encode()).hexdigest()
    assert len(answer.segment_digests) == len(answer.ids) + 2
    assert answer.text.count('\n- id=') == len(answer.ids) == 5
    assert talker.call(Render, 'render', filter=THINGS, k=10).text == answer.text
    told = receipt_of(talker, answer.receipt_id)
    assert told['render']['text'] == answer.digest
    assert [part['digest'] for part in told['render']['segments']] == list(answer.segment_digests)


def test_a_prompt_keeps_to_its_budget_and_says_what_it_left_out(talker: Talker) -> None:
    answer = talker.call(Render, 'render', filter=THINGS, k=10, max_tokens=250)
    assert answer.success, answer.message
    assert 0 < len(answer.ids) < 5
    assert answer.message == f'max_tokens: {5 - len(answer.ids)} of 5 hits left out'
    assert (
        answer.text.splitlines()[-1] == f'</memory shown={len(answer.ids)} left_out="{5 - len(answer.ids)}">'
    )


@pytest.mark.parametrize(
    ('fields', 'said'),
    [
        ({'renderer': 'nobodys@1'}, "renderer: 'nobodys@1'"),
        ({'max_tokens': 3}, 'max_tokens: 3 is below'),
        ({'filter': near('map', 50.0, 200.0), 'k': 10}, 'reply_limit_bytes'),
        ({'filter': near('nowhere', 1.0)}, 'nowhere'),
        ({'filter': MemoryFilter(keys=[' '])}, 'keys'),
        ({'k': 100_000}, 'k'),
    ],
)
def test_what_cannot_be_rendered_is_refused_by_name(
    talker: Talker, fields: dict[str, Any], said: str
) -> None:
    answer = talker.call(Render, 'render', **{'filter': THINGS, 'k': 10, **fields})
    assert not answer.success
    assert 100 <= answer.error_code < 300
    assert said in answer.message
    assert answer.text == ''


def kept(**changes: Any) -> str:
    fields = {**token_kv().fields, **changes}
    return CachedPrefix(token_kv=TokenKvIdentity(**fields), codec=codec()).model_dump_json()


def test_the_same_cache_may_be_reused_and_another_not(talker: Talker) -> None:
    answer = talker.call(MayReuse, 'may_reuse', have_json=kept(), want_json=kept())
    assert (answer.success, answer.allowed, list(answer.reasons)) == (True, True, [])
    answer = talker.call(MayReuse, 'may_reuse', have_json=kept(), want_json=kept(token_ids=[1, 2, 9]))
    assert (answer.success, answer.allowed) == (True, False)
    assert list(answer.reasons) == ['token_ids: the first difference is at 2: kept 3, wanted 9']


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('', 'want_json'),
        ('{', 'want_json'),
        ('[]', 'want_json'),
        ('{}', 'want_json.token_kv: it is missing'),
        (segment().model_dump_json(), 'want_json.renderer: no such field'),
        (semantic().model_dump_json(), 'want_json.record_id: no such field'),
        ('{"similarity": 0.99}', 'want_json.similarity: no such field'),
        ('{"token_kv": "\ufffd"}', 'U+FFFD'),
    ],
)
def test_what_is_no_identity_is_no_evidence(talker: Talker, text: str, said: str) -> None:
    answer = talker.call(MayReuse, 'may_reuse', have_json=kept(), want_json=text)
    assert not answer.success
    assert not answer.allowed
    assert 100 <= answer.error_code < 200
    assert said in answer.message


def test_a_purge_reaches_receipts(talker: Talker) -> None:
    talker.write(spatial('secret', 600.0))
    name = talker.query(filter=near('map', 1.0, 600.0), receipt=True).receipt_id
    assert talker.call(Purge, 'purge', filter=MemoryFilter(keys=['secret'])).count == 1
    told = receipt_of(talker, name)
    assert (told['hits'], told['purged']) == ([], 1)
