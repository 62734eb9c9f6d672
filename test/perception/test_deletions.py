"""A deletion ends what its own input has made, at its stamp, and makes nothing."""

from typing import Any

import numpy as np
import pytest
from perception.pieces import (
    NS,
    START_NS,
    a_message,
    a_pipeline,
    an_input,
    landmarks_of,
    open_memory,
    some_settings,
    state_of,
    stored_receipts,
)

from hylo_memory_ros.perception import Deletion, Detections, LandmarkPipeline, Message

SETTINGS = some_settings(an_input('shapes'), an_input('others'), confirm_n=2)
ALL = Deletion(namespaces=frozenset({''}))


def shows(second: float, *names: str, source: str = 'shapes') -> Message:
    places = [(float(index), 1.0, 0.0) for index, _ in enumerate(names)]
    return a_message(
        second, places, [name.partition('/')[0] for name in names], source=source, instances=names
    )


def deletes(second: float, deletion: Deletion, source: str = 'shapes') -> Message:
    nothing = Detections((), np.empty((0, 3)))
    return Message(source, START_NS + round(second * NS), '', 99, nothing, deletion=deletion)


@pytest.fixture
def memory() -> Any:
    with open_memory() as memory:
        yield memory


def fed(memory: Any, *messages: Message, commit_every: int = 0) -> LandmarkPipeline:
    pipeline = a_pipeline(memory, SETTINGS)
    for number, message in enumerate(messages, 1):
        pipeline.offer(message)
        pipeline.poll()
        if commit_every and number % commit_every == 0:
            pipeline.flush()
            pipeline.commit()
    pipeline.close()
    return pipeline


def keys(memory: Any, second: float) -> set[str]:
    return {hit.item.key for hit in landmarks_of(memory, as_of_ns=START_NS + round(second * NS))}


SEEN = [shows(second, 'a/1', 'a/2', 'b/1') for second in (1, 2, 3)]


@pytest.mark.parametrize(
    ('deletion', 'left'),
    [
        (Deletion(names=frozenset({'a/1'})), {'a/2', 'b/1'}),
        (Deletion(names=frozenset({'a/9'})), {'a/1', 'a/2', 'b/1'}),
        (Deletion(namespaces=frozenset({'a'})), {'b/1'}),
        (ALL, set()),
        (Deletion(namespaces=frozenset({''}), kept=frozenset({'a/2'})), {'a/2'}),
    ],
)
def test_what_is_deleted_ends_at_the_stamp_and_stays_answerable(
    memory: Any, deletion: Deletion, left: set[str]
) -> None:
    fed(memory, *SEEN, deletes(4, deletion))
    assert keys(memory, 3.9) == {'a/1', 'a/2', 'b/1'}
    assert keys(memory, 4.0) == keys(memory, 100.0) == left
    told = stored_receipts(memory, 'deletion')
    gone = {'a/1', 'a/2', 'b/1'} - left
    assert {one['landmark'] for receipt in told for one in receipt['decisions']} == gone


def test_a_deletion_makes_nothing(memory: Any) -> None:
    pipeline = fed(memory, deletes(1, ALL), deletes(2, Deletion(names=frozenset({'a/1'}))))
    assert pipeline.status().landmarks == 0
    assert len(landmarks_of(memory, include_invalidated=True)) == 0
    assert pipeline.status().inputs[0].consumed == 1 + 1


def test_what_is_shown_again_begins_anew_under_its_name(memory: Any) -> None:
    fed(memory, *SEEN, deletes(4, ALL), shows(6, 'a/1'), shows(7, 'a/1'))
    assert keys(memory, 5) == set()
    assert keys(memory, 6) == {'a/1'}


def test_only_the_things_of_the_input_itself_are_deleted(memory: Any) -> None:
    others = [shows(second, 'c/1', source='others') for second in (1, 2, 3, 5)]
    unnamed = [a_message(second, [(9.0, 9.0, 0.0)], 'cup', source='others') for second in (1.1, 2.1, 3.1)]
    messages = [*SEEN, *others, *unnamed, deletes(4, ALL)]
    fed(memory, *sorted(messages, key=lambda message: message.order))
    assert {key.partition('/')[0] for key in keys(memory, 10)} == {'c', 'cup'}


def test_a_thing_that_was_never_confirmed_comes_to_nothing(memory: Any) -> None:
    pipeline = fed(memory, shows(1, 'a/1'), deletes(2, ALL))
    assert pipeline.status().landmarks == 0
    assert keys(memory, 10) == set()


def test_evidence_from_before_a_deletion_does_not_undo_it(memory: Any) -> None:
    fed(memory, *SEEN, deletes(4.2, ALL), shows(4.1, 'a/1'))
    assert keys(memory, 4.15) == {'a/1', 'a/2', 'b/1'}
    assert keys(memory, 5) == set()


@pytest.mark.parametrize('commit_every', [1, 2, 3])
def test_when_it_is_committed_changes_nothing(memory: Any, commit_every: int) -> None:
    messages = [
        *SEEN,
        deletes(4, ALL),
        shows(6, 'a/1'),
        shows(7, 'a/1'),
        shows(8, 'a/1', 'b/1'),
        deletes(9, ALL),
    ]
    messages += [shows(second, 'b/1') for second in (10, 11)]
    fed(memory, *messages)
    with open_memory() as other:
        fed(other, *messages, commit_every=commit_every)
        assert other.snapshot() == memory.snapshot()
        assert state_of(other)[1:3] == state_of(memory)[1:3]
        assert keys(other, 12) == keys(memory, 12) == {'b/1'}


def test_a_deletion_that_comes_again_is_recognized(memory: Any) -> None:
    pipeline = fed(memory, *SEEN, deletes(4, ALL), shows(6, 'a/1'), shows(7, 'a/1'))
    assert pipeline.offer(deletes(4, ALL)) == 'repeated'


def test_it_is_remembered_over_a_restart_who_made_a_thing(memory: Any) -> None:
    fed(memory, *SEEN)
    fed(memory, deletes(4, ALL))
    assert keys(memory, 10) == set()
