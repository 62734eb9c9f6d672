"""Summarizers (several statements to one text), and the lineage of summaries.

The default is extractive and deterministic. Another one is installed as an entry point of the group `GROUP`:
a callable without arguments that returns a `Summarizer`, called once for each memory.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import count
from typing import Any, Protocol

from hylo_memory_ros.errors import ConfigurationError
from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.plugins import made_by_plugin

SUMMARIZES = 'summarizes'
"""Relation of a summary to each statement that it replaces."""
CONSOLIDATED = 'consolidated'
"""Name in the payload of a summary under which it describes them."""


def is_summary(item: MemoryItem) -> bool:
    """Return True if an item is a summary."""
    return bool(_lineage(item))


def without_lineage(item: MemoryItem) -> MemoryItem:
    """Return an item that is no summary without a lineage that its writer put into the payload."""
    if CONSOLIDATED not in item.payload:
        return item
    payload = {name: value for name, value in item.payload.items() if name != CONSOLIDATED}
    return item.model_copy(update={'payload': payload})


def event_count(item: MemoryItem) -> int:
    """Return the number of events behind an item: 1 unless it is a summary."""
    return int(_lineage(item).get('stands_for', 1))


def count_labels(items: Iterable[MemoryItem]) -> Counter[str]:
    """Count the labels of the events behind items."""
    labels: Counter[str] = Counter()
    for item in items:
        if lineage := _lineage(item):
            labels.update(lineage.get('labels', {}))
        elif item.label:
            labels[item.label] += 1
    return labels


def first_ns(item: MemoryItem) -> int:
    """Return the begin of the first event behind an item, nanoseconds."""
    return item.event_time.start_ns if item.event_time is not None else item.valid_from_ns or 0


def last_ns(item: MemoryItem) -> int:
    """Return the end of the last event behind an item, nanoseconds."""
    if item.event_time is None or item.event_time.end_ns is None:
        return first_ns(item)
    return item.event_time.end_ns


def _lineage(item: MemoryItem) -> Mapping[str, Any]:
    """Return the lineage of a summary; empty for any other item, whatever its payload holds."""
    lineage = item.payload.get(CONSOLIDATED)
    if not isinstance(lineage, dict) or not any(relation == SUMMARIZES for relation, _ in item.links):
        return {}
    labels = lineage.get('labels', {})
    counts = [lineage.get('stands_for'), *(labels.values() if isinstance(labels, dict) else [None])]
    return lineage if all(type(count) is int for count in counts) else {}


_WORD = re.compile(r'\w+')
# A number keeps its sign, point and colon; a symbol such as a degree sign is a word of its own.
_SAID = re.compile(r'(?<!\w)[-+\u2212]?\d+(?:[.,:/-]\d+)*\w*|\w+|[^\w\s.,;:!"\'()\u2026]')
_BETWEEN_SENTENCES = re.compile(r'(?<=[.!?])\s+|\s*\n\s*')


def normal_words(text: str) -> list[str]:
    """Return the words of a text without case and punctuation, in Unicode's compatible form.

    Numbers and signs are words.

    Examples
    --------
    >>> normal_words('Saw the MUG, at 12:03!') == normal_words('saw the mug at 12:03')
    True
    >>> normal_words('O12 is at -3.5 °C')
    ['o12', 'is', 'at', '-3.5', '°', 'c']
    """
    if not text.isascii():
        text = unicodedata.normalize('NFKC', text)
    return _SAID.findall(text.casefold())


def numbers(words: Iterable[str]) -> tuple[str, ...]:
    """Return those of words that hold a digit.

    Examples
    --------
    >>> numbers(normal_words('took O12 to room 7'))
    ('o12', '7')
    """
    return tuple(word for word in words if any(map(str.isdigit, word)))


def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text, those without a word left out.

    Examples
    --------
    >>> sentences('Left the dock. Battery 3.5 V!')
    ['Left the dock.', 'Battery 3.5 V!']
    """
    parts = (part.strip() for part in _BETWEEN_SENTENCES.split(text))
    return [part for part in parts if _WORD.search(part)]


GROUP = 'hylo_memory_ros.summarizers'
"""Entry point group of summarizers."""
DEFAULT_SUMMARIZER = 'extractive@1'
_MOST_LABELS = 8
_ENDS = '.', '!', '?', ';', ':', '\u2026', '\u3002', '\uff01', '\uff1f', '\u0964', '\u061f'
_TIMES = re.compile(r' \(x([1-9]\d{0,8})\)$')


class Summarizer(Protocol):
    """Makes one text of several statements."""

    name: str
    """``name@version``; other texts for the same items need another version."""

    def summarize(self, items: Sequence[MemoryItem], max_bytes: int) -> str:
        """Return a text that summarizes items.

        Parameters
        ----------
        items : sequence of MemoryItem
            At least two, in order of world time.
        max_bytes : int
            Most bytes of the text in UTF-8.
        """


