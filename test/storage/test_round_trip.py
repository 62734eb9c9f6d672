"""Everything that is stored comes back bit by bit, and said again it is nothing new."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from support.clock import ManualClock
from support.effort import scaled

from hylo_memory_ros.model import MAX_STAMP_NS, MemoryItem, MemoryQuery, Pose, TimeSpan
from hylo_memory_ros.service import MemoryService

letters = st.characters(exclude_categories=['Cs'])
text = st.text(letters, max_size=20)
names = st.text(st.characters(exclude_categories=['Cs', 'Cc']), min_size=1, max_size=20).filter(str.strip)
stamps = st.integers(0, MAX_STAMP_NS) | st.just(1553575413247045598)
metres = st.floats(-1e9, 1e9) | st.sampled_from([-0.0, 5e-324, 0.1 + 0.2, 3948996.1])
vectors3 = st.tuples(metres, metres, metres)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers()
numbers |= st.sampled_from([2**63, 10**4300 - 1])
json_keys = st.text('abc\u00e9\u0000"', max_size=3)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(json_keys, part, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text('abcd\u00e9 ', max_size=3), json_values, max_size=3)


@st.composite
def unit_quaternions(draw: st.DrawFn) -> tuple[float, ...]:
    parts = draw(st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda q: math.hypot(*q) > 0.1))
    return tuple(part / math.hypot(*parts) for part in parts)


@st.composite
def covariances(draw: st.DrawFn) -> list[float]:
    half = draw(st.lists(st.floats(-1e3, 1e3), min_size=36, max_size=36))
    return [
        half[6 * min(i, j) + max(i, j)] if i != j else abs(half[7 * i]) + 1e-9
        for i in range(6)
        for j in range(6)
    ]


poses = st.builds(
    Pose,
    frame_id=names.filter(lambda name: not any(map(str.isspace, name)) and name.strip('/') == name),
    position=vectors3,
    orientation=st.none() | unit_quaternions() | st.just((0.0, 0.0, 0.0, 0.0)),
    covariance=st.none() | covariances(),
    stamp_ns=st.none() | stamps,
)
times = st.tuples(stamps, st.none() | stamps, st.sampled_from(['wall', 'sim'])).map(
    lambda t: TimeSpan(start_ns=t[0], end_ns=t[1] if t[1] is None or t[1] >= t[0] else t[0], clock=t[2])
)
vectors = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=4).filter(
    lambda v: math.hypot(*v) > 1e-6
)
items = st.builds(
    MemoryItem,
    kind=st.sampled_from(['spatial', 'semantic', 'episodic']),
    content=text,
    key=st.none() | names,
    label=st.just('') | names,
    payload=json_objects,
    entities=st.lists(names, max_size=3),
    object_ids=st.lists(names, max_size=3),
    links=st.lists(st.tuples(names, names), max_size=2),
    scope=st.dictionaries(names | st.sampled_from(['map_id', 'robot_id']), names, max_size=2),
    pose=st.none() | poses,
    extent=st.none() | vectors3,
    event_time=st.none() | times,
    valid_from_ns=st.none() | stamps,
    confidence=st.floats(0, 1),
    source=text,
    evidence=st.lists(text, max_size=2),
    provenance=json_objects,
    embeddings=st.dictionaries(st.sampled_from(['clip@1', 'd\u00edn@2']), vectors, max_size=2),
    id=st.none() | names,
)


def exact(value: Any) -> Any:
    """Return a value so that a changed bit, sign of zero or type shows, but no order of keys."""
    if isinstance(value, BaseModel):
        return {name: exact(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {key: exact(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(exact, value)]
    return repr(value)


def as_stored(item: MemoryItem, **known: Any) -> MemoryItem:
    return item.model_copy(update=known)


@settings(max_examples=scaled(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(items)
def test_every_field_comes_back_bit_by_bit(item: MemoryItem) -> None:
    with MemoryService.open(clock=ManualClock(1_900_000_000.0)) as memory:
        check_round_trip(memory, item)
        with MemoryService.open(clock=ManualClock(2_000_000_000.0)) as other:
            other.write([memory.query(MemoryQuery(include_invalidated=True, k=1))[0].item])
            assert other.snapshot() == memory.snapshot()


def check_round_trip(memory: MemoryService, item: MemoryItem) -> None:
    (id_,) = memory.write([item]).ids
    (hit,) = memory.query(MemoryQuery(ids=[id_], include_invalidated=True))
    stored = hit.item
    known = {name: getattr(stored, name) for name in ('id', 'valid_from_ns', 'valid_from_assumed')}
    assert exact(stored) == exact(as_stored(item, **known))
    assert stored.id == (item.id or stored.id)
    if item.valid_from_ns is not None:
        assert (stored.valid_from_ns, stored.valid_from_assumed) == (item.valid_from_ns, False)
    assert MemoryItem.model_validate(stored.model_dump()) == stored
    (version,) = memory.history(id_).versions
    assert exact(version.item) == exact(stored)
    if item.pose is not None:
        scope = {'map_id': item.scope['map_id']} if 'map_id' in item.scope else None
        near = MemoryQuery(near=(item.pose, 0.0), scope=scope, include_invalidated=True)
        assert exact(memory.query(near)[0].item) == exact(stored)
    for again in (item, stored, stored.model_copy(update={'valid_from_assumed': False})):
        (event,) = memory.write([again]).events
        assert (event.event, event.id) == ('SKIP_DUP', id_)
    assert memory.verify().ok


def test_a_long_integer_does_not_need_a_raised_limit() -> None:
    assert sys.get_int_max_str_digits() == 4300
