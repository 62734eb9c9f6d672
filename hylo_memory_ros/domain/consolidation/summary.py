"""Composer of summary items from several events, deterministic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from hylo_memory_ros.domain.consolidation.planner import NEAR_DUPLICATE, NEAR_DUPLICATE_DISTANCE_M, Rule
from hylo_memory_ros.domain.consolidation.summarizer import (
    CONSOLIDATED,
    SUMMARIZES,
    Summarizer,
    count_labels,
    event_count,
    first_ns,
    last_ns,
)
from hylo_memory_ros.domain.identity import canonical_bytes
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import EmbeddingSpace, MemoryItem, MemoryKind, Pose, TimeSpan, validate_text

# Bytes of the text of a summary in UTF-8, at most.
_SUMMARY_BYTES = 1024


class Composer:
    """Composes the items that replace others.

    Parameters
    ----------
    summarizer : Summarizer
        Writes their texts.
    clock : str
        Name of the service clock, used for events without a time of their own.
    turn : int
        Number of reverted consolidations: a summary composed again afterwards has another id.
    embed : callable
        Adds the vectors of its text to an item.
    spaces : callable
        Returns the declaration of an embedding space, or None.
    """

    def __init__(
        self,
        summarizer: Summarizer,
        clock: str,
        turn: int,
        embed: Callable[[MemoryItem], MemoryItem],
        spaces: Callable[[str], EmbeddingSpace | None],
    ) -> None:
        self._summarizer = summarizer
        self._clock = clock
        self._turn = turn
        self._embed = embed
        self._spaces = spaces

    def compose(self, rule: Rule, items: Sequence[MemoryItem], level: int) -> MemoryItem:
        """Return the item that replaces others, with its id and without ``valid_from``.

        Label, scope and links are those that all have in common, entities and objects those of any, its
        time spans theirs. Near duplicates keep the text and the place of the first, what their payloads
        have in common, and the highest confidence; a summary has the lowest, and a place only where all
        are near to the first.

        Parameters
        ----------
        rule : str
            ``merge`` or ``summary``.
        items : sequence of MemoryItem
            At least two, in order of world time.
        level : int
            1 above the highest level among the items; events have level 0.

        Raises
        ------
        InvalidRequestError
            The summarizer failed, or its text cannot be stored.
        """
        merged = rule == 'merge'
        name = self._maker(rule)
        confidence = [item.confidence for item in items]
        made = MemoryItem(
            id=self.id_of(rule, items),
            kind=MemoryKind.EPISODIC,
            content=items[0].content if merged else self._text(items),
            label=_common(item.label for item in items) or '',
            payload=self._payload(name, items, level, keep=merged),
            entities=_unite(item.entities for item in items),
            object_ids=_unite(item.object_ids for item in items),
            links=(*_shared_links(items), *((SUMMARIZES, str(item.id)) for item in items)),
            scope=_shared_scope(items),
            pose=self._pose(items, math.inf if merged else NEAR_DUPLICATE_DISTANCE_M),
            event_time=self._span(items),
            confidence=max(confidence) if merged else min(confidence),
            source=name,
        )
        return self._embed(made.model_copy(update={'embeddings': self._means(items)}))

    def id_of(self, rule: Rule, items: Sequence[MemoryItem]) -> str:
        """Return the id of a summary, a function of the ids that it replaces."""
        lineage = {'by': self._maker(rule), 'ids': [item.id for item in items], 'turn': self._turn}
        return f'{MemoryKind.EPISODIC.value}/{sha256(canonical_bytes(lineage)).hexdigest()[:32]}'

    def _maker(self, rule: Rule) -> str:
        return NEAR_DUPLICATE if rule == 'merge' else self._summarizer.name

    def _text(self, items: Sequence[MemoryItem]) -> str:
        name, most = self._summarizer.name, _SUMMARY_BYTES
        try:
            text = self._summarizer.summarize(items, most)
            validate_text(text, 'summary')
        except Exception as exc:
            raise InvalidRequestError(f'summarizer {name!r} failed: {exc}', summarizer=name) from exc
        if not text.strip() or len(text.encode()) > most:
            raise InvalidRequestError(
                f'summarizer {name!r}: its text has {len(text.encode())} bytes, expected 1 to {most}',
                summarizer=name,
            )
        return text

    @staticmethod
    def _payload(name: str, items: Sequence[MemoryItem], level: int, *, keep: bool) -> dict[str, Any]:
        labels = count_labels(items)
        lineage: dict[str, Any] = {
            'by': name,
            'level': level,
            'count': len(items),
            'stands_for': sum(map(event_count, items)),
            'first_ns': min(map(first_ns, items)),
            'last_ns': max(map(last_ns, items)),
        }
        if labels:
            lineage['labels'] = dict(sorted(labels.items()))
        shared = _shared_payload(items) if keep else {}
        return {**shared, CONSOLIDATED: lineage}

    def _span(self, items: Sequence[MemoryItem]) -> TimeSpan:
        spans = [item.event_time for item in items if item.event_time is not None]
        is_open = any(span.end_ns is None for span in spans)
        return TimeSpan(
            start_ns=min(map(first_ns, items)),
            end_ns=None if is_open else max(map(last_ns, items)),
            clock=spans[0].clock if spans else self._clock,
        )

    @staticmethod
    def _pose(items: Sequence[MemoryItem], most_m: float) -> Pose | None:
        first = items[0].pose
        for item in items:
            if first is None or item.pose is None or item.pose.frame_id != first.frame_id:
                return None
            if math.dist(item.pose.position, first.position) > most_m:
                return None
        return first

    def _means(self, items: Sequence[MemoryItem]) -> dict[str, tuple[float, ...]]:
        """Return the mean vector in each space that allows means and in which all items have one."""
        means = {}
        for name in items[0].embeddings:
            space = self._spaces(name)
            if space is None or not space.mean_of_summaries:
                continue
            vectors = [item.embeddings.get(name) for item in items]
            if any(vector is None for vector in vectors):
                continue
            mean = np.asarray(vectors, np.float64).mean(axis=0)
            length = float(np.linalg.norm(mean))
            if space.metric == 'cosine' and length > 1e-6:
                mean /= length
            if length > 1e-6:
                means[name] = tuple(map(float, mean.astype(np.float32)))
        return means


def _common(values: Iterable[str]) -> str | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _unite(names: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for those in names for name in those))


def _shared_links(items: Sequence[MemoryItem]) -> list[tuple[str, str]]:
    rest = [set(item.links) for item in items[1:]]
    return [link for link in items[0].links if link[0] != SUMMARIZES and all(link in links for links in rest)]


def _shared_scope(items: Sequence[MemoryItem]) -> dict[str, str]:
    first, *rest = [item.scope for item in items]
    return {name: value for name, value in first.items() if all(scope.get(name) == value for scope in rest)}


def _shared_payload(items: Sequence[MemoryItem]) -> dict[str, Any]:
    first, *rest = [item.payload for item in items]
    return {
        name: value
        for name, value in first.items()
        if name != CONSOLIDATED and all(name in other and other[name] == value for other in rest)
    }
