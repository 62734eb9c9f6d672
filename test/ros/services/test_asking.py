"""Questions to a real node, good ones and bad ones, and answers that go on."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ros.harness import Talker, near, spatial
from ros.services.pieces import keys

from hylo_memory_ros.msg import MemoryFilter, MemoryItem
from hylo_memory_ros.srv import Query

pytestmark = pytest.mark.ros


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
    assert list(answer.excluded_reasons) == ['outside_radius']
    # The memory is shared with other tests, which may have things outside too.
    assert answer.excluded_counts[0] >= 1
    assert answer.nearest_excluded_m == pytest.approx(2.0)
    assert (answer.center_used.header.frame_id, answer.center_used.point.x) == ('map', 502.0)


def test_a_slash_before_the_frame_makes_no_difference(talker: Talker, key: str) -> None:
    talker.write(spatial(key, 600.0, 2.0, frame='/map'))

    assert len(talker.query(filter=near('map', 0.5, 600.0, 2.0)).hits) == 1
    assert len(talker.query(filter=near('/map', 0.5, 600.0, 2.0)).hits) == 1


@pytest.mark.parametrize('text', ['%', '_', '*', 'all'])
def test_no_character_of_a_key_is_a_wildcard(talker: Talker, key: str, text: str) -> None:
    talker.write(spatial(key + text), spatial(key + 'X'))

    assert talker.query(filter=keys(key + text)).total == 1


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
        (
            {'filter': MemoryFilter(embedding_space='clip', embedding=[1.0])},
            "expected an embedding space as name@version, got 'clip'",
        ),
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
