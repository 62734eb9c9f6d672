"""Each service of a real node, with good requests and bad ones."""

import json
import math
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ros.harness import Talker, near, spatial

from hylo_memory_ros.msg import ErrorCode, MemoryFilter, MemoryItem
from hylo_memory_ros.ros.servers import TYPES
from hylo_memory_ros.srv import Changes, Flush, Forget, History, Purge, Query, Retract, SetMap, Snapshot

pytestmark = pytest.mark.ros


@pytest.fixture
def talker(shared: SimpleNamespace) -> Talker:
    return shared.talker


@pytest.fixture
def key() -> str:
    return f'key-{uuid.uuid4().hex[:8]}'


def keys(*names: str, **fields: Any) -> MemoryFilter:
    return MemoryFilter(keys=list(names), **fields)


def test_exactly_the_services_whose_operation_exists_are_offered(shared: SimpleNamespace) -> None:
    names = {
        name
        for name, _ in shared.talker.node.get_service_names_and_types()
        if name.startswith('/hylo_memory/')
    }
    own = {name.rpartition('/')[2] for name in names if name.count('/') == 2}

    assert set(TYPES) <= own


def test_what_is_written_is_found_by_key_place_text_and_label(talker: Talker, key: str) -> None:
    item = spatial(key, 100.0, 2.0, 0.8, label=key, content=f'red {key}', payload_json='{"grip": "side"}')
    written = talker.write(item)
    assert written.success, written.message
    assert list(written.outcomes) == ['ADD']

    for chosen in (
        keys(key),
        near('map', 1.0, 100.0, 2.0),
        MemoryFilter(text=f'red {key}'),
        MemoryFilter(labels=[key]),
    ):
        found = talker.query(filter=chosen)
        assert [hit.item.id for hit in found.hits] == list(written.ids), chosen
        assert found.hits[0].status == 'current'
    hit = talker.query(filter=near('map', 1.0, 100.0, 2.0), include=['payload']).hits[0]
    assert hit.item.payload_json == '{"grip": "side"}'
    assert hit.distance_m == pytest.approx(0.8)
    assert talker.query(filter=keys(key)).hits[0].item.payload_json == ''


def test_what_is_like_a_vector_is_found_and_its_parts_are_told_by_name(talker: Talker, key: str) -> None:
    space = f'{key}@1'
    fields = {'embedding_space': space, 'payload_json': '{"a": 1}', 'evidence': ['frame 7']}
    talker.write(
        MemoryItem(kind='semantic', key=f'{key}-like', content='one', embedding=[0.6, 0.8], **fields),
        MemoryItem(kind='semantic', key=f'{key}-other', content='two', embedding=[0.0, -1.0], **fields),
        MemoryItem(kind='semantic', key=f'{key}-none', content='three'),
    )
    asked = MemoryFilter(embedding_space=space, embedding=[0.6, 0.8])

    bare = talker.query(filter=asked, explain=True)
    whole = talker.query(filter=asked, include=['payload', 'embedding', 'evidence'], receipt=True)

    assert [hit.item.key for hit in bare.hits] == [f'{key}-like', f'{key}-other']
    assert bare.hits[0].score == pytest.approx(1.0)
    assert json.loads(bare.hits[0].details_json) == {'vector': pytest.approx(1.0)}
    for hit in bare.hits:
        assert (hit.item.payload_json, hit.item.embedding_space, list(hit.item.evidence)) == ('', '', [])
    told = whole.hits[0].item
    assert (told.payload_json, told.embedding_space, list(told.evidence)) == ('{"a": 1}', space, ['frame 7'])
    assert list(told.embedding) == pytest.approx([0.6, 0.8])
    assert whole.receipt_id


def test_a_text_in_a_space_without_an_embedder_is_refused_by_name(talker: Talker, key: str) -> None:
    refused = talker.call(Query, 'query', filter=MemoryFilter(text='mug', embedding_space='clip@1'))

    assert not refused.success
    assert "'clip@1' has no embedder" in refused.message


