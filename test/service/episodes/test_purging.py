"""What a purge takes out of episodes, and what it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from service.episodes.pieces import an_episode, fact, facts_of, keys_of, summary_of
from support.clock import ManualClock

from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.service import MemoryService


@pytest.fixture
def memory(kept: MemoryService) -> MemoryService:
    """In a file."""
    return kept


class TestPurge:
    def remains(self, path: Path, *words: str) -> set[str]:
        return {
            f'{file.name}: {word}'
            for file in path.parent.iterdir()
            for word in words
            if word.encode() in file.read_bytes()
        }

    def test_key_events_and_the_summary_leave_with_what_they_are_about(
        self, memory: MemoryService, path: Path
    ) -> None:
        memory.begin_episode('run', note='visit the lab')
        (secret, _) = memory.write([fact('zebra', 'a zebra lives here'), fact('dock')]).ids
        memory.forget(MemoryQuery(key='zebra'))
        memory.end_episode(outcome='success')
        events = memory.query(MemoryQuery(labels=['episode_event']))
        (about,) = (hit.item.id for hit in events if 'zebra' in hit.item.content)
        summary = summary_of(memory, 'run').id
        removal = memory.purge(MemoryQuery(key='zebra'))
        assert removal.ids == (secret, about, summary)
        assert self.remains(path, 'zebra', secret, str(about)) == set()
        assert memory.query(MemoryQuery(key='episode/run')).total == 0
        assert memory.episodes()[0].note == 'visit the lab'

    def test_notes_and_outcomes_that_name_it_leave_and_their_summary_with_them(
        self, memory: MemoryService, path: Path
    ) -> None:
        memory.write([fact('zebra', 'Zoe the zebra', entities=('Zoe',)), fact('cat', 'the cat')])
        an_episode(memory, 'one', 'found zoe', fact('dock'), note='look for Zoe', scope={'task_id': 't'})
        an_episode(memory, 'two', 'success', note='look for the dock')
        memory.begin_episode('three', note='bring ZOE a cup')
        memory.purge(MemoryQuery(entities=['Zoe']))
        assert self.remains(path, 'Zoe', 'zoe', 'ZOE', 'zebra', 'Zebra') == set()
        told = {one.id: (one.note, one.outcome) for one in memory.episodes()}
        assert told == {'one': ('', 'purged'), 'two': ('look for the dock', 'success'), 'three': ('', '')}
        assert memory.query(MemoryQuery(key='episode/one', include_invalidated=True)).total == 0
        assert summary_of(memory, 'two').payload['outcome'] == 'success'
        assert facts_of(memory, outcome='purged') == {'dock'}
        memory.end_episode(outcome='success')

    def test_notes_that_name_it_not_stay(self, memory: MemoryService) -> None:
        memory.write([fact('cup', 'a cup of tea')])
        an_episode(memory, 'run', 'success', note='tea in a hiccup')
        memory.purge(MemoryQuery(key='cup'))
        assert memory.episodes()[0].note == 'tea in a hiccup'

    def test_an_episode_of_which_nothing_is_left_has_no_name(self, memory: MemoryService, path: Path) -> None:
        an_episode(
            memory, 'zebra-visit', 'zebra fed', fact('dock'), note='feed the zebra', actor='zebra keeper',
            scope={'task_id': 'zebra'},
        )  # fmt: skip
        memory.begin_episode('next')
        answer = memory.query(MemoryQuery(key='dock'), receipt=True)
        memory.purge(MemoryQuery(episode='zebra-visit'))
        assert self.remains(path, 'zebra-visit', 'zebra fed', 'feed the zebra') == set()
        gone = memory.episodes()[-1]
        assert (gone.id, gone.outcome, gone.scope, gone.note, gone.actor) == (
            'purged-1',
            'purged',
            {},
            '',
            '',
        )
        assert memory.changes().changes[0].episode == 'purged-1'
        assert memory.receipt(answer.receipt_id)['episode'] == 'next'
        memory.end_episode(outcome='success')

    def test_receipts_forget_its_name_too(self, memory: MemoryService, path: Path) -> None:
        memory.begin_episode('zebra-visit')
        answer = memory.query(MemoryQuery(key='dock'), receipt=True)
        memory.end_episode(outcome='success')
        memory.purge(MemoryQuery(episode='zebra-visit'))
        assert memory.receipt(answer.receipt_id)['episode'] == 'purged-1'
        assert self.remains(path, 'zebra-visit') == set()

    def test_a_summary_alone_takes_its_notes_and_leaves_the_rest(self, memory: MemoryService) -> None:
        an_episode(memory, 'run', 'success', fact('dock'), note='a note')
        memory.purge(MemoryQuery(key='episode/run'))
        (run,) = memory.episodes('purged')
        assert (run.id, run.note) == ('run', '')
        assert facts_of(memory, episode='run', outcome='purged') == {'dock'}

    def test_archived_statements_count_as_before_and_leave_too(
        self, memory: MemoryService, path: Path, clock: ManualClock
    ) -> None:
        (secret,) = memory.write([fact('zebra', 'a zebra lives here', valid_from=1)]).ids
        memory.begin_episode('run', note='feed it')
        memory.write([fact('dock', valid_from=1)])
        memory.forget(MemoryQuery(key='zebra'))
        memory.end_episode(outcome='success')
        clock.set(2000.0)
        memory.forget(MemoryQuery(episode='run'))
        ever = {'include_invalidated': True, 'kinds': frozenset({'semantic', 'episodic'})}
        before = [keys_of(memory, **asked, **ever) for asked in ({'episode': 'run'}, {'outcome': 'success'})]
        store = memory._core.store
        clock.set(3000.0)
        assert store.archive.move([one.identity_id for one in store.archive.archivable()]).assertions > 3  # type: ignore[attr-defined]
        after = [keys_of(memory, **asked, **ever) for asked in ({'episode': 'run'}, {'outcome': 'success'})]
        assert (after, len(before[0])) == (before, 4)
        hits = memory.query(MemoryQuery(key='dock', include_invalidated=True))
        assert [hit.episode for hit in hits] == ['run']
        assert memory.history(key='dock').versions[0].episode == 'run'
        memory.purge(MemoryQuery(key='zebra'))
        assert self.remains(path, 'zebra', secret) == set()
        assert keys_of(memory, episode='run', **ever) == before[0] - {
            'forgot semantic zebra: a zebra lives here',
            'episode/run',
        }
        assert memory.episodes()[0].note == 'feed it'

    def test_a_trial_changes_nothing(self, memory: MemoryService) -> None:
        an_episode(memory, 'run', 'success', fact('zebra'), note='zebra')
        before = (memory.snapshot(), memory.episodes(), keys_of(memory))
        trial = memory.purge(MemoryQuery(key='zebra'), dry_run=True)
        assert (memory.snapshot(), memory.episodes(), keys_of(memory)) == before
        assert memory.purge(MemoryQuery(key='zebra')).ids == trial.ids
