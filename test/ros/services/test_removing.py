"""Forget, retract and purge through a real node, and what the history tells."""

import json
from typing import Any

import pytest
from ros.harness import Talker, near, spatial
from ros.services.pieces import keys

from hylo_memory_ros.msg import MemoryFilter
from hylo_memory_ros.srv import Forget, History, Purge, Retract

pytestmark = pytest.mark.ros


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


def test_the_history_of_an_id_is_that_of_the_thing_and_marks_it(talker: Talker, key: str) -> None:
    ids = [talker.write(spatial(key, x)).ids[0] for x in (1.0, 2.0)]

    versions = talker.call(History, 'history', id=ids[0]).versions

    assert {version.hit.item.id for version in versions} == set(ids)
    asked = [json.loads(version.hit.details_json or '{}').get('is_asked', False) for version in versions]
    assert asked == [version.hit.item.id == ids[0] for version in versions]


def test_history_needs_an_identity(talker: Talker) -> None:
    assert not talker.call(History, 'history').success
    assert not talker.call(History, 'history', id='a', key='b').success
    assert 'cursor' in talker.call(History, 'history', id='a', cursor='nonsense').message
