"""A memory in which a person is named everywhere, among others who stay: what a purge has to undo.

Each area of the memory adds what it keeps in a function of its own; `AREAS` lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
from domain.identity.examples import token_kv
from domain.skills.examples import payload as skill_payload
from perception.pieces import NS, a_message, a_pipeline, an_input, feed, some_settings
from support.footprint import Footprint

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.domain.identity import TokenKvIdentity
from hylo_memory_ros.model import Budget, EmbeddingSpace, MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.perception import Edit, RigidCorrection
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.transforms import Transform

__all__ = ['AREAS', 'BACKENDS', 'WAYS', 'Person', 'living', 'neighbours', 'open_lived', 'purge_person']

BACKENDS = ('exact', 'usearch', 'turbo_quant', 'provekv_pool')
DIMENSION, STAYING = 16, 60
NOW_NS = 2_000 * NS


class Person:
    """The names and words of somebody, each a marker."""

    def __init__(self, seed: int = 0) -> None:
        self.marks = Footprint(seed)
        self.name = self.marks.word('entity')
        self.key = f'person/{self.marks.word("key")}'
        self.x = self.marks.number('x', 1234.567891234)

    def word(self, name: str) -> str:
        """Return a marker of this name, always the same."""
        known = self.__dict__.setdefault('_words', {})
        if name not in known:
            known[name] = self.marks.word(name)
        return known[name]

    def item(self, name: str = '', **fields: object) -> MemoryItem:
        """Return an item with a marker in each of its fields, of its own where `name` says so."""
        word = self.word
        told = {
            'kind': 'spatial',
            'key': self.key,
            'id': f'spatial/{word(name + "id")}',
            'content': f'seen in the kitchen: {word(name + "content")} ' * 3,
            'payload': {word('payload name'): [word(name + 'payload') * 100, {'deep': word('deep')}]},
            'scope': {'task_id': word('scope'), 'map_id': 'hall'},
            'source': word('source'),
            'evidence': [word('evidence')],
            'provenance': {'by': word('provenance')},
            'pose': Pose(frame_id='map', position=(self.x, 2.0, 0.0)),
            'extent': (self.marks.number('extent', 0.56789123), 1.0, 1.0),
            'embeddings': {'face@1': self.vector(name)},
            'event_time': {'start': 5.0, 'end': 6.0},
            'valid_from': 10.0,
        }
        return MemoryItem(**{**self.named, **told, **fields})

    @property
    def named(self) -> dict[str, object]:
        """Fields by which an item is found to be about them, in each of `WAYS`."""
        word = self.word
        links = [('knows', word('link'))]
        return {
            'entities': [self.name],
            'object_ids': [word('object')],
            'links': links,
            'label': word('label'),
        }

    def vector(self, name: str = '') -> tuple[float, ...]:
        """Return a vector, always the same for the same name."""
        known = self.__dict__.setdefault('_vectors', {})
        if name not in known:
            known[name] = self.marks.vector(f'{name}vector', DIMENSION)
        return known[name]


def neighbours() -> list[MemoryItem]:
    """Return what stays: items like those of the person, with words and vectors of their own."""
    rng = np.random.default_rng(1)
    return [
        MemoryItem(
            kind='spatial' if number % 2 else 'semantic',
            key=f'thing/{number}',
            content=f'seen in the kitchen: thing number {number}',
            label='thing',
            entities=['kitchen'],
            object_ids=[f'object {number}'],
            scope={'task_id': 'tidy', 'map_id': 'hall'},
            pose=Pose(frame_id='map', position=(float(number), 2.0, 0.0)),
            embeddings={'face@1': tuple(rng.normal(size=DIMENSION).tolist())},
            valid_from=10.0,
        )
        for number in range(STAYING)
    ]


def open_lived(path: Path, backend: str = 'exact') -> MemoryService:
    """Open the memory with a space of a backend, and receipts of every answer."""
    space = EmbeddingSpace(dimension=DIMENSION, backend=backend, exact_up_to=20)
    config = MemoryConfig(receipts='all', embedding_spaces={'face@1': space})
    ticks = count(NOW_NS, NS // 1000)
    return MemoryService.open(f'sqlite:///{path}', config=config, clock=lambda: next(ticks), map_id='hall')


def living(memory: MemoryService, person: Person) -> None:
    """Fill a memory through every area."""
    memory.write(neighbours())
    for area in AREAS:
        area(memory, person)
    memory._core.indexes.vectors.wait_idle()


def _items(memory: MemoryService, person: Person) -> None:
    memory.write([person.item()], request_id=person.word('request'))
    memory.write([person.item('second ', valid_from=20.0)])
    memory.write([person.item('third ', valid_from=15.0)])
    for kind in ('semantic', 'episodic'):
        key = None if kind == 'episodic' else f'{kind}/{person.word("key of " + kind)}'
        memory.write([person.item(f'{kind} ', kind=kind, key=key)])
    memory.write([person.item('working ', kind='working', key=person.key, valid_from=None)])
    memory.write([person.item('other map ', scope={'map_id': 'lab'}, pose=None)])


def _taken_away(memory: MemoryService, person: Person) -> None:
    named = MemoryQuery(key=person.key, text=person.word('third content'))
    memory.retract(
        named.model_copy(update={'include_invalidated': True}), reason=person.word('retract reason')
    )
    memory.forget(
        MemoryQuery(entities=[person.name], kinds=['semantic']), reason=person.word('forget reason')
    )
    merged = [f'thing/{STAYING}']
    memory.write([neighbours()[1].model_copy(update={'key': merged[0]})])
    memory.end(merged, 100 * NS, map_id='hall', merged_into=person.key, reason='the same')
    memory.write(
        [
            person.item(
                'again ', kind='semantic', key=f'semantic/{person.word("key of semantic")}', valid_from=3000.0
            )
        ]
    )


def _questions(memory: MemoryService, person: Person) -> None:
    word = person.word
    asked = [
        MemoryQuery(text=word('content')),
        MemoryQuery(text=word('content').lower().replace('é', 'e')),
        MemoryQuery(text=f'where,{word("content")}?'),
        MemoryQuery(text=f'nothing {person.name}'),
        MemoryQuery(key=person.key),
        MemoryQuery(key=person.key, as_of=1.0),
        MemoryQuery(keys=['thing/1', person.key]),
        MemoryQuery(ids=[f'spatial/{word("id")}']),
        MemoryQuery(labels=[word('label')], as_of=1.0),
        MemoryQuery(entities=[person.name], as_of=1.0),
        MemoryQuery(object_ids=[word('object')], as_of=1.0),
        MemoryQuery(relation=('knows', word('link')), as_of=1.0),
        MemoryQuery(scope={'task_id': word('scope')}, as_of=1.0),
        MemoryQuery(embedding=('face@1', person.vector())),
        MemoryQuery(embedding=('face@1', person.vector()), k=1, scope={'task_id': 'tidy'}),
        MemoryQuery(near=(Pose(frame_id='map', position=(person.x, 2.0, 0.0)), 5.0), k=2),
        MemoryQuery(text='kitchen', k=100),
    ]
    for query in asked:
        memory.query(query)
        memory.query(query.model_copy(update={'explain': True}))
    rendering = memory.render(MemoryQuery(entities=[person.name]))
    memory.register(
        rendering.receipt_id, TokenKvIdentity(**{**token_kv().fields, 'segment': rendering.whole.digest})
    )


def _corrections(memory: MemoryService, person: Person) -> None:
    memory.correct_map(RigidCorrection(Transform((0.25, 0.0, 0.0))))
    person.marks.number('x', person.x + 0.25)
    done = memory.correct_map(RigidCorrection(Transform((1.0, 0.0, 0.0))))
    person.marks.number('x', person.x + 1.25)
    memory.revert_correction(done.correction_id)


def _landmarks(memory: MemoryService, person: Person) -> None:
    label, still = person.word('landmark label'), person.word('second label')
    pipeline = a_pipeline(memory, some_settings(an_input(gate_m=1.0)))
    messages = [
        a_message(step / 10, [(3.0, 3.0, 1.0), (6.0, 6.0, 1.0), (6.0, -6.0, 1.0)], [label, 'cup', still])
        for step in range(1, 60)
    ]
    feed(pipeline, messages, commit_every=10)
    pipeline.commit()
    (cup,) = memory.query(MemoryQuery(labels=['cup']))
    pipeline.edit(Edit('attach', [str(cup.item.key)], messages[-1].stamp_ns, frame_id='gripper'))
    pipeline.close()


def _skills(memory: MemoryService, person: Person) -> None:
    told = {**person.named, 'kind': 'skill', 'key': f'skill/{person.word("skill key")}'}
    for status, at in (('proposed', 30.0), ('verified', 40.0)):
        payload = skill_payload(
            status,
            trigger=f'task == "{person.word("trigger")}"',
            preconditions=[f'who == "{person.word("condition")}"'],
        )
        content = f'how to {person.word("skill content")}'
        memory.write([MemoryItem(**told, content=content, payload=payload, valid_from=at)])


def _episodes(memory: MemoryService, person: Person) -> None:
    word = person.word
    name = person.name
    memory.begin_episode(
        'visit', actor='planner', scope={'task_id': 'tidy'}, note=f'{name} asks for {word("episode note")}'
    )
    told = {**person.named, 'kind': 'episodic', 'event_time': {'start': 7.0, 'end': 8.0}}
    memory.write([MemoryItem(**told, content=f'met {word("episode content")} at the door')])
    answer = memory.query(MemoryQuery(entities=[person.name]))
    ids = [hit.item.id for hit in answer if hit.item.kind != 'working']
    memory.feedback('wrong', receipt_id=answer.receipt_id, ids=ids, note=word('verdict note'), actor='cook')
    memory.feedback(
        'useful',
        ids=[memory.query(MemoryQuery(key='thing/2'))[0].item.id],
        note=f'{name}: {word("other note")}',
    )
    memory.end_episode(outcome=f'{name}: {word("outcome")}', note=f'{name.lower()} {word("end note")}')


def _consolidated(memory: MemoryService, person: Person) -> None:
    told = {**person.named, 'kind': 'episodic', 'scope': {'map_id': 'hall'}}
    memory.write(
        [
            MemoryItem(**told, content=f'walked by {person.word("walk")} {number}', valid_from=50.0 + number)
            for number in range(20)
        ]
        + [
            MemoryItem(kind='episodic', content=f'the door was open {number}', valid_from=50.0 + number)
            for number in range(20)
        ]
    )
    ours = {'task_id': person.word('scope')}
    memory.write([MemoryItem(**{**told, 'scope': ours}, content=f'left at {number}') for number in range(9)])
    for scope, most in ((ours, 3), (None, 10)):
        memory.consolidate(scope, Budget(items=most), kinds=['episodic'], actor='nobody')


def _repeated(memory: MemoryService, person: Person) -> None:
    """A fact that is stated again and again, each time for another reason."""
    key = f'semantic/{person.word("repeated key")}'
    for number in range(5):
        told = {'kind': 'semantic', 'key': key, 'valid_from': 60.0 + number}
        own = {
            'id': f'semantic/{person.word("repeated id")}{number}',
            'evidence': [person.word(f'evidence {number}')],
        }
        memory.write([person.item('repeated ', **told, **own)])
    memory.consolidate({'task_id': person.word('scope')}, Budget(items=1), kinds=['semantic'])


def _looked_up(memory: MemoryService, person: Person) -> None:
    memory.begin_episode('second visit', note=f'{person.name} again: {person.word("second note")}')
    memory.query(MemoryQuery(entities=[person.name]))


AREAS: list[Callable[[MemoryService, Person], None]] = [
    _items,
    _skills,
    _landmarks,
    _corrections,
    _episodes,
    _questions,
    _consolidated,
    _repeated,
    _taken_away,
    _questions,
    _looked_up,
]

# What takes away all that names the person; landmarks are named by their labels alone.
WAYS: dict[str, Callable[[Person], MemoryQuery]] = {
    'entity': lambda person: MemoryQuery(entities=[person.name], any_map=True),
    'object': lambda person: MemoryQuery(object_ids=[person.word('object')], any_map=True),
    'relation': lambda person: MemoryQuery(relation=('knows', person.word('link')), any_map=True),
    'label': lambda person: MemoryQuery(labels=[person.word('label')], any_map=True),
    'text': lambda person: MemoryQuery(text=person.name.lower().replace('é', 'e'), any_map=True),
}


def purge_person(memory: MemoryService, person: Person, way: str = 'entity') -> list[str]:
    """Delete for good all that names the person; return the copies that are out of reach."""
    labels = [person.word('landmark label'), person.word('second label')]
    unreached = []
    for query in (WAYS[way](person), MemoryQuery(labels=labels)):
        unreached += memory.purge(query, reason='asked for', actor='officer').unreached
    return unreached
