"""Writing through a real node: whole or not at all, once, and refused by name."""

import json
import math
from typing import Any

import pytest
from ros.harness import Talker, spatial
from ros.services.pieces import keys

from hylo_memory_ros.msg import ErrorCode, MemoryFilter, MemoryItem
from hylo_memory_ros.srv import Forget, History

pytestmark = pytest.mark.ros


def test_stamps_come_back_bit_exact(talker: Talker, key: str) -> None:
    ns = 1553575413247045598
    item = spatial(key, 700.0)
    item.header.stamp.sec, item.header.stamp.nanosec = divmod(ns, 10**9)
    assert talker.write(item).success

    found = talker.query(filter=keys(key)).hits[0].item

    assert found.header.stamp.sec * 10**9 + found.header.stamp.nanosec == ns
    assert found.valid_from.sec * 10**9 + found.valid_from.nanosec == ns


def test_a_write_is_all_or_nothing(talker: Talker, key: str) -> None:
    before = talker.query().sequence

    refused = talker.write(spatial(key), spatial(key + 'b', math.nan))

    assert (refused.success, refused.error_code) == (False, ErrorCode.INVALID_FIELD)
    assert 'items[1].pose.position[0]: nan' in refused.message
    after = talker.query(filter=keys(key))
    assert (after.total, after.sequence) == (0, before)


def test_a_dry_run_stores_nothing(talker: Talker, key: str) -> None:
    answer = talker.write(spatial(key), dry_run=True)

    assert (list(answer.outcomes), answer.sequence) == (['ADD'], 0)
    assert talker.query(filter=keys(key)).total == 0


def test_a_repeated_request_gets_the_first_answer(talker: Talker, key: str) -> None:
    first = talker.write(spatial(key), request_id=key)

    again = talker.write(spatial(key, 5.0), request_id=key)

    assert (again.sequence, list(again.ids)) == (first.sequence, list(first.ids))


def test_a_duplicate_is_told_and_a_change_names_what_it_closed(talker: Talker, key: str) -> None:
    first = talker.write(spatial(key, 1.0))
    assert list(talker.write(spatial(key, 1.0)).outcomes) == ['SKIP_DUP']

    changed = talker.write(spatial(key, 2.0))

    assert list(changed.outcomes) == ['INVALIDATE']
    assert list(changed.closed_ids) == list(first.ids)
    versions = talker.call(History, 'history', kind='spatial', key=key).versions
    assert [version.hit.item.pose.position.x for version in versions if version.superseded_sequence == 0] == [
        1.0,
        2.0,
    ]


def test_working_memory_has_no_place_on_disk_but_answers(talker: Talker, key: str) -> None:
    sequence = talker.query().sequence

    assert talker.write(MemoryItem(kind='working', key=key, content='now')).success

    assert talker.query(filter=keys(key)).hits[0].item.kind == 'working'
    assert talker.query().sequence == sequence


def test_a_skill_answers_once_evidence_got_it_through_its_gate(talker: Talker, key: str) -> None:
    payload: dict[str, Any] = {'params': {}, 'api_surface': 'a@1', 'preconditions': ['battery > 0.3']}
    evidence = {'evidence': ['a', 'b', 'c'], 'verdicts': {'useful': 3}}

    def write(**fields: Any) -> Any:
        return talker.write(MemoryItem(kind='skill', key=key, payload_json=json.dumps({**payload, **fields})))

    def asked(**options: Any) -> Any:
        return talker.query(filter=MemoryFilter(keys=[key], options_json=json.dumps(options)))

    malformed = write(status='proposed', trigger='eval(1)')
    assert (malformed.success, malformed.error_code) == (False, ErrorCode.INVALID_FIELD)
    assert 'items[0].payload: $.trigger: at 1' in malformed.message
    refused = write(status='verified', **evidence)
    assert (refused.success, refused.error_code) == (False, ErrorCode.NOT_ADMITTED)
    assert write(status='proposed').success
    refused = write(status='verified')
    assert refused.error_code == ErrorCode.NOT_ADMITTED
    assert '$.evidence: expected at least 3 traces (skill_min_traces), got 0' in refused.message
    assert list(asked().excluded_reasons) == ['not_verified']
    assert len(asked(skill_status=['proposed', 'verified']).hits) == 1

    assert write(status='verified', **evidence).success

    assert len(asked(state={'battery': 0.9}).hits) == 1
    assert 'precondition_failed' in asked(state={'battery': 0.1}).excluded_reasons
    assert 'precondition_unknown' in asked(state={}).excluded_reasons
    for options in ({'state': 7}, {'state': [1]}, {'skill_status': ['done']}, {'skill_status': []}):
        wrong = asked(**options)
        assert (wrong.success, wrong.error_code) == (False, ErrorCode.INVALID_FIELD), options
        assert 'filter.options_json' in wrong.message
    assert talker.call(Forget, 'forget', filter=MemoryFilter(keys=[key])).count == 1


def test_an_empty_write_is_refused(talker: Talker) -> None:
    refused = talker.write()

    assert not refused.success
    assert 'items' in refused.message


def test_one_too_large_a_payload_is_refused(talker: Talker, key: str) -> None:
    refused = talker.write(spatial(key, payload_json=json.dumps({'a': 'x' * 300_000})))

    assert not refused.success
    assert 'payload' in refused.message
    assert 100 <= refused.error_code < 200


def test_the_same_id_with_other_content_is_a_conflict(talker: Talker, key: str) -> None:
    assert talker.write(MemoryItem(kind='semantic', id=key, content='a')).success

    refused = talker.write(MemoryItem(kind='semantic', id=key, content='b'))

    assert refused.error_code == ErrorCode.ID_CONFLICT
    assert key in refused.message