@dataclass(frozen=True)
class _Sentence:
    place: int
    text: str
    words: tuple[str, ...]


class Extractive:
    """Gives the number of records, their time span and labels, and the most informative sentences.

    A sentence weighs as much as its words on average, a word as often as statements hold it. The first
    and the last sentence are taken first, then the weightiest, of equal ones the earlier, while there is
    room; a repetition of a sentence taken before is counted with it. Sentences are in order of time,
    each on a line and closed by a full stop. Sentences quoted by a summary keep their counts.
    """

    name = DEFAULT_SUMMARIZER

    def summarize(self, items: Sequence[MemoryItem], max_bytes: int) -> str:
        """Return the head and the sentences that fit."""
        head = _cut(_head(items), max_bytes)
        by_words, weight = _distinct(items)
        room = max_bytes - len(head.encode())
        chosen: list[tuple[int, str]] = []
        for sentence, times in _in_order_of_weight(by_words, weight):
            text = f'\n{_close_sentence(sentence.text)}' + (f' (x{times})' if times > 1 else '')
            size = len(text.encode())
            if size <= room:
                chosen.append((sentence.place, text))
                room -= size
        return head + ''.join(text for _, text in sorted(chosen))


def _head(items: Sequence[MemoryItem]) -> str:
    counted = ', '.join(f'{label} x{times}' for label, times in _most_common(count_labels(items)))
    between = f'{_utc(min(map(first_ns, items)))} to {_utc(max(map(last_ns, items)))}'
    return f'{sum(map(event_count, items))} records, {between}' + (f' ({counted})' if counted else '') + ':'


def _most_common(labels: Counter[str]) -> list[tuple[str, int]]:
    return sorted(labels.items(), key=lambda one: (-one[1], one[0]))[:_MOST_LABELS]


def _utc(stamp_ns: int) -> str:
    moment = datetime.fromtimestamp(stamp_ns // 1_000_000_000, timezone.utc)
    return moment.replace(tzinfo=None).isoformat() + 'Z'


def _close_sentence(text: str) -> str:
    return text if text.endswith(_ENDS) else f'{text}.'


def _cut(text: str, max_bytes: int) -> str:
    return text.encode()[:max_bytes].decode(errors='ignore')


_Sentences = dict[tuple[str, ...], tuple[_Sentence, int]]


def _distinct(items: Sequence[MemoryItem]) -> tuple[_Sentences, Counter[str]]:
    """Return each sentence once with its count, and the number of items that hold each word."""
    by_words: _Sentences = {}
    weight: Counter[str] = Counter()
    places = count()
    for item in items:
        held: set[str] = set()
        for text, more in _sentences(item):
            place = next(places)
            words = tuple(normal_words(text))
            held.update(words)
            first, times = by_words.get(words, (_Sentence(place, text, words), 0))
            by_words[words] = first, times + more
        weight.update(held)
    # Numbers and symbols carry no topic of their own: only words with letters weigh.
    weight = Counter({word: times for word, times in weight.items() if any(map(str.isalpha, word))})
    return by_words, weight


def _sentences(item: MemoryItem) -> Iterator[tuple[str, int]]:
    """Yield the sentences of an item, each with its count."""
    if item.source != DEFAULT_SUMMARIZER or not is_summary(item):
        # A merged item repeats its text for each of its near duplicates.
        yield from ((text, event_count(item)) for text in sentences(item.content))
        return
    _, *quoted = item.content.splitlines()
    for text in quoted:
        counted = _TIMES.search(text)
        yield (text[: counted.start()], int(counted[1])) if counted else (text, 1)


def _in_order_of_weight(by_words: _Sentences, weight: Counter[str]) -> list[tuple[_Sentence, int]]:
    ends = {sentence.place for sentence, _ in by_words.values()}
    ends = {min(ends), max(ends)} if ends else ends

    def rank(one: tuple[_Sentence, int]) -> tuple[bool, float, int]:
        sentence = one[0]
        central = sum(weight[word] for word in sentence.words) / len(sentence.words)
        return sentence.place not in ends, -central, sentence.place

    return sorted(by_words.values(), key=rank)


def load_summarizer(name: str) -> Summarizer:
    """Return a summarizer by name: built in, or of an installed entry point.

    Raises
    ------
    ConfigurationError
        None is registered under this name, or it cannot be loaded.
    """
    ours = {DEFAULT_SUMMARIZER: Extractive}
    made: Summarizer = made_by_plugin(GROUP, name, 'consolidation.summarizer', ours, ConfigurationError)
    return made
