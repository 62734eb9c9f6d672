"""After a purge nothing of a person can be read in any file of a memory, and all others are as they were."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import LargeBinary, Text
from support.child import TIMEOUT_S, script
from support.footprint import Footprint, unfilled
from support.lived import BACKENDS, WAYS, Person, living, neighbours, open_lived, purge_person

from hylo_memory_ros.index.vectors.artifact import Artifact, Artifacts
from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.schema import metadata
from hylo_memory_ros.storage.schema.base import erasure_of

# Working memory is in no file; an answer that it was in is named in its receipt.
UNWRITTEN = {'working content', 'working payload', 'working vector'}
# What no text that somebody gives comes into.
UNFILLED = {
    'landmark.orientation',
    'landmark.reported',
    'landmark.rivals',
}
OTHERS = [
    MemoryQuery(text='kitchen', k=100),
    MemoryQuery(text='door', k=100, include_invalidated=True),
    MemoryQuery(labels=['thing'], k=100),
    MemoryQuery(labels=['cup']),
    MemoryQuery(key='thing/7'),
    MemoryQuery(near=(Pose(frame_id='map', position=(5.0, 2.0, 0.0)), 3.0), k=100),
    MemoryQuery(embedding=('face@1', (1.0,) * 16), k=200),
]


@pytest.fixture(scope='module')
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Person]:
    """Return the folder of a closed memory, and who is named in it."""
    folder, person = tmp_path_factory.mktemp('lived'), Person()
    with open_lived(folder / 'memory.db', 'turbo_quant') as memory:
        living(memory, person)
    return folder, person


@pytest.fixture
def folder(lived: tuple[Path, Person], tmp_path: Path) -> Path:
    """Return a copy of it."""
    return Path(shutil.copytree(lived[0], tmp_path / 'memory'))


@pytest.fixture
def person(lived: tuple[Path, Person]) -> Person:
    return lived[1]


@pytest.fixture
def memory(folder: Path) -> Iterator[MemoryService]:
    with open_lived(folder / 'memory.db', 'turbo_quant') as opened:
        opened._core.indexes.vectors.wait_idle()
        yield opened


def told(memory: MemoryService, person: Person) -> list[list[tuple[str, str]]]:
    """Return what is answered of all others."""
    return [
        [
            (hit.item.id, hit.item.content)
            for hit in memory.query(query)
            if hit.item.label in {'', 'thing', 'cup'} and person.name not in hit.item.entities
        ]
        for query in OTHERS
    ]


def test_every_table_says_how_a_purge_leaves_it() -> None:
    """A table with words or bytes has an erasure rule, or the reason why it needs none."""
    silent = [
        table.name
        for table in metadata.tables.values()
        if any(isinstance(column.type, Text | LargeBinary) for column in table.c) and not erasure_of(table)
    ]
    assert silent == []


def test_the_life_fills_every_column_that_could_tell(folder: Path) -> None:
    """Who adds a column of words or bytes adds to `support.lived` what fills it, and so tests its purge."""
    empty = {name for name in unfilled(folder / 'memory.db') if '_text_' not in name}
    assert empty <= UNFILLED, sorted(empty - UNFILLED)


@pytest.mark.parametrize('way', WAYS)
def test_nothing_can_be_read_afterwards(
    folder: Path, memory: MemoryService, person: Person, way: str
) -> None:
    assert set(person.marks.found(folder)) == person.marks.markers - UNWRITTEN
    others = told(memory, person)
    assert purge_person(memory, person, way) == []
    assert person.marks.found(folder) == {}
    assert memory.verify().ok
    assert told(memory, person) == others
    memory.close()
    assert person.marks.found(folder) == {}


def test_a_trial_changes_no_byte(folder: Path, memory: MemoryService, person: Person) -> None:
    def files() -> dict[str, bytes]:
        return {
            path.name: path.read_bytes()
            for path in folder.glob('*')
            if path.is_file() and path.suffix != '.lock'
        }

    before, sequence = files(), memory.sequence
    query = WAYS['entity'](person)
    trial = memory.purge(query, dry_run=True)
    assert (files(), memory.sequence) == (before, sequence)
    done = memory.purge(query)
    assert (trial, sorted(trial.ids)) == (done, sorted(done.ids))
    assert done > 30


def test_a_kill_after_the_acknowledgement_brings_nothing_back(folder: Path, person: Person) -> None:
    code = f"""
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from support.lived import open_lived
        with open_lived(path, 'turbo_quant') as memory:
            memory.purge(MemoryQuery(entities=[{person.name!r}], any_map=True))
            memory.purge(MemoryQuery(labels={[person.word('landmark label'), person.word('second label')]!r}))
            tell('purged')
            os.kill(os.getpid(), signal.SIGKILL)
    """
    command = [*script(code), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, '"purged"\n'), done.stderr
    assert person.marks.found(folder) == {}
    with open_lived(folder / 'memory.db', 'turbo_quant') as memory:
        assert memory.verify().ok
    assert person.marks.found(folder) == {}


@pytest.mark.parametrize('backend', BACKENDS)
def test_vectors_leave_with_whatever_was_made_of_them(tmp_path: Path, backend: str) -> None:
    person = Person()
    with open_lived(tmp_path / 'memory.db', backend) as memory:
        memory.write([*neighbours(), person.item()])
        memory._core.indexes.vectors.wait_idle()
        assert bool(list(tmp_path.glob('*.generation'))) == (backend != 'exact')
        assert {'vector', 'id'} <= set(person.marks.found(tmp_path))
        assert memory.purge(MemoryQuery(key=person.key)) == 1
        assert person.marks.found(tmp_path) == {}
        memory._core.indexes.vectors.wait_idle()
        assert bool(list(tmp_path.glob('*.generation'))) == (backend != 'exact')
        assert person.marks.found(tmp_path) == {}


def test_a_generation_that_is_being_saved_leaves_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    person, begun, go_on = Person(), threading.Event(), threading.Event()
    save = Artifacts.save

    def slowly(self: Artifacts, space: str, artifact: Artifact) -> None:
        begun.set()
        go_on.wait(TIMEOUT_S)
        save(self, space, artifact)

    with open_lived(tmp_path / 'memory.db', 'turbo_quant') as memory:
        monkeypatch.setattr(Artifacts, 'save', slowly)
        memory.write([*neighbours(), person.item()])
        assert begun.wait(TIMEOUT_S)
        purging = threading.Thread(target=memory.purge, args=[MemoryQuery(key=person.key)])
        purging.start()
        go_on.set()
        purging.join(TIMEOUT_S)
        assert person.marks.found(tmp_path) == {}


def test_pages_that_were_split_keep_no_part_of_a_row(tmp_path: Path) -> None:
    marks, chance = Footprint(3), random.Random(3)
    with MemoryService.open(f'sqlite:///{tmp_path}/memory.db') as memory:
        for batch in range(40):
            items = []
            for number in range(chance.randint(1, 60)):
                name = f'{batch}-{number}'
                if chance.random() < 0.3:
                    word = marks.word(name)
                    told = {'key': f'p/{marks.word("key " + name)}', 'label': marks.word('label ' + name)}
                    content = word * chance.randint(1, 100)
                    items.append(
                        MemoryItem(kind='semantic', **told, content=content, entities=['ann'], valid_from=1)
                    )
                else:
                    key, content = f'k{chance.randint(0, 400)}', 'thing ' * chance.randint(1, 300)
                    items.append(
                        MemoryItem(kind='semantic', key=key, label='x', content=content, valid_from=batch)
                    )
            memory.write(items)
        assert memory.purge(MemoryQuery(entities=['ann'])) > 200
        assert marks.found(tmp_path) == {}
        assert memory.verify().ok


def test_what_a_killed_restore_left_goes_too(folder: Path, memory: MemoryService, person: Person) -> None:
    for name in ('.memory.db.restored', '.memory.db.restored-wal', '..memory.db.restored.new'):
        shutil.copy(folder / 'memory.db', folder / name)
    purge_person(memory, person)
    assert person.marks.found(folder) == {}
    assert not list(folder.glob('.*'))


def test_what_could_not_be_erased_is_named_and_erased_later(
    folder: Path, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(raw: object) -> None:
        raise OSError(28, 'No space left on device')

    with open_lived(folder / 'memory.db', 'turbo_quant') as memory, monkeypatch.context() as patch:
        patch.setattr('hylo_memory_ros.storage.engine.database.rewrite', full)
        assert str(folder / 'memory.db') in purge_person(memory, person)
    with open_lived(folder / 'memory.db', 'turbo_quant'):
        assert person.marks.found(folder) == {}
