"""The action: verify and restore, refusals by name, one answer for each goal."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from ros.harness import NODE, Talker, spatial

from hylo_memory_ros.action import Maintain
from hylo_memory_ros.msg import ErrorCode, MemoryFilter
from hylo_memory_ros.srv import Changes, Snapshot

pytestmark = [pytest.mark.ros, pytest.mark.timeout(60)]


@pytest.fixture(scope='module')
def maintain(shared: SimpleNamespace) -> Any:
    talker: Talker = shared.talker
    client = ActionClient(talker.node, Maintain, f'{NODE}/maintain')
    talker.spin_until(client.server_is_ready)
    told: list[str] = []

    def perform(**fields: Any) -> tuple[int, Any]:
        sent = client.send_goal_async(
            Maintain.Goal(**fields), feedback_callback=lambda message: told.append(message.feedback.stage)
        )
        talker.spin_until(sent.done)
        assert sent.result().accepted
        ended = sent.result().get_result_async()
        talker.spin_until(ended.done, 20.0)
        return ended.result().status, ended.result().result

    perform.told = told
    yield perform
    client.destroy()


def test_verify_proves_the_memory(shared: SimpleNamespace, maintain: Any) -> None:
    shared.talker.write(spatial('a'), spatial('b', 1.0))

    status, result = maintain(op='verify')

    assert (status, result.success, result.error_code) == (GoalStatus.STATUS_SUCCEEDED, True, 0)
    report = json.loads(result.report_json)
    assert report['ok'] is True
    assert report['identities'] >= 2
    assert result.digest == shared.talker.call(Snapshot, 'snapshot').digest
    shared.talker.spin_until(lambda: 'done' in maintain.told)


def test_restore_puts_a_copy_in_place_and_begins_a_new_epoch(shared: SimpleNamespace, maintain: Any) -> None:
    talker: Talker = shared.talker
    talker.write(spatial('kept', 5.0))
    copy = str(shared.folder / 'copy.db')
    before = talker.call(Snapshot, 'snapshot', copy_path=copy)
    epoch = talker.call(Changes, 'changes').epoch
    talker.write(spatial('lost', 6.0))

    status, result = maintain(op='restore', path=copy)

    assert (status, result.success) == (GoalStatus.STATUS_SUCCEEDED, True), result.message
    assert result.digest == before.digest
    talker.wait_active()
    assert talker.query(filter=MemoryFilter(keys=['kept'])).total == 1
    assert talker.query(filter=MemoryFilter(keys=['lost'])).total == 0
    assert talker.call(Changes, 'changes', epoch=epoch).error_code == ErrorCode.EPOCH_CHANGED
    assert talker.write(spatial('after')).success


@pytest.mark.parametrize(
    ('fields', 'code', 'said'),
    [
        ({'op': 'consolidate'}, ErrorCode.UNSUPPORTED, "op: 'consolidate'"),
        ({'op': ''}, ErrorCode.UNSUPPORTED, "op: ''"),
        ({'op': 'verify', 'budget_items': 5}, ErrorCode.UNSUPPORTED, 'budget_items: 5'),
        ({'op': 'verify', 'path': 'x'}, ErrorCode.INVALID_FIELD, "path: 'x'"),
        ({'op': 'restore'}, ErrorCode.INVALID_FIELD, "path: ''"),
        ({'op': 'restore', 'path': 'x', 'dry_run': True}, ErrorCode.UNSUPPORTED, 'dry_run'),
        ({'op': 'restore', 'path': '/nowhere/copy.db'}, None, '/nowhere/copy.db'),
    ],
)
def test_a_goal_that_cannot_be_reached_says_why(
    shared: SimpleNamespace, maintain: Any, fields: dict[str, Any], code: int | None, said: str
) -> None:
    digest = shared.talker.call(Snapshot, 'snapshot').digest

    status, result = maintain(**fields)

    assert (status, result.success) == (GoalStatus.STATUS_ABORTED, False)
    assert said in result.message
    assert result.error_code == code or (code is None and 100 <= result.error_code < 400)
    assert shared.talker.call(Snapshot, 'snapshot').digest == digest