def test_ids_only_answers_in_columns(talker: Talker, key: str) -> None:
    written = talker.write(spatial(key, 1.0, 2.0, 3.0))

    answer = talker.query(filter=keys(key), ids_only=True)

    assert list(answer.hits) == []
    assert list(answer.ids) == list(written.ids)
    assert list(answer.positions) == [1.0, 2.0, 3.0]
    assert list(answer.scores) == [1.0]


def test_k_zero_counts_only(talker: Talker, key: str) -> None:
    talker.write(spatial(key))

    answer = talker.query(k=0, filter=keys(key))

    assert (len(answer.hits), answer.total, answer.truncated) == (0, 1, True)


def test_an_empty_answer_explains_itself(talker: Talker, key: str) -> None:
    talker.write(spatial(key, 500.0, 0.0))

    answer = talker.query(filter=near('map', 1.0, 502.0))

    assert answer.success
    assert dict(zip(answer.excluded_reasons, answer.excluded_counts, strict=True)) == {'outside_radius': 1}
    assert answer.nearest_excluded_m == pytest.approx(2.0)
    assert (answer.center_used.header.frame_id, answer.center_used.point.x) == ('map', 502.0)


def test_a_slash_before_the_frame_makes_no_difference(talker: Talker, key: str) -> None:
    talker.write(spatial(key, 600.0, 2.0, frame='/map'))

    assert len(talker.query(filter=near('map', 0.5, 600.0, 2.0)).hits) == 1
    assert len(talker.query(filter=near('/map', 0.5, 600.0, 2.0)).hits) == 1


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
    assert '$.evidence: 0 traces, at least 3 (skill_min_traces)' in refused.message
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


@pytest.mark.parametrize('text', ['%', '_', '*', 'all'])
def test_no_character_of_a_key_is_a_wildcard(talker: Talker, key: str, text: str) -> None:
    talker.write(spatial(key + text), spatial(key + 'X'))

    assert talker.query(filter=keys(key + text)).total == 1


def test_forget_tells_the_count_and_a_second_one_that_nothing_matched(talker: Talker, key: str) -> None:
    written = talker.write(spatial(key, 800.0), spatial(key + 'b', 800.1))

    dry = talker.call(Forget, 'forget', filter=keys(key), dry_run=True)
    assert (dry.count, dry.sequence) == (1, 0)
    gone = talker.call(Forget, 'forget', filter=near('map', 1.0, 800.0), reason='test', actor='me')
    assert (gone.success, gone.count) == (True, 2)
    assert set(gone.ids) == set(written.ids)

    again = talker.call(Forget, 'forget', filter=near('map', 1.0, 800.0))
    assert (again.success, again.count, again.message) == (True, 0, 'nothing matched')
    for chosen in (keys(key), near('map', 1.0, 800.0), MemoryFilter(ids=list(written.ids))):
        assert talker.query(filter=chosen).total == 0
    past = keys(key)
    past.known_seq = written.sequence
    assert talker.query(filter=past).total == 1


@pytest.mark.parametrize(('kind', 'name'), [(Forget, 'forget'), (Retract, 'retract'), (Purge, 'purge')])
def test_removing_without_a_filter_is_refused(talker: Talker, kind: Any, name: str) -> None:
    refused = talker.call(kind, name, kind.Request())

    assert not refused.success
    assert 'filter' in refused.message


def test_retract_says_it_was_never_true(talker: Talker, key: str) -> None:
    first = spatial(key, 1.0)
    first.valid_from.sec = 1_700_000_000
    talker.write(first)
    later = spatial(key, 2.0)
    later.valid_from.sec = 1_700_000_100
    written = talker.write(later)

    assert talker.call(Retract, 'retract', filter=MemoryFilter(ids=list(written.ids))).count == 1
    assert talker.query(filter=keys(key)).hits[0].item.pose.position.x == 1.0


