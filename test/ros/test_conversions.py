"""Messages and models are the same statements; what is wrong is refused by field, value and rule."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from support.effort import scaled

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import Hit, MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.msg import MemoryFilter
from hylo_memory_ros.msg import MemoryItem as ItemMsg
from hylo_memory_ros.ros.convert.fields import stamp_msg, stamp_ns
from hylo_memory_ros.ros.convert.filters import OPTIONS, query_from_msg
from hylo_memory_ros.ros.convert.items import item_from_msg, item_to_msg
from hylo_memory_ros.ros.convert.results import bytes_of_hit, cursor_of, cursor_read, fitting, hit_to_msg
from hylo_memory_ros.storage.query.filters import selects_items

pytestmark = pytest.mark.ros

letters = st.characters(exclude_categories=['Cs', 'Cc'], exclude_characters='\ufffd')
names = st.text(letters, min_size=1, max_size=8).filter(
    lambda text: text.strip() and '=' not in text and ':' not in text
)
contents = st.text(st.characters(exclude_categories=['Cs'], exclude_characters='\0\ufffd'), max_size=20)
numbers = st.floats(-1e9, 1e9)
stamps = st.integers(1, 2**31 * 10**9 - 1)
places = st.tuples(numbers, numbers, numbers)
payloads = st.dictionaries(
    names, st.none() | st.booleans() | st.integers() | contents | st.lists(numbers, max_size=3), max_size=3
)

FRAME_RULE = "expected a frame id without white space, with at most one leading '/'"
COORDINATE_RULE = 'expected a finite coordinate at most 1e+09 m from the origin'


@st.composite
def items(draw: st.DrawFn) -> MemoryItem:
    fields: dict[str, Any] = {
        'kind': draw(st.sampled_from(['working', 'episodic', 'semantic', 'spatial'])),
        'content': draw(contents),
        'key': draw(st.none() | names),
        'label': draw(st.just('') | names),
        'entities': draw(st.lists(names, max_size=2)),
        'object_ids': draw(st.lists(names, max_size=2)),
        'links': draw(st.lists(st.tuples(names, names), max_size=2)),
        'scope': draw(st.dictionaries(names, names, max_size=2)),
        'confidence': draw(st.floats(0, 1)),
        'source': draw(contents),
        'evidence': draw(st.lists(contents, max_size=2)),
        'payload': draw(payloads),
        'valid_from_ns': draw(stamps),
        'embeddings': draw(st.just({}) | st.just({'clip@1': (0.5, -2.0)})),
    }
    if draw(st.booleans()):
        x, y, z = draw(places)
        turn = draw(st.sampled_from([None, (0.0, 0.0, 0.0, 1.0), (0.5, -0.5, 0.5, 0.5)]))
        cov = draw(st.none() | st.just(tuple(float(i == j) for i in range(6) for j in range(6))))
        fields['pose'] = Pose(
            frame_id=draw(st.sampled_from(['map', 'r/base'])), position=(x, y, z), orientation=turn,
            covariance=cov, stamp_ns=draw(st.none() | stamps),
        )  # fmt: skip
    if draw(st.booleans()):
        start = draw(stamps)
        fields['event_time'] = {
            'start_ns': start,
            'end_ns': draw(st.none() | st.integers(start, 2**31 * 10**9 - 1)),
        }
    extent = draw(places)
    fields['extent'] = extent if any(extent) else None
    return MemoryItem(**fields)


@given(items())
@settings(max_examples=scaled(300), deadline=None)
def test_an_item_survives_the_way_over_the_wire(item: MemoryItem) -> None:
    wire = deserialize_message(serialize_message(item_to_msg(item)), ItemMsg)

    assert item_from_msg(wire, 'items[0]') == item


@given(st.integers(0, 2**31 * 10**9 - 1))
def test_stamps_are_exact(ns: int) -> None:
    assert stamp_ns(stamp_msg(ns), 't') == (ns or None)


def message(**fields: Any) -> Any:
    pose, stamp = fields.pop('pose', None), fields.pop('stamp', None)
    frame = fields.pop('frame', '')
    msg = ItemMsg(kind='spatial', **fields)
    msg.header.frame_id = frame
    if pose is not None:
        msg.pose.position.x, msg.pose.position.y, msg.pose.position.z = pose
    if stamp is not None:
        msg.header.stamp.sec, msg.header.stamp.nanosec = stamp
    return msg


@pytest.mark.parametrize(
    ('msg', 'said'),
    [
        (message(pose=(1.0, 0.0, 0.0)), "items[0].header.frame_id: ''"),
        (message(has_orientation=True), "items[0].header.frame_id: ''"),
        (message(covariance=[0.0] * 36), "items[0].header.frame_id: ''"),
        (message(frame='map', covariance=[0.0] * 3), 'items[0].covariance: 3 numbers'),
        (message(frame='map', pose=(math.nan, 0.0, 0.0)), 'items[0].pose.position[0]: nan'),
        (message(frame='map', pose=(0.0, math.inf, 0.0)), 'items[0].pose.position[1]: inf'),
        (
            message(frame='map', pose=(0.0, 0.0, 2e9)),
            f'items[0].pose.position[2]: {COORDINATE_RULE}, got 2000000000.0',
        ),
        (
            message(frame='//map'),
            f"items[0].header.frame_id: {FRAME_RULE}, got '//map'",
        ),
        (
            message(frame=' map '),
            f"items[0].header.frame_id: {FRAME_RULE}, got ' map '",
        ),
        (
            message(frame='/'),
            f"items[0].header.frame_id: {FRAME_RULE}, got '/'",
        ),
        (message(frame='map', stamp=(-1, 0)), 'items[0].header.stamp: -1 s'),
        (message(frame='map', stamp=(1, 10**9)), 'items[0].header.stamp: 1 s 1000000000 ns'),
        (message(key=' '), "items[0].key: ' ' is blank"),
        (message(key='\t'), 'items[0].key'),
        (message(key='x' * 513), 'items[0].key'),
        (message(key='a\ufffdb'), 'items[0].key'),
        (message(content='a\ufffdb'), 'items[0].content'),
        (message(content='\ud800'), 'items[0].content'),
        (message(confidence=1.5), 'items[0].confidence: 1.5'),
        (message(confidence=math.nan), 'items[0].confidence: nan'),
        (message(payload_json='{"d": NaN}'), 'items[0].payload_json: $.d: expected a finite number, got nan'),
        (message(payload_json='{"a": {"d": 1e999}}'), '$.a.d'),
        (message(payload_json='[1]'), 'items[0].payload_json'),
        (message(payload_json='{"a": 1, "a": 2}'), '$.a: the key appears twice'),
        (message(payload_json='{'), 'items[0].payload_json'),
        (message(payload_json='{"a": "\\ud800"}'), '$.a: a lone surrogate'),
        (message(scope=['robot']), "items[0].scope[0]: expected name=value, got 'robot'"),
        (message(scope=['map_id=a'], map_id='b'), "items[0].scope: 'map_id' is both"),
        (message(links=['on']), 'items[0].links[0]'),
        (message(embedding_space='clip@1'), 'items[0].embedding: 0 numbers'),
        (message(embedding=[1.0]), 'items[0].embedding: 1 numbers'),
        (
            message(embedding_space='clip', embedding=[1.0]),
            "expected an embedding space as name@version, got 'clip'",
        ),
        (message(embedding_space='clip@1', embedding=[0.0]), 'embedding'),
        (message(extra_json='{"new": 1}'), "items[0].extra_json: unknown key 'new'"),
    ],
)
def test_a_bad_item_is_refused_by_field_value_and_rule(msg: Any, said: str) -> None:
    with pytest.raises(InvalidRequestError) as refusal:
        item_from_msg(msg, 'items[0]')

    assert said in str(refusal.value)


def test_all_problems_of_an_item_are_told_together() -> None:
    with pytest.raises(InvalidRequestError) as refusal:
        item_from_msg(message(frame='map', pose=(math.nan, 0.0, math.nan), confidence=2.0), 'items[3]')

    assert str(refusal.value).count('items[3].') == 3


def test_an_unset_kind_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match=r"items\[0\]\.kind: ''"):
        item_from_msg(ItemMsg(), 'items[0]')


def test_one_leading_slash_is_stripped_and_zeros_are_not_set() -> None:
    item = item_from_msg(message(frame='/map', pose=(1.0, 2.0, 0.0)), 'i')

    assert item.pose == Pose(frame_id='map', position=(1.0, 2.0, 0.0))
    assert (item.id, item.key, item.extent, item.event_time, item.valid_from_ns) == (None,) * 5


def test_a_zero_confidence_is_a_zero_and_unset_is_one() -> None:
    assert item_from_msg(message(confidence=0.0), 'i').confidence == 0.0
    assert item_from_msg(message(), 'i').confidence == 1.0


def test_a_zero_quaternion_is_no_orientation() -> None:
    msg = message(frame='map', has_orientation=True)
    msg.pose.orientation.w = 0.0

    assert item_from_msg(msg, 'i').pose.orientation is None


def test_the_stamp_of_an_item_without_a_pose_is_when_it_became_true() -> None:
    assert item_from_msg(message(stamp=(5, 1)), 'i').valid_from_ns == 5_000_000_001


def test_near_is_set_by_its_frame_and_the_radius_is_taken_as_given() -> None:
    msg = MemoryFilter()
    assert query_from_msg(msg).near is None

    msg.near.header.frame_id = 'base_link'
    assert query_from_msg(msg).near == (Pose(frame_id='base_link', position=(0.0, 0.0, 0.0)), 0.0)


@pytest.mark.parametrize('radius', [math.nan, math.inf, -0.1])
def test_a_bad_radius_is_refused(radius: float) -> None:
    msg = MemoryFilter(radius_m=radius)
    msg.near.header.frame_id = 'map'

    with pytest.raises(InvalidRequestError, match=r'filter\.radius_m'):
        query_from_msg(msg)


def test_a_centre_needs_its_frame() -> None:
    with pytest.raises(InvalidRequestError, match=r"filter\.near\.header\.frame_id: ''"):
        query_from_msg(MemoryFilter(radius_m=2.0))


def test_a_filter_is_taken_whole() -> None:
    msg = MemoryFilter(
        ids=['i'], kinds=['spatial'], keys=['k'], labels=['l'], entities=['e'], object_ids=['o'], text='t',
        relation='on:table:3', scope=['robot_id=r'], map_id='m', horizontal=True, include_invalidated=True,
        min_confidence=0.5, min_score=0.25, known_seq=7, include_stale=True,
    )  # fmt: skip
    msg.time_start.sec, msg.as_of.sec, msg.as_of.nanosec = 3, 4, 5

    query = query_from_msg(msg, k=0)

    assert (query.ids, query.keys, query.labels, query.text) == (('i',), ('k',), ('l',), 't')
    assert query.relation == ('on', 'table:3')
    assert query.scope == {'robot_id': 'r', 'map_id': 'm'}
    assert query.time_range_ns == (3 * 10**9, None)
    assert (query.as_of_ns, query.known_seq, query.k) == (4_000_000_005, 7, 0)
    assert (query.min_confidence, query.min_score, query.include_stale) == (0.5, 0.25, True)


def test_options_are_known_or_refused() -> None:
    with pytest.raises(InvalidRequestError, match="unknown key 'depht'"):
        query_from_msg(MemoryFilter(options_json='{"depht": 1}'))
    with pytest.raises(InvalidRequestError, match='options_json'):
        query_from_msg(MemoryFilter(options_json='[]'))
    assert set(OPTIONS) <= set(MemoryQuery.model_fields)
    query = query_from_msg(MemoryFilter(options_json='{"depth": 3, "weights": {"recency": 0.5, "near": 0}}'))
    assert (query.depth, query.weights) == (3, {'recency': 0.5, 'near': 0.0})
    query = query_from_msg(MemoryFilter(options_json='{"min_helpfulness": 0, "episode": "lap"}'))
    assert (query.min_helpfulness, query.episode) == (0.0, 'lap')


@pytest.mark.parametrize(
    ('options', 'said'),
    [
        ('{"depth": 0}', 'depth'),
        ('{"depth": 9}', 'depth'),
        ('{"depth": 1.5}', 'depth'),
        ('{"depth": true}', 'depth'),
        ('{"depth": null}', 'depth'),
        ('{"min_helpfulness": -0.1}', 'options_json.min_helpfulness'),
        ('{"min_helpfulness": 2}', 'min_helpfulness'),
        ('{"min_helpfulness": "much"}', 'min_helpfulness'),
        ('{"min_helpfulness": null}', 'min_helpfulness'),
        ('{"weights": {"colour": 1}}', 'colour'),
        ('{"weights": {"helpfulness": -1}}', 'weights.helpfulness'),
        ('{"weights": {"near": -1}}', 'weights.near'),
        ('{"weights": {"near": 1e9}}', 'weights.near'),
        ('{"weights": {"near": "much"}}', 'weights.near'),
        ('{"weights": [1]}', 'weights'),
        ('{"weights": {"near": NaN}}', 'options_json'),
    ],
)
def test_options_that_break_a_rule_are_refused_by_name(options: str, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        query_from_msg(MemoryFilter(options_json=options))


def test_no_options_ask_nothing() -> None:
    assert not selects_items(query_from_msg(MemoryFilter(options_json='{}')))


def hit(text: str) -> Hit:
    return Hit(MemoryItem(kind='semantic', content=text), 1.0)


def test_what_was_not_computed_is_nan() -> None:
    msg = hit_to_msg(hit('x'), ())

    assert all(
        map(math.isnan, (msg.distance_m, msg.existence, msg.p_within, msg.text_score, msg.vector_score))
    )
    assert msg.details_json == ''


def test_parts_are_sent_on_request_only() -> None:
    item = MemoryItem(kind='semantic', payload={'a': 1}, evidence=('e',), embeddings={'s@1': (1.0,)})

    bare = item_to_msg(item, ())
    assert (bare.payload_json, list(bare.evidence), bare.embedding_space) == ('', [], '')
    whole = item_to_msg(item, ('payload', 'evidence', 'embedding'))
    assert (whole.payload_json, list(whole.evidence), whole.embedding_space) == ('{"a": 1}', ['e'], 's@1')


@given(st.lists(contents, max_size=8))
@settings(max_examples=scaled(50), deadline=None)
def test_the_estimated_size_is_never_too_small(texts: list[str]) -> None:
    for text in texts:
        msg = hit_to_msg(hit(text * 50), ())
        assert bytes_of_hit(msg) >= len(serialize_message(msg))


def test_a_reply_is_cut_before_it_is_too_large_and_never_empty() -> None:
    assert fitting([3, 3, 3], lambda n: n, lambda n: n, 7) == ([3, 3], True)
    assert fitting([9, 3], lambda n: n, lambda n: n, 7) == ([9], True)
    assert fitting([], lambda n: n, lambda n: n, 7) == ([], False)


def test_a_cursor_brings_its_centre_along() -> None:
    centre = Pose(frame_id='map', position=(1.5, 2.0, 0.0), stamp_ns=5)

    assert cursor_read(cursor_of('abc', centre)) == ('abc', centre)
    assert cursor_read(cursor_of('abc', None)) == ('abc', None)
    assert cursor_read(cursor_of(None, centre)) == (None, None)


@pytest.mark.parametrize('text', ['at:', 'at:!!', 'at:AAAA', 'at:' + 'x' * 50])
def test_a_cursor_without_a_centre_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match='cursor'):
        cursor_read(text)
