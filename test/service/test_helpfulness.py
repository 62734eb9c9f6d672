"""The scorer `memory_helpfulness`: what an episode looked up, and how the episode ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import ValidationError
from scipy.stats import beta
from support.tables import read_tables

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model import Helpfulness, MemoryItem, MemoryQuery
from hylo_memory_ros.model.feedback import EPISODE_WEIGHT, NEVER_JUDGED
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.schema import episode_retrieval, helpfulness


@pytest.fixture
def memory() -> Iterator[MemoryService]:
    with MemoryService.open() as opened:
        opened.write(
            [MemoryItem(kind='semantic', key=key, content=key, valid_from=1) for key in ('dock', 'door')]
        )
        yield opened


def look_up(memory: MemoryService, key: str, times: int = 1) -> None:
    for _ in range(times):
        memory.query(MemoryQuery(key=key), receipt=True)


def counted(memory: MemoryService, key: str) -> Helpfulness:
    (hit,) = memory.query(MemoryQuery(key=key))
    return (hit.stats and hit.stats.helpfulness) or Helpfulness()


def left(memory: MemoryService) -> list[Any]:
    return read_tables(memory, lambda connection: list(connection.execute(sa.select(episode_retrieval))))


@pytest.mark.parametrize(
    ('outcome', 'succeeded', 'failed'),
    [('success', 1, 0), ('SUCCEEDED', 1, 0), ('failure', 0, 1), ('Aborted', 0, 1), ('canceled', 0, 0)],
)
def test_the_end_of_an_episode_counts_once_for_all_that_it_looked_up(
    memory: MemoryService, outcome: str, succeeded: int, failed: int
) -> None:
    look_up(memory, 'door')
    memory.begin_episode('lap')
    look_up(memory, 'dock', times=5)
    memory.end_episode(outcome=outcome)
    dock, door = counted(memory, 'dock'), counted(memory, 'door')
    assert (dock.succeeded, dock.failed, dock.retrieved) == (succeeded, failed, 5)
    assert (door.succeeded, door.failed, door.retrieved) == (0, 0, 1)
    assert dock.score == pytest.approx(0.5 + (succeeded - failed) * (0.5 - 1 / (2 + EPISODE_WEIGHT)))
    assert left(memory) == []


def test_each_episode_counts_for_itself(memory: MemoryService) -> None:
    for number, outcome in enumerate(('success', 'success', 'failure')):
        memory.begin_episode(f'lap {number}')
        look_up(memory, 'dock')
        memory.end_episode(outcome=outcome)
    dock = counted(memory, 'dock')
    assert (dock.succeeded, dock.failed, dock.retrieved) == (2, 1, 3)


def test_a_verdict_weighs_more_than_the_end_of_an_episode(memory: MemoryService) -> None:
    memory.begin_episode('lap')
    answer = memory.query(MemoryQuery(key='dock'), receipt=True)
    memory.feedback('misleading', receipt_id=answer.receipt_id)
    memory.end_episode(outcome='success')
    dock = counted(memory, 'dock')
    assert (dock.misleading, dock.succeeded) == (1, 1)
    assert dock.score < NEVER_JUDGED


def test_an_episode_that_outlives_the_process_still_counts(tmp_path: Path) -> None:
    url = f'sqlite:///{tmp_path}/memory.db'
    with MemoryService.open(url) as memory:
        memory.write([MemoryItem(kind='semantic', key='dock', content='dock', valid_from=1)])
        memory.begin_episode('lap')
        look_up(memory, 'dock')
    with MemoryService.open(url) as memory:
        assert len(left(memory)) == 1
        memory.end_episode(outcome='success')
        assert counted(memory, 'dock').succeeded == 1


def test_what_is_purged_within_an_episode_is_not_scored(memory: MemoryService) -> None:
    memory.begin_episode('lap')
    look_up(memory, 'dock')
    look_up(memory, 'door')
    memory.purge(MemoryQuery(key='dock'))
    memory.end_episode(outcome='success')
    rows = read_tables(memory, lambda connection: list(connection.execute(sa.select(helpfulness))))
    assert [row.succeeded for row in rows] == [1]
    assert left(memory) == []


def test_which_outcomes_speak_for_or_against_is_configured(tmp_path: Path) -> None:
    config = MemoryConfig(helpfulness_success_outcomes=('Geschafft',), helpfulness_failure_outcomes=())
    with MemoryService.open(config=config) as memory:
        memory.write([MemoryItem(kind='semantic', key='dock', content='dock', valid_from=1)])
        for outcome in ('geschafft', 'success', 'failure'):
            memory.begin_episode(outcome)
            look_up(memory, 'dock')
            memory.end_episode(outcome=outcome)
        assert (counted(memory, 'dock').succeeded, counted(memory, 'dock').failed) == (1, 0)


def test_an_outcome_cannot_be_both() -> None:
    with pytest.raises(ValidationError, match="'done' cannot be both"):
        MemoryConfig(helpfulness_success_outcomes=('Done',), helpfulness_failure_outcomes=('done', 'failed'))


@pytest.mark.parametrize('fields', [{}, {'useful': 3}, {'wrong': 2, 'misleading': 1}, {'succeeded': 7}])
def test_the_score_is_the_mean_of_a_beta_posterior(fields: dict[str, int]) -> None:
    counts = Helpfulness(**fields)
    favour, against = counts.evidence
    assert counts.score == pytest.approx(beta(1 + favour, 1 + against).mean())
    assert 0.0 < counts.score < 1.0


def test_what_does_not_apply_speaks_neither_for_nor_against() -> None:
    assert Helpfulness(not_applicable=9).score == NEVER_JUDGED == Helpfulness().score
