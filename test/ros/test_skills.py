"""The node re-reads its skill files at configure, says what it set aside, and shares them with no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from ros.harness import NodeProcess, Talker

from hylo_memory_ros.msg import MemoryFilter, MemoryItem

pytestmark = pytest.mark.ros

PAYLOAD = {'code': 'dock()', 'api_surface': 'hylo.tools@v1', 'status': 'proposed'}


def test_skill_files_are_read_again_at_configure(tmp_path: Path, ros_domain: int) -> None:
    directory = tmp_path / 'skills'
    parameters = {'skill_directory': str(directory)}
    with NodeProcess(tmp_path, ros_domain, parameters) as node, Talker(ros_domain) as talker:
        talker.activate()
        written = talker.write(MemoryItem(kind='skill', key='dock', payload_json=json.dumps(PAYLOAD)))
        assert written.success, written.message
        (file,) = directory.glob('dock-*.json')
        data = file.read_bytes()

        other = tmp_path / 'other'
        other.mkdir()
        arguments = ('-r', '__node:=other')
        with NodeProcess(other, ros_domain, parameters, name='other', arguments=arguments) as second:
            assert not talker.change_state(Transition.TRANSITION_CONFIGURE, node='/other')
            second.wait_for_log(f'is in use by pid {node.process.pid}')

        assert talker.change_state(Transition.TRANSITION_DEACTIVATE)
        assert talker.change_state(Transition.TRANSITION_CLEANUP)
        file.write_bytes(data.replace(b'dock()', b'evil()'))
        (directory / 'notes.txt').write_text('mine')
        told: list[DiagnosticArray] = []
        talker.node.create_subscription(DiagnosticArray, '/diagnostics', told.append, 10)
        talker.activate()

        asked = MemoryFilter(keys=['dock'], options_json='{"skill_status": ["proposed"]}')
        (hit,) = talker.query(filter=asked, include=['payload']).hits
        assert json.loads(hit.item.payload_json)['code'] == 'dock()'
        assert file.read_bytes() == data
        status = talker.spin_until(
            lambda: next((one for array in told for one in array.status if 'set aside' in one.message), None)
        )
        assert '2 skill files were set aside, such as dock-' in status.message
        assert {value.key: value.value for value in status.values}['skill directory'] == str(directory)
        assert 'is set aside as dock-' in node.log
        assert (directory / 'notes.txt.set-aside').read_text() == 'mine'
