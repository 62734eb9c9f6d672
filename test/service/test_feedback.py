"""Feedback: counted beside items, once for each who says it, refused by name, gone with a purge."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from support.child import TIMEOUT_S, script
from support.clock import ManualClock
from support.tables import read_tables, write_tables

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import (
    HyloMemoryError,
    InvalidRequestError,
    NotFoundError,
    ReadOnlyError,
    UnsupportedError,
)
from hylo_memory_ros.model import Helpfulness, MemoryItem, MemoryQuery, Pose, QueryResult
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.service.handlers.feedback import MAX_NOTE_BYTES
from hylo_memory_ros.storage.landmarks import AssociationReceipt, AssociationReceiptRepository
from hylo_memory_ros.storage.schema import episode_retrieval, feedback, helpfulness, landmark

PLACE = Pose(frame_id='map', position=(0.0, 0.0, 0.0))
FACTS = MemoryQuery(kinds=frozenset({'semantic'}))


def fact(key: str, content: str = '', **fields: Any) -> MemoryItem:
    return MemoryItem(kind='semantic', key=key, content=content or f'about {key}', valid_from=1, **fields)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def memory(clock: ManualClock) -> Iterator[MemoryService]:
    with MemoryService.open(clock=clock) as opened:
        opened.write([fact('dock'), fact('door'), fact('stairs')])
        yield opened


def asked(memory: MemoryService, query: MemoryQuery = FACTS) -> QueryResult:
    return memory.query(query, receipt=True)


def counts(memory: MemoryService, key: str) -> Helpfulness | None:
    (hit,) = memory.query(MemoryQuery(key=key, any_map=True))
    return hit.stats and hit.stats.helpfulness


def rows_of(memory: MemoryService, *tables: sa.Table) -> list[list[Any]]:
    return read_tables(memory, lambda connection: [connection.execute(sa.select(t)).all() for t in tables])


def test_a_verdict_is_counted_beside_the_items_that_it_names(
    memory: MemoryService, clock: ManualClock
) -> None:
    answer = asked(memory)
    assert counts(memory, 'dock') is None
    clock.set(1010.0)
    judged = memory.feedback('useful', receipt_id=answer.receipt_id, ids=[answer[0].item.id])
    assert (judged.ids, judged.episode, judged.replaced) == ((answer[0].item.id,), '', 0)
    assert counts(memory, answer[0].item.key) == Helpfulness(useful=1, retrieved=1, last_ns=1_010_000_000_000)
    assert counts(memory, answer[1].item.key) == Helpfulness(retrieved=1, last_ns=1_000_000_000_000)


def test_without_ids_all_that_the_receipt_answered_is_judged(memory: MemoryService) -> None:
    answer = asked(memory, FACTS.model_copy(update={'k': 2}))
    judged = memory.feedback('misleading', receipt_id=answer.receipt_id, note='none of it')
    assert judged.ids == tuple(hit.item.id for hit in answer)
    assert [hit.stats.helpfulness.misleading for hit in memory.query(FACTS) if hit.stats] == [1, 1]


def test_ids_alone_may_be_judged(memory: MemoryService) -> None:
    ids = [hit.item.id for hit in memory.query(FACTS)][:2]
    assert memory.feedback('wrong', ids=[*ids, ids[0]]).ids == tuple(ids)
    assert [hit.stats.helpfulness.wrong for hit in memory.query(FACTS) if hit.stats] == [1, 1]


def test_what_holds_no_longer_may_be_judged(memory: MemoryService) -> None:
    old = memory.query(MemoryQuery(key='dock'))[0].item.id
    memory.write([MemoryItem(kind='semantic', key='dock', content='elsewhere', valid_from=2)])
    memory.feedback('wrong', ids=[old])
    assert counts(memory, 'dock') is None
    (hit,) = memory.query(MemoryQuery(ids=(old,), as_of=1))
    assert hit.stats.helpfulness.wrong == 1


def test_archived_items_may_be_judged(tmp_path: Path, clock: ManualClock) -> None:
    then = MemoryQuery(key='dock', as_of=1)
    with MemoryService.open(f'sqlite:///{tmp_path}/memory.db', clock=clock) as memory:
        memory.write([fact('dock')])
        for since in (2, 3, 4):
            memory.write([MemoryItem(kind='semantic', key='dock', content=f'at {since}', valid_from=since)])
        old = memory.query(then)[0].item.id
        assert memory._core.store.archive.move(
            [one.identity_id for one in memory._core.store.archive.archivable()]
        ).versions
        memory.feedback('wrong', ids=[old])
        memory.feedback('wrong', receipt_id=asked(memory, then).receipt_id)
        assert memory.query(then)[0].stats.helpfulness.wrong == 2
        assert not memory.query(then.model_copy(update={'min_helpfulness': 0.5}))
        with pytest.raises(NotFoundError):
            memory.feedback('wrong', ids=[old, 'semantic/ff'])
        memory.purge(MemoryQuery(key='dock'))
        assert rows_of(memory, feedback, helpfulness) == [[], []]


def test_the_same_verdict_again_counts_once_and_a_later_one_replaces_it(memory: MemoryService) -> None:
    answer = asked(memory)
    for outcome, replaced in (('useful', 0), ('useful', 3), ('wrong', 3)):
        assert memory.feedback(outcome, receipt_id=answer.receipt_id).replaced == replaced
    assert [(hit.stats.helpfulness.useful, hit.stats.helpfulness.wrong) for hit in memory.query(FACTS)] == [
        (0, 1)
    ] * 3
    other = asked(memory)
    for fields in ({'actor': 'ann'}, {'actor': 'bob'}, {'receipt_id': other.receipt_id}):
        memory.feedback('useful', **{'receipt_id': answer.receipt_id, **fields})
    assert counts(memory, 'dock').useful == 3
    memory.begin_episode('lap')
    memory.feedback('useful', receipt_id=answer.receipt_id)
    assert counts(memory, 'dock').useful == 4


def test_many_may_judge_at_once(memory: MemoryService) -> None:
    answer = asked(memory)

    def judge(number: int) -> int:
        return len(memory.feedback('useful', receipt_id=answer.receipt_id, actor=str(number % 20)))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(judge, range(40))) == [3] * 40
    assert counts(memory, 'dock').useful == 20


def test_a_verdict_belongs_to_the_open_episode_or_to_that_of_the_receipt(memory: MemoryService) -> None:
    memory.begin_episode('first')
    answer = asked(memory)
    assert memory.feedback('useful', receipt_id=answer.receipt_id).episode == 'first'
    memory.end_episode(outcome='success')
    assert memory.feedback('wrong', receipt_id=answer.receipt_id).episode == 'first'
    assert counts(memory, 'dock').useful == 0
    memory.begin_episode('second')
    assert memory.feedback('useful', receipt_id=answer.receipt_id).episode == 'second'
    assert memory.feedback('useful', receipt_id=answer.receipt_id, episode='first').replaced == 3


def test_what_is_counted_survives_the_file_being_closed(tmp_path: Path) -> None:
    url = f'sqlite:///{tmp_path}/memory.db'
    with MemoryService.open(url) as memory:
        memory.write([fact('dock')])
        memory.feedback('useful', receipt_id=asked(memory).receipt_id)
        before = counts(memory, 'dock')
    with MemoryService.open(url) as memory:
        assert counts(memory, 'dock') == before
        memory.feedback('useful', ids=[memory.query(FACTS)[0].item.id])
        assert counts(memory, 'dock').useful == 2
    with MemoryService.open(url, read_only=True) as memory:
        assert counts(memory, 'dock').useful == 2
        with pytest.raises(ReadOnlyError):
            memory.feedback('useful', ids=[memory.query(FACTS)[0].item.id])


def test_an_acknowledged_verdict_survives_a_killed_process(tmp_path: Path) -> None:
    killed = """
        memory = MemoryService.open(url)
        memory.write([fact(number) for number in range(20)])
        memory.begin_episode('lap')
        answer = memory.query(MemoryQuery(kinds=['semantic'], k=20), receipt=True)
        memory.feedback('useful', receipt_id=answer.receipt_id)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([*script(killed), str(tmp_path)], timeout=TIMEOUT_S, check=False)
    assert done.returncode == -signal.SIGKILL
    with MemoryService.open(f'sqlite:///{tmp_path}/memory.db') as memory:
        assert memory.verify().ok
        memory.end_episode(outcome='success')
        told = [hit.stats.helpfulness for hit in memory.query(FACTS.model_copy(update={'k': 20}))]
        assert [(one.useful, one.retrieved, one.succeeded) for one in told] == [(1, 1, 1)] * 20


