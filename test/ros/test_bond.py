"""The bond holds from activate to deactivate where bondpy is, and is missed by nobody where it is not."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hylo_memory_ros.ros.node import Bond

pytestmark = pytest.mark.ros


class FakeBond:
    """Takes what bondpy's Bond takes, and remembers."""

    made: list['FakeBond'] = []

    def __init__(self, topic: str, id: str, node: Any) -> None:
        self.about = (topic, id, node)
        self.calls: list[str] = []
        self.made.append(self)

    def start(self) -> None:
        self.calls.append(f'start {self.heartbeat_period} {self.heartbeat_timeout}')

    def shutdown(self) -> None:
        self.calls.append('shutdown')


@pytest.fixture
def node() -> Any:
    return SimpleNamespace(get_name=lambda: 'hylo_memory')


@pytest.fixture
def bondpy(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType('bondpy.bondpy')
    module.Bond = FakeBond  # type: ignore[attr-defined]
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

    assert [fake.about for fake in FakeBond.made] == [('bond', 'hylo_memory', node)]
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
