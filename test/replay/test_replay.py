"""The same bag gives the same memory, whatever it is stored in; a bad one is refused by name."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rosbags', reason='rosbags is not installed')

from support import watched
from support.bags import MCAP, NS, PARAMETERS, SQLITE, START_NS, Sent, Types, a_drive, write_bag

from hylo_memory_ros.errors import (
    ConfigurationError,
    DamagedFileError,
    InvalidRequestError,
    NotFoundError,
    UnsupportedError,
)
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.parameters import ParameterFile
from hylo_memory_ros.replay import Bag, ReplayResult, TopicNames, replay
from hylo_memory_ros.service import MemoryService

Replay = Callable[..., ReplayResult]


@pytest.fixture(scope='module')
def types() -> Types:
    return Types()


@pytest.fixture(scope='module')
def drive(types: Types) -> list[Sent]:
    return list(a_drive(types))


@pytest.fixture(scope='module')
def bag(types: Types, drive: list[Sent], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bag(tmp_path_factory.mktemp('bags') / 'drive', drive, types)


@pytest.fixture(scope='module')
def whole(bag: Path) -> ReplayResult:
    return replayed(bag)


def replayed(
    *paths: Path,
    loops: int = 1,
    database: Path | None = None,
    names: TopicNames | None = None,
    **changed: Any,
) -> ReplayResult:
    given = ParameterFile()
    given.values.update({**PARAMETERS, **changed})
    url = None if database is None else f'sqlite:///{database}'
    with Bag(paths) as opened:
        return replay(opened, given.configuration(), loops=loops, database=url, names=names)


def test_every_type_of_input_becomes_landmarks(bag: Path, tmp_path: Path) -> None:
    result = replayed(bag, database=tmp_path / 'memory.db')

    assert result.complete
    assert {source.name: source.consumed for source in result.status.inputs} == {
        'boxes': 120, 'tags': 40, 'shapes': 26, 'dock': 24, 'chairs': 40,
    }  # fmt: skip
    assert result.skipped == {'/camera': 'sensor_msgs/msg/Imu'}
    with MemoryService.open(f'sqlite:///{tmp_path}/memory.db', clock=lambda: START_NS + 60 * NS) as memory:
        found = {hit.item.key: hit.item for hit in memory.query(MemoryQuery(k=100))}
    assert {'tag36h11:4', 'tag36h11:7', 'dock', 'crate/1', 'crate/2'} <= set(found)
    assert sum(key.startswith('chair/') for key in found) == 2
    assert sum(key.startswith(('cup/', 'plate/')) for key in found) == 8
    tag = found['tag36h11:4'].pose
    assert tag.position == pytest.approx((1.0, 5.0, 0.0), abs=0.05)
    assert tag.orientation == pytest.approx((0.0, 0.0, 0.247, 0.969), abs=0.02)
    assert found['crate/1'].pose.orientation is None


def test_what_markers_delete_ends_at_the_stamp_of_the_deletion(bag: Path, tmp_path: Path) -> None:
    replayed(bag, database=tmp_path / 'memory.db')
    with MemoryService.open(f'sqlite:///{tmp_path}/memory.db', clock=lambda: START_NS + 60 * NS) as memory:
        was, is_, will = (
            {
                hit.item.key
                for hit in memory.query(MemoryQuery(labels=['crate'], as_of_ns=START_NS + at, k=10))
            }
            for at in (5 * NS, 6_100_000_000, 11 * NS)
        )
    assert (was, is_, will) == ({'crate/1', 'crate/2'}, set(), {'crate/1', 'crate/2'})


@pytest.mark.parametrize(
    ('storage', 'options'),
    [
        (SQLITE, {}),
        (SQLITE, {'mode': 'MESSAGE'}),
        (SQLITE, {'mode': 'FILE'}),
        (MCAP, {'mode': 'STORAGE'}),
        (MCAP, {'mode': 'MESSAGE'}),
        (MCAP, {'mode': 'FILE'}),
    ],
)
def test_the_container_and_its_compression_do_not_matter(
    types: Types,
    drive: list[Sent],
    whole: ReplayResult,
    tmp_path: Path,
    storage: Any,
    options: dict[str, Any],
) -> None:
    from rosbags.rosbag2 import CompressionFormat, CompressionMode

    if options:
        options = {'mode': CompressionMode[options['mode']], 'fmt': CompressionFormat.ZSTD}
    other = write_bag(tmp_path / 'other', drive, types, storage, **options)

    assert replayed(other).snapshot == whole.snapshot


def test_a_single_file_is_a_bag_too(bag: Path, whole: ReplayResult) -> None:
    (file,) = bag.glob('*.mcap')

    assert replayed(file).snapshot == whole.snapshot


def test_loops_and_the_rate_of_commits_do_not_matter(bag: Path, whole: ReplayResult) -> None:
    thrice = replayed(bag, loops=3, commit_interval_s=0.05)

    assert thrice.snapshot == whole.snapshot
    assert thrice.complete
    assert {source.repeated for source in thrice.status.inputs} == {240, 80, 52, 48}
    assert thrice.recorded_s == 3 * whole.recorded_s


def test_a_second_replay_into_a_file_changes_nothing(bag: Path, whole: ReplayResult, tmp_path: Path) -> None:
    for _ in range(2):
        result = replayed(bag, database=tmp_path / 'memory.db')

        assert result.snapshot == whole.snapshot


def test_a_replay_that_was_interrupted_is_gone_on_with(
    bag: Path, whole: ReplayResult, tmp_path: Path
) -> None:
    given = ParameterFile()
    given.values.update(PARAMETERS)
    url = f'sqlite:///{tmp_path}/memory.db'

    def interrupted(done_ns: int) -> None:
        if done_ns > 6 * NS:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Bag([bag]) as opened:
        replay(opened, given.configuration(), database=url, on_progress=interrupted)

    assert replayed(bag, database=tmp_path / 'memory.db').snapshot == whole.snapshot


def test_a_bag_that_was_stopped_and_gone_on_with_is_the_same(
    types: Types, drive: list[Sent], whole: ReplayResult, tmp_path: Path
) -> None:
    half = len(drive) // 2
    parts = [
        write_bag(tmp_path / name, part, types)
        for name, part in (('first', drive[:half]), ('second', drive[half:]))
    ]
    assert replayed(*reversed(parts)).snapshot == whole.snapshot


def test_without_a_clock_in_the_bag_its_times_of_recording_serve(
    types: Types, drive: list[Sent], whole: ReplayResult, tmp_path: Path
) -> None:
    still = write_bag(tmp_path / 'still', [one for one in drive if one.topic != '/clock'], types)

    result = replayed(still, database=tmp_path / 'memory.db')

    assert result.snapshot == whole.snapshot
    with MemoryService.open(f'sqlite:///{tmp_path}/memory.db', clock=lambda: START_NS + 60 * NS) as memory:
        recorded = [change.recorded_at_ns for change in memory.changes().changes]
    assert all(START_NS <= at <= START_NS + 12 * NS for at in recorded)


@pytest.mark.parametrize('seed', range(4))
def test_topics_may_come_late_against_each_other(
    types: Types, drive: list[Sent], whole: ReplayResult, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    late_ns = {topic: rng.randrange(400_000_000) for topic in ('/tf', '/boxes', '/tags', '/shapes', '/dock')}
    arrived = [one._replace(stamp_ns=one.stamp_ns + late_ns.get(one.topic, 0)) for one in drive]
    jittered = write_bag(tmp_path / 'late', sorted(arrived, key=lambda one: one.stamp_ns), types)

    result = replayed(jittered)

    assert result.complete
    assert result.snapshot == whole.snapshot


def test_malformed_messages_are_counted_and_the_rest_goes_on(
    types: Types, drive: list[Sent], whole: ReplayResult, tmp_path: Path
) -> None:
    bad = [Sent(topic, START_NS + at, data[: len(data) // 2]) for topic, at, data in
           ((one.topic, n, one.data) for n, one in enumerate(drive[:40]))]  # fmt: skip
    mixed = sorted([*drive, *bad], key=lambda one: one.stamp_ns)
    result = replayed(write_bag(tmp_path / 'mixed', mixed, types))

    refused = {source.name: source.refused.get('malformed', 0) for source in result.status.inputs}
    count = {topic: sum(one.topic == topic for one in bad) for topic in ('/boxes', '/tags', '/tf', '/clock')}
    assert refused['boxes'] == count['/boxes'] > 0
    assert refused['tags'] == count['/tags'] > 0
    assert result.malformed['/tf'] == count['/tf'] > 0
    assert result.malformed['/clock'] == count['/clock'] > 0
    assert result.snapshot == whole.snapshot


def test_an_input_that_is_not_in_the_bag_is_named(bag: Path) -> None:
    result = replayed(
        bag, **{'input.dock.topic': 'harbour', 'input.chairs.type': 'vision_msgs/msg/Detection3DArray'}
    )

    assert result.missing['dock'] == 'input dock: nothing on /harbour'
    assert 'geometry_msgs/msg/PoseArray there, not vision_msgs' in result.missing['chairs']
    assert set(result.skipped) == {'/camera', '/dock', '/chairs'}


@pytest.mark.parametrize('witness', watched.TOPICS)
@pytest.mark.parametrize('loops', [1, 2])
def test_what_a_witness_looks_through_is_gone(types: Types, tmp_path: Path, witness: str, loops: int) -> None:
    topics = watched.TOPICS[witness]
    path = write_bag(tmp_path / 'bag', watched.a_watch(types, witness), types, SQLITE, topics=topics)
    database = tmp_path / 'memory.db'
    given = ParameterFile()
    given.values.update(watched.parameters(witness))
    with Bag([path]) as opened:
        result = replay(opened, given.configuration(), loops=loops, database=f'sqlite:///{database}')

    assert result.complete
    assert result.skipped == {}
    with MemoryService.open(f'sqlite:///{database}', clock=lambda: START_NS + 60 * NS) as memory:
        hits = memory.query(MemoryQuery(labels=['cup'], include_invalidated=True))
    assert [hit.status for hit in hits] == ['ended']


def test_topics_can_be_remapped_and_namespaced(
    types: Types, drive: list[Sent], whole: ReplayResult, bag: Path
) -> None:
    names = TopicNames(
        '/robot/hylo_memory',
        [f'{name}:=/{name}' for name in ('tf', 'tf_static', 'boxes', 'tags', 'shapes', 'dock')],
    )
    result = replayed(bag, names=TopicNames('/hylo_memory', ['boxes:=/none', 'boxes:=/boxes']))
    assert result.snapshot == whole.snapshot

    assert replayed(bag, names=names).missing == {'chairs': 'input chairs: nothing on /robot/chairs'}


def cut(bag: Path, tmp_path: Path, pattern: str, share: float) -> Path:
    copy = tmp_path / 'cut'
    shutil.copytree(bag, copy)
    (file,) = copy.glob(pattern)
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)])
    return copy


@pytest.mark.parametrize('share', [0.0, 0.01, 0.5, 0.97])
def test_a_truncated_mcap_is_refused_by_name(bag: Path, tmp_path: Path, share: float) -> None:
    broken = cut(bag, tmp_path, '*.mcap', share)
    with pytest.raises(DamagedFileError, match=str(broken)):
        replayed(broken)


@pytest.mark.parametrize('share', [0.0, 0.01, 0.5, 0.9])
def test_a_truncated_sqlite_bag_is_refused_by_name(
    types: Types, drive: list[Sent], tmp_path: Path, share: float
) -> None:
    broken = cut(write_bag(tmp_path / 'whole', drive, types, SQLITE), tmp_path, '*.db3', share)
    with pytest.raises(DamagedFileError, match=str(broken)):
        replayed(broken)


def test_what_is_no_bag_is_refused_by_name(types: Types, tmp_path: Path) -> None:
    def refused(path: Path, error: type[Exception], match: str) -> None:
        with pytest.raises(error, match=match):
            replayed(path)

    refused(tmp_path / 'none', NotFoundError, 'none: there is no such bag')
    (tmp_path / 'empty').mkdir()
    refused(tmp_path / 'empty', DamagedFileError, r'no metadata\.yaml')
    (tmp_path / 'old.bag').write_bytes(b'#ROSBAG V2.0\n')
    refused(tmp_path / 'old.bag', UnsupportedError, 'rosbags-convert')
    (tmp_path / 'notes.txt').write_text('hello')
    refused(tmp_path / 'notes.txt', DamagedFileError, r'notes\.txt')
    (tmp_path / 'noise.mcap').write_bytes(b'noise' * 100)
    refused(tmp_path / 'noise.mcap', DamagedFileError, r'noise\.mcap')
    (tmp_path / 'noise.db3').write_bytes(b'noise' * 100)
    refused(tmp_path / 'noise.db3', DamagedFileError, r'noise\.db3')
    refused(write_bag(tmp_path / 'silent', [], types), DamagedFileError, 'holds no message')
    for text in ('', 'a: [', 'rosbag2_bagfile_information: {version: 99}'):
        (tmp_path / 'empty' / 'metadata.yaml').write_text(text)
        refused(tmp_path / 'empty', DamagedFileError, 'empty')


def test_a_bag_without_transforms_is_refused_when_they_are_needed(
    types: Types, drive: list[Sent], tmp_path: Path
) -> None:
    from rosbags.rosbag2 import Writer

    def without_tf(name: str, message: Any) -> Path:
        with Writer(tmp_path / name, version=9) as writer:
            connection = writer.add_connection(
                '/boxes', 'vision_msgs/msg/Detection3DArray', typestore=types.store
            )
            writer.write(connection, START_NS, types.cdr(message))
        return tmp_path / name

    with pytest.raises(InvalidRequestError, match=r"'camera', and the bag has no /tf"):
        replayed(without_tf('camera', types.boxes(START_NS, 'camera', types.box('cup', 1, 2))))
    result = replayed(without_tf('map', types.boxes(START_NS, 'map', types.box('cup', 1, 2))))
    assert result.status.landmarks == 1


def test_parameters_that_say_nothing_about_the_bag_are_refused(bag: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"input\.boxes\.\*: inputs does not list 'boxes'"):
        replayed(bag, inputs=[])
    with pytest.raises(ConfigurationError, match='the parameters declare none'), Bag([bag]) as opened:
        replay(opened, ParameterFile().configuration())
    given = ParameterFile()
    given.values.update({name: value for name, value in PARAMETERS.items() if 'input.boxes.' in name})
    given.values.update({'inputs': ['boxes'], 'input.boxes.topic': '/nowhere'})
    with pytest.raises(ConfigurationError, match='nothing on /nowhere'), Bag([bag]) as opened:
        replay(opened, given.configuration())
    with pytest.raises(ConfigurationError, match=r"input\.boxes\.type: expected .*, got 'nav_msgs/msg/Path'"):
        replayed(bag, **{'input.boxes.type': 'nav_msgs/msg/Path'})


def test_progress_never_goes_back(bag: Path) -> None:
    given = ParameterFile()
    given.values.update(PARAMETERS)
    progress: list[int] = []
    with Bag([bag]) as opened:
        replay(opened, given.configuration(), loops=2, on_progress=progress.append)
        start_ns, end_ns = opened.span_ns
    assert progress == sorted(progress)
    assert progress[0] >= 0
    assert progress[-1] <= 2 * (end_ns - start_ns)


@pytest.mark.parametrize('remap', ['a', ':=b', 'a:='])
def test_a_remapping_is_refused_by_rule(remap: str) -> None:
    with pytest.raises(ConfigurationError, match='remap'):
        TopicNames('/n', [remap])


def test_a_node_without_a_full_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match='full name'):
        TopicNames('n')