def test_what_is_counted_takes_no_sequence_and_is_in_no_hash(memory: MemoryService) -> None:
    before = (memory.sequence, memory.snapshot(), memory.manifest()['timeline_digest'])
    memory.feedback('useful', receipt_id=asked(memory).receipt_id, note='good')
    assert (memory.sequence, memory.snapshot(), memory.manifest()['timeline_digest']) == before
    assert memory.verify().ok


def test_a_restored_copy_brings_its_own_counts(memory: MemoryService, tmp_path: Path) -> None:
    memory.snapshot(str(tmp_path / 'blank.db'))
    memory.feedback('useful', receipt_id=asked(memory).receipt_id)
    memory.snapshot(str(tmp_path / 'judged.db'))
    memory.restore(str(tmp_path / 'blank.db'))
    assert counts(memory, 'dock') is None
    memory.restore(str(tmp_path / 'judged.db'))
    assert counts(memory, 'dock').useful == 1


def test_another_statement_under_the_same_key_begins_anew(memory: MemoryService) -> None:
    memory.feedback('wrong', receipt_id=asked(memory).receipt_id)
    memory.write([MemoryItem(kind='semantic', key='dock', content='in the hall', valid_from=5)])
    assert counts(memory, 'dock') is None
    assert counts(memory, 'door').wrong == 1


