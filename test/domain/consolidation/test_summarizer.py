"""Summaries: the default says the same of the same; another one is an entry point; one that fails is told."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from support.clock import ManualClock

from hylo_memory_ros import plugins
from hylo_memory_ros.config import ConsolidationSettings, MemoryConfig
from hylo_memory_ros.domain.consolidation import GROUP, Extractive, load_summarizer
from hylo_memory_ros.errors import ConfigurationError
from hylo_memory_ros.model import Budget, MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService


def item(content: str, at_s: float, label: str = '') -> MemoryItem:
    return MemoryItem(kind='episodic', content=content, label=label, valid_from=at_s)


def test_first_and_last_come_first_then_what_shares_most_words() -> None:
    items = [
        item('Left the dock.', 0),
        item('A parrot shouted.', 60),
        item('Drove to the kitchen table.', 120, 'table'),
        item('Drove from the kitchen table to the hall.', 180, 'table'),
        item('Reached the dock. Charging.', 240, 'dock'),
    ]
    assert Extractive().summarize(items, 1000) == (
        '5 records, 1970-01-01T00:00:00Z to 1970-01-01T00:04:00Z (table x2, dock x1):\nLeft the dock.\n'
        'A parrot shouted.\nDrove to the kitchen table.\nDrove from the kitchen table to the hall.\n'
        'Reached the dock.\nCharging.'
    )
    short = Extractive().summarize(items, 150)
    assert short.endswith(':\nLeft the dock.\nDrove to the kitchen table.\nReached the dock.\nCharging.')
    assert len(short.encode()) <= 150


def test_what_is_said_again_is_counted() -> None:
    said = 'Door 3 opened.', 'Door 4 opened.', 'door 3 opened', 'Bell rang.'
    text = Extractive().summarize([item(one, n) for n, one in enumerate(said)], 500)
    assert text.endswith(':\nDoor 3 opened. (x2)\nDoor 4 opened.\nBell rang.')


@pytest.mark.parametrize('most', [64, 65, 66, 67, 80])
def test_it_fits_whatever_the_letters(most: int) -> None:
    items = [item('ü' * 40 + '.', 0, 'ß' * 40), item('漢字' * 30, 1)]
    text = Extractive().summarize(items, most)
    assert 0 < len(text.encode()) <= most


def test_without_a_sentence_only_the_head_is_left() -> None:
    text = Extractive().summarize([item('', 0), item('...', 1)], 500)
    assert text == '2 records, 1970-01-01T00:00:00Z to 1970-01-01T00:00:01Z:'


class Counting:
    """Says how many there are."""

    name = 'counting@1'

    def summarize(self, items: Sequence[MemoryItem], max_bytes: int) -> str:
        return f'{len(items)} things, {max_bytes} bytes at most'


class Failing(Counting):
    """Raises, where it is asked for more than two."""

    name = 'failing@1'

    def summarize(self, items: Sequence[MemoryItem], max_bytes: int) -> str:
        raise RuntimeError('no model')


class Babbling(Counting):
    """Keeps to no limit."""

    name = 'babbling@1'

    def summarize(self, items: Sequence[MemoryItem], max_bytes: int) -> str:
        return 'x' * (max_bytes + 1)


class Silent(Counting):
    """Says nothing."""

    name = 'silent@1'

    def summarize(self, items: Sequence[MemoryItem], max_bytes: int) -> str:
        return '  '


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint(one.name, f'{__name__}:{one.__name__}', GROUP)
        for one in (Counting, Failing, Babbling, Silent)
    ]
    points.append(EntryPoint('broken@1', f'{__name__}:Missing', GROUP))
    monkeypatch.setattr(plugins, 'entry_points', lambda group: points if group == GROUP else [])


def consolidated(name: str) -> tuple[Any, list[str], bool]:
    config = MemoryConfig(consolidation=ConsolidationSettings(summarizer=name))
    with MemoryService.open(clock=ManualClock(1e6), config=config) as memory:
        memory.write(
            [item(f'went {word}', 10.0 * n) for n, word in enumerate(('up', 'down', 'left', 'right'))]
        )
        before = memory.snapshot()
        report = memory.consolidate(budget=Budget(items=1))
        return report, [hit.item.content for hit in memory.query(MemoryQuery())], memory.snapshot() == before


@pytest.mark.usefixtures('installed')
def test_an_installed_one_is_used_by_its_name() -> None:
    assert load_summarizer('counting@1').name == 'counting@1'
    report, said, _ = consolidated('counting@1')
    assert report.met
    assert said == ['4 things, 1024 bytes at most']


@pytest.mark.usefixtures('installed')
@pytest.mark.parametrize(
    ('name', 'reason'),
    [('failing@1', 'no model'), ('babbling@1', '1025 bytes'), ('silent@1', 'has 2 bytes')],
)
def test_one_that_fails_is_told_and_leaves_all_as_it_was(name: str, reason: str) -> None:
    report, said, same = consolidated(name)
    assert (report.met, report.summarized, report.consolidation_id, same) == (False, (), '', True)
    assert len(said) == 4
    (why,) = report.skipped.values()
    assert name in why
    assert reason in why


@pytest.mark.usefixtures('installed')
@pytest.mark.parametrize('name', ['nonsense@1', 'broken@1'])
def test_one_that_is_not_there_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        consolidated(name)
