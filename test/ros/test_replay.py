"""The node that is fed by a bag, at any rate, paused or looped, has the memory that a replay makes of it."""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip('rosbags', reason='rosbags is not installed')

from rclpy.qos import DurabilityPolicy, QoSProfile
from ros.harness import NODE, NodeProcess, Talker, near
from ros.test_topics import LATCHED, heard
from support import watched
from support.bags import PARAMETERS, START_NS, TOPICS, Sent, Types, a_drive, write_bag

from hylo_memory_ros.msg import MemoryFilter, MemoryStatus
from hylo_memory_ros.parameters import ParameterFile
from hylo_memory_ros.replay import Bag, replay
from hylo_memory_ros.srv import Flush, Query, Snapshot

pytestmark = pytest.mark.ros


def of_a_node(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a node that says at once what it has taken, and loses nothing."""
    return {
        **parameters,
        'autostart': True,
        'status_interval_s': 0.05,
        # Played faster than it was recorded, transforms may come seconds of stamps behind the clock.
        'tf_max_age_s': 0.0,
        **{f'input.{name}.depth': 500 for name in parameters['inputs']},
    }


class Player:
    """Publishes the messages of a bag, and waits for the node by what it tells of itself."""

    def __init__(
        self,
        talker: Talker,
        sent: Sequence[Sent],
        inputs: Sequence[str] = PARAMETERS['inputs'],
        topics: Mapping[str, str] = TOPICS,
    ) -> None:
        self._talker, self._sent, self._inputs, self._topics = talker, sent, inputs, topics
        self._statuses = heard(talker, MemoryStatus, f'{NODE}/status', LATCHED)
        self._publishers = {topic: self._publisher(topic) for topic in topics if topic != '/camera'}

    def _publisher(self, topic: str) -> Any:
        package, _, name = self._topics[topic].split('/')
        kind = getattr(importlib.import_module(f'{package}.msg'), name)
        latched = DurabilityPolicy.TRANSIENT_LOCAL if topic == '/tf_static' else DurabilityPolicy.VOLATILE
        return self._talker.node.create_publisher(kind, topic, QoSProfile(depth=1000, durability=latched))

    def _first(self, topic: str) -> bytes:
        return next(one.data for one in self._sent if one.topic == topic)

    def wait_until_heard(self) -> None:
        """Publish what does no harm on each topic until the node has it."""
        self._publishers['/tf_static'].publish(self._first('/tf_static'))

        def heard() -> bool:
            for topic in ('/clock', '/tf'):
                self._publishers[topic].publish(self._first(topic))
            for name in self._inputs:
                self._publishers[f'/{name}'].publish(b'\0\1\0\0garbage')
            status = self._statuses and self._statuses[-1]
            return bool(status and min(status.refused) > 0 and self.knows_base())

        self._talker.spin_until(heard, 'node that hears every topic')

    def knows_base(self) -> bool:
        return bool(self._talker.call(Query, 'query', filter=near('base_link', 1.0), k=0).success)

    def play(self, stamps_at_once: int) -> None:
        """Publish a number of stamps at a time, and wait until the node has taken them."""
        stamps = sorted({one.stamp_ns for one in self._sent})
        for start in range(0, len(stamps), stamps_at_once):
            wanted = set(stamps[start : start + stamps_at_once])
            for one in self._sent:
                if one.stamp_ns in wanted and one.topic in self._publishers:
                    self._publishers[one.topic].publish(one.data)
            last = max(
                (one.stamp_ns for one in self._sent if one.topic == '/boxes' and one.stamp_ns in wanted),
                default=0,
            )
            self._talker.spin_until(lambda last=last: self._taken(last), f'boxes up to {last}')

    def _taken(self, stamp_ns: int) -> bool:
        status = self._statuses[-1]
        return status.watermark_ns[0] >= stamp_ns - 500_000_000 and max(status.pending) <= 40

    def rewind(self) -> None:
        """Set the clock back, and wait until the node has noticed: the old transforms are gone."""

        def noticed() -> bool:
            self._publishers['/clock'].publish(self._first('/clock'))
            return not self.knows_base()

        self._talker.spin_until(noticed, 'node that noticed the jump')

    def snapshot(self) -> Any:
        until_ns = self._sent[-1].stamp_ns
        flush = Flush.Request()
        flush.until.sec, flush.until.nanosec = divmod(until_ns, 10**9)

        def flushed() -> bool:
            response = self._talker.call(Flush, 'flush', flush)
            return bool(response.success and response.pending == 0)

        self._talker.spin_until(flushed, 'flush that leaves nothing')
        return self._talker.call(Snapshot, 'snapshot')


@pytest.fixture(scope='module')
def recorded(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    types = Types()
    sent = list(a_drive(types, seconds=9.0))
    path = write_bag(tmp_path_factory.mktemp('bags') / 'drive', sent, types)
    given = ParameterFile()
    given.values.update(PARAMETERS)
    with Bag([path]) as bag:
        result = replay(bag, given.configuration())
    assert result.complete
    return SimpleNamespace(sent=sent, snapshot=result.snapshot)


@pytest.fixture
def player(ros_domain: int, tmp_path: Path, recorded: SimpleNamespace) -> Iterator[Player]:
    with NodeProcess(tmp_path, ros_domain, of_a_node(PARAMETERS)) as process, Talker(ros_domain) as talker:
        talker.wait_active()
        made = Player(talker, recorded.sent)
        made.wait_until_heard()
        yield made
        assert process.ended() == 0


def test_as_fast_as_it_goes(player: Player, recorded: SimpleNamespace) -> None:
    player.play(40)

    answer = player.snapshot()

    assert (answer.digest, answer.complete) == (recorded.snapshot, True)


def test_looped_and_at_another_rate(player: Player, recorded: SimpleNamespace) -> None:
    player.play(7)
    player.rewind()
    player.play(25)

    answer = player.snapshot()

    assert (answer.digest, answer.complete) == (recorded.snapshot, True)


@pytest.mark.parametrize('witness', watched.TOPICS)
def test_what_is_looked_through_is_gone_in_both(witness: str, ros_domain: int, tmp_path: Path) -> None:
    types, topics, parameters = Types(), watched.TOPICS[witness], watched.parameters(witness)
    sent = list(watched.a_watch(types, witness))
    given = ParameterFile()
    given.values.update(parameters)
    with Bag([write_bag(tmp_path / 'bag', sent, types, topics=topics)]) as bag:
        replayed = replay(bag, given.configuration())
    with (
        NodeProcess(tmp_path, ros_domain, of_a_node(parameters)) as process,
        Talker(ros_domain) as talker,
    ):
        talker.wait_active()
        player = Player(talker, sent, parameters['inputs'], topics)
        player.wait_until_heard()
        player.play(20)
        answer = player.snapshot()
        gone = talker.query(filter=MemoryFilter(labels=['cup'], include_invalidated=True))
        assert process.ended() == 0
    assert (answer.digest, answer.complete) == (replayed.snapshot, True)
    assert [hit.status for hit in gone.hits] == ['ended']


def test_paused_half_way(player: Player, recorded: SimpleNamespace) -> None:
    middle = len(recorded.sent) // 2
    whole, player._sent = player._sent, recorded.sent[:middle]
    player.play(20)
    player._talker.spin_for(1.5)  # the commits and ticks of a pause; nothing is waited for
    player._sent = whole
    player.play(20)

    answer = player.snapshot()

    assert (answer.digest, answer.complete) == (recorded.snapshot, True)


def test_the_parameters_of_the_test_are_those_of_a_node() -> None:
    assert START_NS > 0
    given = ParameterFile()
    given.values.update(of_a_node(PARAMETERS))
    # An unknown one is refused.
    assert given.configuration().tf_max_age_s == 0.0