def test_a_landmark_keeps_its_counts_wherever_it_is_seen(memory: MemoryService) -> None:
    mug = MemoryItem(kind='spatial', key='mug/1', content='mug', label='mug', pose=PLACE, valid_from=1)
    memory.write([mug])
    row = {
        'map_id': '', 'key': 'mug/1', 'label': 'mug', 'has_instance': False, 'observations': 3, 'n': 3,
        'first_ns': 1, 'since_ns': 1, 'last_ns': 2, 'x': 0.0, 'y': 0.0, 'z': 0.0, 'estimate': b'',
    }  # fmt: skip
    write_tables(memory, lambda connection: connection.execute(landmark.insert(), row) and None)
    memory.feedback('useful', receipt_id=asked(memory, MemoryQuery(key='mug/1')).receipt_id)
    moved = PLACE.model_copy(update={'position': (3.0, 0.0, 0.0)})
    memory.write([mug.model_copy(update={'pose': moved, 'valid_from_ns': 9_000_000_000})])
    (hit,) = memory.query(MemoryQuery(key='mug/1'))
    assert hit.item.pose.position == (3.0, 0.0, 0.0)
    assert (hit.stats.observations, hit.stats.helpfulness.useful) == (3, 1)
    (near,) = memory.query(MemoryQuery(near=(moved, 1.0), min_helpfulness=0.6))
    assert near.item.id == hit.item.id
    memory.feedback('useful', ids=[hit.item.id])
    memory.purge(MemoryQuery(key='mug/1'))
    assert not [row for row in rows_of(memory, helpfulness)[0] if 'mug/1' in row.subject]


def test_working_memory_is_left_out_and_refused_by_name(memory: MemoryService) -> None:
    memory.write([MemoryItem(kind='working', key='plan', content='go to the dock')])
    answer = asked(memory, MemoryQuery(keys=('plan', 'dock')))
    assert len(answer) == 2
    (working,) = (hit.item.id for hit in answer if hit.item.kind == 'working')
    assert working not in memory.feedback('useful', receipt_id=answer.receipt_id).ids
    with pytest.raises(UnsupportedError, match='working memory keeps no counts'):
        memory.feedback('useful', receipt_id=answer.receipt_id, ids=[working])
    with pytest.raises(UnsupportedError, match=f'working memory keeps no counts: {working!r}'):
        memory.feedback('useful', ids=[working])
    alone = asked(memory, MemoryQuery(key='plan'))
    with pytest.raises(InvalidRequestError, match='only working memory'):
        memory.feedback('useful', receipt_id=alone.receipt_id)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    'outcome unknown': ({'outcome': 'great'}, "outcome: 'great' is none of useful, misleading"),
    'outcome empty': ({'outcome': ''}, "outcome: '' is none"),
    'outcome of another case': ({'outcome': 'Useful'}, 'outcome'),
    'nothing named': ({'receipt_id': ''}, 'receipt_id, ids: both are empty'),
    'receipt unknown': ({'receipt_id': 'retrieval/00'}, "there is no receipt 'retrieval/00'"),
    'receipt no text': ({'receipt_id': '\ud800'}, 'receipt_id'),
    'ids not answered': ({'ids': ('STAIRS',)}, 'did not answer'),
    'ids unknown': ({'ids': ('semantic/ff',)}, 'did not answer'),
    'ids unknown without receipt': (
        {'receipt_id': '', 'ids': ('DOCK', 'semantic/ff')},
        'memory does not know \'semantic/ff\'',
    ),
    'key for an id': ({'receipt_id': '', 'ids': ('dock',)}, "'dock', which is a key: ids are asked for, not"),
    'id empty': ({'receipt_id': '', 'ids': ('',)}, 'memory does not know'),
    'id no text': ({'ids': ('\udfff',)}, r'ids\[0\]'),
    'too many ids': ({'ids': tuple(map(str, range(10_001)))}, 'ids: 10001 are more than 10000'),
    'episode unknown': ({'episode': 'yesterday'}, "there is no episode 'yesterday'"),
    'note too long': ({'note': 'é' * MAX_NOTE_BYTES}, 'note: 8192 bytes, at most 4096'),
    'note no text': ({'note': '\ud800'}, 'note'),
    'actor no text': ({'actor': '\ud800'}, 'actor'),
    'nothing answered': ({'receipt_id': 'NOTHING'}, 'answered nothing'),
    'an association': ({'receipt_id': 'association/1'}, 'is of an association'),
}  # fmt: skip


