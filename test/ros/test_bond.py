"""The bond holds from activate to deactivate where bondpy is, and is missed by nobody where it is not."""

import inspect
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from lifecycle_msgs.msg import State, Transition
from ros.harness import NodeProcess, Talker

from hylo_memory_ros.ros.node import Bond

pytestmark = pytest.mark.ros

# Creates what the real one creates, and destroys it as the real one does: without the node.
PACKAGE = """
from std_msgs.msg import Empty


class Bond:
    def __init__(self, node, topic, bond_id, on_broken=None, on_formed=None):
        self.node, self.topic = node, topic
        self.pub = node.create_publisher(Empty, topic, 1)

    def start(self):
        self.sub = self.node.create_subscription(Empty, self.topic, lambda message: None, 100)
        for _ in range(2):  # as at two heartbeat timeouts
            self.node.declare_parameter('bond_disable_heartbeat_timeout', False)

    def shutdown(self):
        self.sub.destroy()
        self.pub.destroy()
"""
REFUSING = """
class Bond:
    def __init__(self, node, topic, bond_id, on_broken=None, on_formed=None):
        raise RuntimeError('no bond today')
"""


class FakeBond:
    """Takes what bondpy's Bond takes, and remembers."""

    made: list['FakeBond'] = []

    def __init__(
        self, node: Any, topic: str, bond_id: str, on_broken: Any = None, on_formed: Any = None
    ) -> None:
        self.about = (topic, bond_id, node.get_name())
        self.calls: list[str] = []
        FakeBond.made.append(self)

    def start(self) -> None:
        self.calls.append(f'start {self.heartbeat_period} {self.heartbeat_timeout}')  # type: ignore[attr-defined]

    def shutdown(self) -> None:
        self.calls.append('shutdown')


class EarlierFakeBond(FakeBond):
    """The same with the parameters of an earlier port."""

    def __init__(self, topic: str, id: str, node: Any, on_broken: Any = None, on_formed: Any = None) -> None:
        super().__init__(node, topic, id)


@pytest.fixture
def node() -> Any:
    return SimpleNamespace(get_name=lambda: 'hylo_memory')


@pytest.fixture(params=[FakeBond, EarlierFakeBond])
def bondpy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType('bondpy.bondpy')
    module.Bond = request.param  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, 'bondpy', ModuleType('bondpy'))
    monkeypatch.setitem(sys.modules, 'bondpy.bondpy', module)
    FakeBond.made.clear()


@pytest.mark.usefixtures('bondpy')
def test_the_bond_is_what_nav2_expects(node: Any) -> None:
    bond = Bond(node, True)
    bond.start()
    bond.start()
    bond.stop()
    bond.stop()

    assert [fake.about for fake in FakeBond.made] == [('bond', 'hylo_memory', 'hylo_memory')]
    assert FakeBond.made[0].calls == ['start 0.1 4.0', 'shutdown']


@pytest.mark.usefixtures('bondpy')
def test_a_disabled_bond_is_not_formed(node: Any) -> None:
    Bond(node, False).start()

    assert FakeBond.made == []


def test_without_bondpy_nothing_happens(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, 'bondpy', None)
    bond = Bond(node, True)
    bond.start()
    bond.stop()


def test_the_stand_in_takes_what_bondpy_takes() -> None:
    real = pytest.importorskip('bondpy.bondpy', reason='bondpy is not installed: there are no wheels of it')
    assert list(inspect.signature(real.Bond).parameters) == list(inspect.signature(FakeBond).parameters)
    assert {'start', 'shutdown', 'heartbeat_period', 'heartbeat_timeout'} <= set(dir(real.Bond))


def with_bondpy(folder: Path, source: str) -> dict[str, str]:
    """Make a package bondpy; return the environment in which a process imports it."""
    (folder / 'bondpy').mkdir()
    (folder / 'bondpy' / '__init__.py').touch()
    (folder / 'bondpy' / 'bondpy.py').write_text(source)
    return {'PYTHONPATH': f'{folder}:{os.environ.get("PYTHONPATH", "")}'}


def test_the_node_answers_after_its_bond_was_broken(ros_domain: int, tmp_path: Path) -> None:
    environment = with_bondpy(tmp_path, PACKAGE)
    with (
        NodeProcess(tmp_path, ros_domain, environment=environment) as process,
        Talker(ros_domain) as talker,
    ):
        assert talker.change_state(Transition.TRANSITION_CONFIGURE)
        for _ in range(3):
            assert talker.change_state(Transition.TRANSITION_ACTIVATE), process.log
            assert talker.query().success
            assert talker.change_state(Transition.TRANSITION_DEACTIVATE)
        assert 'Traceback' not in process.log, process.log
        assert process.ended() == 0


def test_an_activation_without_its_bond_leaves_the_node_inactive(ros_domain: int, tmp_path: Path) -> None:
    environment = with_bondpy(tmp_path, REFUSING)
    with (
        NodeProcess(tmp_path, ros_domain, environment=environment) as process,
        Talker(ros_domain) as talker,
    ):
        assert talker.change_state(Transition.TRANSITION_CONFIGURE)
        assert not talker.change_state(Transition.TRANSITION_ACTIVATE)
        assert talker.state() == State.PRIMARY_STATE_INACTIVE
        assert 'no bond today' in process.log
        answer = talker.query()
        assert not answer.success
        assert 'not active' in answer.message
        assert process.ended() == 0