def test_purge_leaves_nothing_behind(talker: Talker, key: str) -> None:
    talker.write(spatial(key, content='secret'))

    assert talker.call(Purge, 'purge', filter=keys(key), actor='me').count == 1
    assert talker.query(filter=keys(key, include_invalidated=True)).total == 0
    assert len(talker.call(History, 'history', kind='spatial', key=key).versions) == 0


def test_history_pages(talker: Talker, key: str) -> None:
    for x in range(5):
        item = spatial(key, float(x))
        item.valid_from.sec = 1_700_000_000 + x
        talker.write(item)

    first = talker.call(History, 'history', kind='spatial', key=key, limit=4)
    rest = talker.call(History, 'history', kind='spatial', key=key, limit=100, cursor=first.cursor)
    whole = talker.call(History, 'history', kind='spatial', key=key)

    assert len(first.versions) == 4
    assert first.cursor
    assert rest.cursor == ''
    assert len(whole.versions) == 4 + len(rest.versions)


def test_history_needs_an_identity(talker: Talker) -> None:
    assert not talker.call(History, 'history').success
    assert not talker.call(History, 'history', id='a', key='b').success
    assert 'cursor' in talker.call(History, 'history', id='a', cursor='nonsense').message


def test_changes_have_no_gap_and_an_unknown_epoch_is_told(talker: Talker, key: str) -> None:
    before = talker.query().sequence
    for x in range(3):
        talker.write(spatial(f'{key}{x}'))

    feed = talker.call(Changes, 'changes', after_sequence=before)
    assert [event.sequence for event in feed.events] == [before + 1, before + 2, before + 3]
    assert (feed.last_sequence, feed.gap) == (before + 3, False)
    assert [list(event.keys) for event in feed.events] == [[f'{key}{x}'] for x in range(3)]
    two = talker.call(Changes, 'changes', epoch=feed.epoch, after_sequence=before, limit=2)
    assert len(two.events) == 2
    assert talker.call(Changes, 'changes', epoch='another').error_code == ErrorCode.EPOCH_CHANGED


def test_a_snapshot_changes_with_the_memory_only(talker: Talker, key: str, shared: SimpleNamespace) -> None:
    first = talker.call(Snapshot, 'snapshot')
    assert first.success, first.message
    assert first.digest.startswith('sha256:')
    assert first.complete
    assert talker.call(Snapshot, 'snapshot').digest == first.digest

    talker.write(spatial(key))
    copy = shared.folder / f'{key}.db'
    second = talker.call(Snapshot, 'snapshot', copy_path=str(copy))

    assert second.digest != first.digest
    assert copy.stat().st_size > 0
    manifest = json.loads(second.manifest_json)
    assert manifest['timeline_digest'].startswith('sha256:')
    again = talker.call(Snapshot, 'snapshot', copy_path=str(copy))
    assert (again.success, str(copy) in again.message) == (False, True)


def test_a_flush_without_inputs_is_done_at_once(talker: Talker) -> None:
    answer = talker.call(Flush, 'flush')

    assert (answer.success, answer.pending) == (True, 0)
    assert 'timeout_s' in talker.call(Flush, 'flush', timeout_s=math.nan).message
    assert 'timeout_s' in talker.call(Flush, 'flush', timeout_s=-1.0).message


def test_a_switch_of_the_map_hides_what_is_in_the_other(talker: Talker, key: str) -> None:
    assert talker.call(SetMap, 'set_map', map_id='nowhere').error_code == ErrorCode.MAP_UNKNOWN
    assert not talker.call(SetMap, 'set_map').success
    assert talker.call(SetMap, 'set_map', map_id=key, create=True).previous == ''
    try:
        assert talker.write(spatial('here', 900.0)).success
        assert talker.query(filter=near('map', 1.0, 900.0)).hits[0].item.map_id == key
        assert talker.call(SetMap, 'set_map', map_id=key + '2', create=True).previous == key
        elsewhere = talker.query(filter=near('map', 1.0, 900.0))
        assert elsewhere.total == 0
        assert 'other_map' in elsewhere.excluded_reasons
        assert talker.query(filter=near('map', 1.0, 900.0, any_map=True)).total == 1
    finally:
        # Back where no map was: the other tests of this node know none.
        shared_previous = talker.call(SetMap, 'set_map', map_id=key + '2', create=True)
        assert shared_previous.success