@pytest.mark.parametrize('name', BAD)
def test_what_makes_no_sense_is_refused_by_name_and_changes_nothing(memory: MemoryService, name: str) -> None:
    answer = asked(memory, MemoryQuery(keys=('dock', 'door')))
    nothing = asked(memory, MemoryQuery(key='nowhere'))
    stairs = memory.query(MemoryQuery(key='stairs'))[0].item.id
    decided = AssociationReceipt('association/1', '', 1, (), '{"id": "association/1", "kind": "association"}')
    write_tables(memory, lambda connection: AssociationReceiptRepository(connection).save([decided], 10))
    memory.feedback('useful', receipt_id=answer.receipt_id)
    tables = (feedback, helpfulness, episode_retrieval)
    before = rows_of(memory, *tables)

    fields, message = BAD[name]
    names = {'STAIRS': stairs, 'DOCK': answer[0].item.id, 'NOTHING': nothing.receipt_id}
    request = {'outcome': 'wrong', 'receipt_id': answer.receipt_id, **fields}
    request['receipt_id'] = names.get(request['receipt_id'], request['receipt_id'])
    request['ids'] = tuple(names.get(one, one) for one in request.get('ids', ()))
    with pytest.raises(HyloMemoryError, match=message):
        memory.feedback(**request)
    assert rows_of(memory, *tables) == before


def test_a_purge_takes_counts_verdicts_and_notes(memory: MemoryService) -> None:
    memory.write([fact('ann', 'Ann Smith lives in flat seven')])
    answer = asked(memory)
    everything = MemoryQuery(keys=('ann', 'dock'))
    both = asked(memory, everything)
    memory.feedback('useful', receipt_id=both.receipt_id, note='she was at home')
    memory.feedback('useful', receipt_id=answer.receipt_id, note='knocked at smith', actor='a')
    memory.feedback('useful', receipt_id=answer.receipt_id, ids=[both[0].item.id], note='fine', actor='b')
    alone = asked(memory, MemoryQuery(key='ann'))
    gone = alone[0].item.id
    memory.purge(MemoryQuery(key='ann'))
    verdicts, counted, _ = rows_of(memory, feedback, helpfulness, episode_retrieval)
    assert gone not in {row.item for row in verdicts}
    assert gone not in {row.subject for row in counted}
    assert {row.note for row in verdicts} <= {'', 'fine'}
    assert counts(memory, 'dock').useful >= 2
    with pytest.raises(InvalidRequestError, match='answered nothing; 1 that it answered were purged'):
        memory.feedback('useful', receipt_id=alone.receipt_id)
    with pytest.raises(InvalidRequestError, match='did not answer'):
        memory.feedback('useful', receipt_id=both.receipt_id, ids=[gone])
    with pytest.raises(NotFoundError, match='does not know'):
        memory.feedback('useful', ids=[gone])
    assert len(memory.feedback('useful', receipt_id=both.receipt_id)) == 1


def test_a_score_that_was_tampered_with_is_found_out(memory: MemoryService) -> None:
    memory.feedback('useful', receipt_id=asked(memory).receipt_id)
    assert memory.verify().ok
    write_tables(
        memory, lambda connection: connection.execute(helpfulness.update().values(score=0.9)) and None
    )
    assert [
        'its score of helpfulness is not that of its counts' in one for one in memory.verify().problems
    ] == [True] * 3


def test_the_oldest_verdicts_leave_and_what_they_counted_stays() -> None:
    with MemoryService.open(config=MemoryConfig(feedback_retention=5)) as memory:
        memory.write([fact('dock')])
        (hit,) = memory.query(FACTS)
        for number in range(20):
            memory.feedback('useful', ids=[hit.item.id], actor=str(number))
        assert len(rows_of(memory, feedback)[0]) == 5
        assert counts(memory, 'dock').useful == 20
