"""Receipts: evidence of each answer, readable at once, replayed exactly, bounded, and purged."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from domain.identity.examples import SHA, artifact, semantic, token_kv
from support.tables import write_tables

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.domain.identity import (
    Codec,
    CompressionArtifactIdentity,
    EmbeddingIdentity,
    GenerationDigest,
    SegmentDigest,
    Sha256,
    TokenKvDigest,
    TokenKvIdentity,
)
from hylo_memory_ros.errors import InvalidRequestError, NotFoundError, UnsupportedError
from hylo_memory_ros.model import Change, MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.model.embedding import EmbeddingSpace
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.landmarks import AssociationReceipt, AssociationReceiptRepository

HERE = Pose(frame_id='map', position=(0.0, 0.0, 0.0))
NEAR = MemoryQuery(near=(HERE, 50.0))


def thing(key: str, x: float = 1.0, **fields: object) -> MemoryItem:
    told = {'content': f'the {key}', 'label': 'mug', 'valid_from': 100, **fields}
    return MemoryItem(kind='spatial', key=key, pose=Pose(frame_id='map', position=(x, 0.0, 0.0)), **told)


class Clock:
    now_ns = 1_000_000_000_000

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(clock: Clock, tmp_path: Path) -> Iterator[MemoryService]:
    with MemoryService.open(f'sqlite:///{tmp_path}/memory.db', clock=clock) as opened:
        opened.write([thing('mug', 1.0), thing('bowl', 2.0), thing('cup', 3.0)])
        yield opened


def test_a_receipt_says_what_was_asked_of_what_and_how_it_was_answered(memory: MemoryService) -> None:
    answer = memory.query(NEAR.model_copy(update={'k': 2}), receipt=True)
    told = memory.receipt(answer.receipt_id)
    assert answer.receipt_id.startswith('retrieval/')
    assert told['id'] == answer.receipt_id
    assert (told['sequence'], told['store_sequence'], told['epoch']) == (1, 1, memory.epoch)
    assert told['evaluated_at_ns'] == 1_000_000_000_000
    assert told['as_of_ns'] == answer.as_of_ns
    assert told['plan'] == list(answer.plan)
    assert told['exactness'] == 'exact_reference'
    assert told['candidates']['returned'] == told['candidates']['after_filter'] == 3
    assert told['sources'][0]['backend'] == 'mirror'
    assert (told['total'], told['truncated'], told['purged']) == (3, True, 0)
    assert [hit['id'] for hit in told['hits']] == [hit.item.id for hit in answer]
    assert [hit['score'] for hit in told['hits']] == [hit.score for hit in answer]
    assert [hit['position'] for hit in told['hits']] == [0, 1]
    assert MemoryQuery.model_validate_json(json.dumps(told['query'])) == NEAR.model_copy(update={'k': 2})
    assert told['query_digest'].startswith('sha256:')


def test_the_same_question_has_the_same_digest(memory: MemoryService) -> None:
    first, second = (
        memory.query(MemoryQuery(kinds=kinds), receipt=True)
        for kinds in ({'spatial', 'semantic', 'episodic'}, ['episodic', 'semantic', 'spatial'])
    )
    one, two = memory.receipt(first.receipt_id), memory.receipt(second.receipt_id)
    assert one['query_digest'] == two['query_digest']
    assert one['id'] != two['id']


def test_none_is_kept_unless_one_is_asked_for(memory: MemoryService) -> None:
    assert memory.query(NEAR).receipt_id == ''
    assert memory.render(NEAR).receipt_id == ''


def test_all_are_kept_by_parameter_and_none_when_off(clock: Clock) -> None:
    with MemoryService.open(clock=clock, config=MemoryConfig(receipts='all')) as memory:
        assert memory.receipt(memory.query(NEAR).receipt_id)['hits'] == []
    with MemoryService.open(clock=clock, config=MemoryConfig(receipts='off')) as memory:
        assert memory.query(NEAR).receipt_id == ''
        with pytest.raises(UnsupportedError, match='receipts: off'):
            memory.query(NEAR, receipt=True)


@pytest.mark.parametrize('ask', ['receipt', 'replay_receipt', 'chain'])
@pytest.mark.parametrize('name', ['', 'retrieval/0', 'x' * 10_000, '\0', "'; DROP TABLE receipt"])
def test_an_unknown_receipt_is_not_found(memory: MemoryService, name: str, ask: str) -> None:
    with pytest.raises(NotFoundError, match='there is none of the id'):
        getattr(memory, ask)(name)


def test_a_receipt_is_the_same_at_once_and_from_the_file(memory: MemoryService, clock: Clock) -> None:
    name = memory.render(NEAR, receipt=True).receipt_id
    at_once = memory.receipt(name)
    memory.close()
    with MemoryService.open(f'sqlite:///{memory.path}', clock=clock, read_only=True) as later:
        assert later.receipt(name) == at_once


def test_a_reader_of_the_file_keeps_receipts_as_long_as_it_lives(memory: MemoryService, clock: Clock) -> None:
    with MemoryService.open(f'sqlite:///{memory.path}', clock=clock, read_only=True) as reader:
        name = reader.query(NEAR, receipt=True).receipt_id
        assert reader.replay_receipt(name).same
    with pytest.raises(NotFoundError):
        memory.receipt(name)


def test_the_oldest_receipts_leave(clock: Clock) -> None:
    with MemoryService.open(clock=clock, config=MemoryConfig(receipt_retention=5)) as memory:
        names = [memory.query(NEAR, receipt=True).receipt_id for _ in range(12)]
        memory._core.receipts.flush()
        assert [memory.receipt(name)['id'] for name in names[-5:]] == names[-5:]
        for name in names[:-5]:
            with pytest.raises(NotFoundError):
                memory.receipt(name)


def test_receipts_keep_to_their_bytes(clock: Clock) -> None:
    with MemoryService.open(clock=clock, config=MemoryConfig(receipt_limit_bytes=10_000)) as memory:
        names = [memory.query(MemoryQuery(text='x' * 3000), receipt=True).receipt_id for _ in range(6)]
        memory._core.receipts.flush()
        assert memory.receipt(names[-1])
        with pytest.raises(NotFoundError):
            memory.receipt(names[2])


def test_many_threads_lose_no_receipt(memory: MemoryService) -> None:
    names: list[str] = []

    def ask() -> None:
        for _ in range(200):
            name = memory.query(NEAR, receipt=True).receipt_id
            assert memory.receipt(name)['id'] == name
            names.append(name)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({memory.receipt(name)['id'] for name in names}) == 800


QUESTIONS = [
    NEAR,
    MemoryQuery(labels=['mug'], k=2),
    MemoryQuery(text='the cup'),
    MemoryQuery(near=(HERE, 2.5), text='mug'),
    MemoryQuery(near=(HERE, 50.0), as_of=150),
    MemoryQuery(key='bowl', known_seq=1),
    MemoryQuery(include_invalidated=True),
    MemoryQuery(k=0),
]


@pytest.mark.parametrize('question', QUESTIONS)
def test_a_replay_gives_the_same_ids_whatever_came_later(
    memory: MemoryService, clock: Clock, question: MemoryQuery
) -> None:
    memory.write([thing('bowl', 1.5, content='the bowl again', valid_from=300)])
    answer = memory.query(question, receipt=True)
    clock.now_ns += 10**12
    memory.write([thing('mug', 9.0, valid_from=50), thing('jug', 0.1), thing('cup', 0.2, valid_from=999)])
    memory.forget(MemoryQuery(key='bowl'))
    memory.retract(MemoryQuery(key='jug'))
    replay = memory.replay_receipt(answer.receipt_id)
    assert replay.same, replay
    assert replay.found == replay.ids == tuple(hit.item.id for hit in answer)
    assert (replay.missing, replay.added, replay.purged, replay.reasons) == ((), (), 0, ())


def test_words_that_became_common_change_ranks_and_the_replay_says_so(memory: MemoryService) -> None:
    def notes(*contents: str) -> list[MemoryItem]:
        return [MemoryItem(kind='semantic', content=content, valid_from=1) for content in contents]

    memory.write(notes('lamp lamp door', 'lamp door door', *(f'door {i}' for i in range(30))))
    answer = memory.query(MemoryQuery(text='lamp door', k=1), receipt=True)
    assert answer[0].item.content == 'lamp lamp door'
    memory.write(notes(*(f'lamp {i}' for i in range(300))))
    replay = memory.replay_receipt(answer.receipt_id)
    assert not replay.same
    assert replay.reasons == (
        'ranks of words depend on everything that was written since',
        'each of the ids still matches',
    )


def test_each_page_replays_from_its_cursor(memory: MemoryService) -> None:
    first = memory.query(NEAR.model_copy(update={'k': 2}), receipt=True)
    second = memory.query(NEAR.model_copy(update={'k': 2, 'cursor': first.cursor}), receipt=True)
    memory.write([thing('jug', 0.1)])
    replays = [memory.replay_receipt(page.receipt_id) for page in (first, second)]
    assert [replay.same for replay in replays] == [True, True]
    assert len(replays[1].found) == 1


def test_a_replay_asks_in_the_map_of_then(clock: Clock) -> None:
    with MemoryService.open(clock=clock, map_id='kitchen') as memory:
        memory.write([thing('mug')])
        name = memory.query(NEAR, receipt=True).receipt_id
        memory.set_map('garage')
        assert memory.replay_receipt(name).same
        assert len(memory.replay_receipt(name).found) == 1


def test_a_replay_says_what_is_gone_and_why(memory: MemoryService) -> None:
    everything = memory.query(NEAR, receipt=True)
    near_two = memory.query(NEAR.model_copy(update={'k': 2}), receipt=True)
    gone = memory.query(MemoryQuery(key='mug'))[0].item.id
    memory.purge(MemoryQuery(key='mug'))
    replay = memory.replay_receipt(everything.receipt_id)
    assert not replay.same
    assert replay.purged == 1
    assert replay.reasons[0] == 'purged: 1 of the hits were deleted for good since'
    assert gone not in replay.ids
    assert len(replay.ids) == len(replay.found) == 2
    moved_up = memory.replay_receipt(near_two.receipt_id)
    assert len(moved_up.added) == 1
    assert '1 moved up into the places of what was purged' in moved_up.reasons


def test_working_memory_keeps_no_history(memory: MemoryService) -> None:
    memory.write([MemoryItem(kind='working', key='goal', content='fetch the mug')])
    name = memory.query(MemoryQuery(kinds={'working'}), receipt=True).receipt_id
    assert memory.receipt(name)['hits'][0]['record'] is None
    memory.forget(MemoryQuery(key='goal'))
    replay = memory.replay_receipt(name)
    assert (replay.same, replay.reasons) == (False, ('working memory keeps no history',))


def everything_in(path: Path) -> bytes:
    return b''.join(file.read_bytes() for file in path.parent.glob(f'{path.name}*'))


def test_a_purge_takes_ids_keys_and_words_out_of_receipts(memory: MemoryService) -> None:
    secret = MemoryItem(kind='semantic', key='annas-secret', content='zanzibar wardrobe', valid_from=1)
    item_id = memory.write([secret]).ids[0]
    plain = MemoryQuery(kinds={'semantic', 'spatial'}, min_helpfulness=0.5, min_confidence=0.5)
    by_filter = memory.render(plain, receipt=True).receipt_id
    named = [
        memory.query(question, receipt=True).receipt_id
        for question in (
            MemoryQuery(key='annas-secret'),
            MemoryQuery(ids=(item_id,)),
            MemoryQuery(text='wardrobe', k=0),
            MemoryQuery(key='annas-secret', known_seq=1),
        )
    ]
    memory.purge(MemoryQuery(key='annas-secret'))
    path = memory.path
    assert path is not None
    told = memory.receipt(by_filter)
    assert (told['purged'], len(told['hits']), told['render']) == (1, 3, None)
    assert told['query'] is not None
    for name in named:
        assert memory.receipt(name)['query'] is None
        with pytest.raises(InvalidRequestError, match='was purged: it cannot be repeated'):
            memory.replay_receipt(name)
    memory.close()
    left = everything_in(path)
    for word in (b'annas-secret', b'zanzibar', b'wardrobe', item_id.encode()):
        assert word not in left


def test_what_was_purged_while_a_question_was_answered_is_in_no_receipt(memory: MemoryService) -> None:
    receipts = memory._core.receipts
    asked, _ = memory._queries._record(MemoryQuery(key='mug'), True)
    memory.purge(MemoryQuery(key='mug'))
    receipts.keep(asked)
    receipts.flush()
    told = memory.receipt(asked.receipt_id)
    assert (told['hits'], told['purged'], told['query']) == ([], 1, None)


def test_retrievals_are_told_at_the_sequence_that_they_read(memory: MemoryService) -> None:
    told: list[Change] = []
    arrived = threading.Event()

    def listen(change: Change) -> None:
        told.append(change)
        arrived.set()

    end = memory.subscribe_retrievals(listen)
    answer = memory.query(NEAR)
    assert arrived.wait(20)
    (change,) = told
    assert (change.op, change.sequence, change.ids) == ('retrieval', 1, tuple(hit.item.id for hit in answer))
    assert change.keys == ('mug', 'bowl', 'cup')
    assert [hit['position'] for hit in change.extra['hits']] == [0, 1, 2]
    assert [hit['score'] for hit in change.extra['hits']] == [hit.score for hit in answer]
    assert change.extra['query']['near'][1] == 50.0
    assert memory.sequence == 1
    assert [one.op for one in memory.changes().changes] == ['write']
    end()
    memory.query(NEAR, receipt=True)
    memory.close()
    assert len(told) == 1


def cached(segment: SegmentDigest) -> TokenKvIdentity:
    return TokenKvIdentity(**{**token_kv().fields, 'segment': segment})


def test_the_chain_goes_from_records_to_compressed_bytes(memory: MemoryService) -> None:
    rendering = memory.render(NEAR, receipt=True)
    kept = cached(rendering.whole.digest)
    packed = CompressionArtifactIdentity(**{**artifact().fields, 'source': kept.digest})
    assert memory.register(rendering.receipt_id, kept) == kept.digest
    assert memory.register(rendering.receipt_id, packed) == packed.digest
    memory.register(rendering.receipt_id, packed)
    chain = memory.chain(rendering.receipt_id)
    assert chain.complete
    assert [link.about for link in chain.step('record')] == [hit.item.id for hit in rendering.result]
    assert all(link.digest.startswith('semantic:sha256:') for link in chain.step('record'))
    assert [link.digest for link in chain.step('segment')] == [
        *(segment.digest for segment in rendering.segments),
        rendering.whole.digest,
    ]
    assert [link.digest for link in chain.step('token_kv')] == [kept.digest]
    assert [link.digest for link in chain.step('artifact')] == [packed.digest]
    assert [link.step for link in chain.step('candidates')] == ['candidates']
    assert chain.step('rerank')[0].about == 'exact_reference'
    assert chain.step('generation') == ()


def test_the_chain_names_the_vectors_of_what_was_found(clock: Clock) -> None:
    spaces = {'clip@1': EmbeddingSpace(dimension=2, model='clip-vit', provider_digest=SHA('model'))}
    with MemoryService.open(clock=clock, config=MemoryConfig(embedding_spaces=spaces)) as memory:
        memory.write([thing('mug', embeddings={'clip@1': (1.0, 0.5)}), thing('bowl')])
        answer = memory.query(NEAR, receipt=True)
        (link,) = memory.chain(answer.receipt_id).step('embedding')
        mug = next(hit.item for hit in answer if hit.item.key == 'mug')
        vector = np.asarray(mug.embeddings['clip@1'], dtype='<f4').tobytes()
        of_mug = EmbeddingIdentity(
            record_id=mug.id, space='clip@1', model='clip-vit', dimension=2, provider_digest=SHA('model'),
            vector_digest=Sha256.of(vector),
        )  # fmt: skip
        assert (link.digest, link.about) == (of_mug.digest, f'{mug.id}, clip@1')


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize('backend', ['turbo_quant', 'provekv_pool'])
def test_an_approximate_answer_names_its_generation_and_replays(clock: Clock, backend: str) -> None:
    spaces = {'clip@1': EmbeddingSpace(dimension=8, backend=backend, exact_up_to=0)}
    vectors = np.random.default_rng(1).normal(size=(400, 8)).tolist()
    with MemoryService.open(clock=clock, config=MemoryConfig(embedding_spaces=spaces)) as memory:
        memory.write([thing(f't{i}', embeddings={'clip@1': vector}) for i, vector in enumerate(vectors)])
        question = MemoryQuery(embedding=('clip@1', vectors[7]), k=3)
        until(lambda: memory.query(question).evidence[0].generation_id)
        answer = memory.query(question, receipt=True)
        told = memory.receipt(answer.receipt_id)
        assert told['exactness'] == 'approximate_candidate_generation_with_exact_rerank'
        assert told['candidates']['reranked'] >= 30
        chain = memory.chain(answer.receipt_id)
        (generation,) = chain.step('generation')
        assert (generation.digest, generation.about) == (told['sources'][0]['generation_id'], backend)
        assert len(chain.step('embedding')) == 3
        packed = CompressionArtifactIdentity(
            source=GenerationDigest(generation.digest), bytes_digest=SHA('b'), manifest_digest=SHA('m'),
            codec=Codec(family=backend, version='1', profile='x'), receipt_digest=SHA('r'),
        )  # fmt: skip
        memory.register(answer.receipt_id, packed)
        assert memory.chain(answer.receipt_id).step('artifact')[0].about == f'of {generation.digest}'
        memory.write([thing('twin', embeddings={'clip@1': vectors[7]})])
        replay = memory.replay_receipt(answer.receipt_id)
        assert replay.same, replay


def test_what_is_no_link_of_the_chain_is_not_registered(memory: MemoryService) -> None:
    name = memory.render(NEAR, receipt=True).receipt_id
    other = memory.render(MemoryQuery(key='mug'), receipt=True)
    with pytest.raises(InvalidRequestError, match='is no link of the chain'):
        memory.register(name, cached(other.whole.digest))
    with pytest.raises(InvalidRequestError, match='is no link of the chain'):
        memory.register(name, artifact())
    with pytest.raises(InvalidRequestError, match=r'expected a TokenKvIdentity or a Compr.*, got SemanticId'):
        memory.register(name, semantic())
    unrendered = memory.query(NEAR, receipt=True).receipt_id
    with pytest.raises(InvalidRequestError, match='is no link of the chain'):
        memory.register(unrendered, cached(other.whole.digest))
    assert memory.chain(name).step('token_kv') == ()


def test_a_purge_takes_what_was_made_of_the_answer_too(memory: MemoryService) -> None:
    rendering = memory.render(NEAR, receipt=True)
    memory.register(rendering.receipt_id, cached(rendering.whole.digest))
    memory.purge(MemoryQuery(key='mug'))
    chain = memory.chain(rendering.receipt_id)
    assert not chain.complete
    assert (chain.step('token_kv'), chain.step('segment')) == ((), ())


def test_receipts_of_associations_come_through_the_same_door(memory: MemoryService) -> None:
    body = {'id': 'association/1', 'kind': 'merge', 'keys': ['mug/1']}
    decided = AssociationReceipt('association/1', 'home', 5, ['mug/1'], json.dumps(body))
    write_tables(memory, lambda connection: AssociationReceiptRepository(connection).save([decided], 9))
    assert memory.receipt('association/1') == body
    with pytest.raises(InvalidRequestError, match='only retrievals are replayed'):
        memory.replay_receipt('association/1')
    with pytest.raises(NotFoundError, match='has no chain'):
        memory.chain('association/1')


def test_may_reuse_answers_with_reasons(memory: MemoryService) -> None:
    before = cached(memory.render(NEAR).whole.digest)
    assert memory.may_reuse(before, cached(memory.render(NEAR).whole.digest))
    memory.write([thing('mug', 7.0, valid_from=500)])
    answer = memory.may_reuse(before, cached(memory.render(NEAR).whole.digest))
    assert [reason.partition(':')[0] for reason in answer.reasons] == ['renderer']


def test_codecs_of_a_cache_have_keys_and_values() -> None:
    with pytest.raises(ValueError, match='a compressed cache has both'):
        CompressionArtifactIdentity(
            source=TokenKvDigest.of({}), codec=Codec(family='x', version='1', profile='y'),
            bytes_digest=SHA('b'), manifest_digest=SHA('m'), receipt_digest=SHA('r'),
        )  # fmt: skip


def test_a_receipt_survives_a_restart_and_a_restore(
    memory: MemoryService, clock: Clock, tmp_path: Path
) -> None:
    answer = memory.query(NEAR, receipt=True)
    memory._core.receipts.flush()
    memory.snapshot(str(tmp_path / 'copy.db'))
    memory.write([thing('jug', 0.1)])
    memory.restore(str(tmp_path / 'copy.db'))
    assert memory.replay_receipt(answer.receipt_id).same
