"""What a real node offers and tells of its whole memory: changes, snapshots, flushes and maps."""

import json
import math
from types import SimpleNamespace

import pytest
from ros.harness import Talker, near, spatial

from hylo_memory_ros.msg import ErrorCode
from hylo_memory_ros.ros.services import SERVICES
from hylo_memory_ros.srv import Changes, Flush, SetMap, Snapshot

pytestmark = pytest.mark.ros


def test_exactly_the_services_whose_operation_exists_are_offered(shared: SimpleNamespace) -> None:
    names = {
        name
        for name, _ in shared.talker.node.get_service_names_and_types()
        if name.startswith('/hylo_memory/')
    }
    own = {name.rpartition('/')[2] for name in names if name.count('/') == 2}

    assert set(SERVICES) <= own


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


@pytest.mark.parametrize('name', ['/tmp/elsewhere.db', '../out.db', 'sub/../../out.db', '..', '.'])
def test_a_copy_stays_in_its_directory(talker: Talker, shared: SimpleNamespace, name: str) -> None:
    answer = talker.call(Snapshot, 'snapshot', copy_path=name)
    assert not answer.success
    assert answer.message.startswith(f'copy_path: {name!r} ')
    assert not (shared.folder.parent / 'out.db').exists()


def test_a_copy_is_named_in_its_directory(talker: Talker, shared: SimpleNamespace, key: str) -> None:
    (shared.folder / 'away').symlink_to('/tmp')
    assert talker.call(Snapshot, 'snapshot', copy_path=f'{key}-2.db').success
    assert (shared.folder / f'{key}-2.db').stat().st_size > 0
    assert 'leaves the directory' in talker.call(Snapshot, 'snapshot', copy_path='away/x.db').message


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