def test_a_truncated_answer_goes_on_with_its_cursor(talker: Talker, key: str) -> None:
    talker.write(*(MemoryItem(kind='semantic', key=f'{key}{n:02}', label=key) for n in range(25)))

    seen: list[str] = []
    cursor = ''
    for _ in range(10):
        page = talker.query(k=7, filter=MemoryFilter(labels=[key]), cursor=cursor)
        assert page.success, page.message
        seen += [hit.item.key for hit in page.hits]
        cursor = page.cursor
        if not cursor:
            break

    assert sorted(seen) == [f'{key}{n:02}' for n in range(25)]


def test_a_reply_is_capped_and_its_cursor_goes_on(talker: Talker, key: str) -> None:
    text = 'x' * 60_000
    talker.write(
        *(MemoryItem(kind='semantic', key=f'{key}{n:02}', label=key, content=text) for n in range(20))
    )

    seen: list[str] = []
    cursor = ''
    while True:
        page = talker.query(k=100, filter=MemoryFilter(labels=[key]), cursor=cursor)
        assert page.success, page.message
        assert 1 <= len(page.hits) <= 8
        assert page.truncated == bool(page.cursor)
        seen += [hit.item.key for hit in page.hits]
        if not (cursor := page.cursor):
            break

    assert sorted(seen) == [f'{key}{n:02}' for n in range(20)]


@pytest.mark.parametrize(
    ('fields', 'said'),
    [
        ({'k': 10_001}, 'k'),
        ({'cursor': 'nonsense'}, 'cursor'),
        ({'cursor': 'at:nonsense'}, 'cursor'),
        ({'include': ['pictures']}, "include: 'pictures'"),
        ({'filter': MemoryFilter(kinds=['spatail'])}, 'kinds'),
        ({'filter': MemoryFilter(keys=[' '])}, 'keys'),
        ({'filter': MemoryFilter(text='a\ufffd')}, 'U+FFFD'),
        ({'filter': MemoryFilter(min_score=1.5)}, 'min_score'),
        ({'filter': MemoryFilter(relation='on')}, 'relation'),
        ({'filter': MemoryFilter(embedding_space='clip@1')}, 'filter.embedding: 0 numbers'),
        ({'filter': MemoryFilter(embedding=[1.0])}, 'filter.embedding: 1 numbers'),
        ({'filter': MemoryFilter(embedding_space='clip', embedding=[1.0])}, "'clip' is no embedding space"),
        ({'filter': MemoryFilter(options_json='{"x": 1}')}, "unknown key 'x'"),
        ({'filter': near('map', -1.0)}, 'filter.radius_m'),
        ({'filter': near(' map', 1.0)}, 'frame_id'),
    ],
)
def test_a_bad_question_is_refused_by_name(talker: Talker, fields: dict[str, Any], said: str) -> None:
    refused = talker.call(Query, 'query', **fields)

    assert not refused.success
    assert 100 <= refused.error_code < 200
    assert said in refused.message


def test_typed_by_hand_the_common_question_answers(shared: SimpleNamespace, tmp_path: Path) -> None:
    """As by `ros2 service call`: {filter: {labels: [mug], near: {header: {frame_id: map}}, radius_m: 2}}."""
    request = Query.Request(filter=near('map', 2.0, labels=['mug']))

    assert request.k == 10
    assert shared.talker.call(Query, 'query', request).success
