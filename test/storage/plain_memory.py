"""The store's meaning in plain Python: everything kept, everything recomputed, nothing indexed.

Written from the rules, not from the code: what holds at a time is the latest assertion or forget
that speaks from then or earlier; what was believed at a sequence is what followed from all that
was known at it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from hylo_memory_ros.model import MemoryItem, MemoryQuery

NS = 1_000_000_000
STEP = 0.05
OUTSIDE = ('outside_radius', 'other_map', 'other_frame')


@dataclass(frozen=True)
class Said:
    """One accepted write."""

    item: MemoryItem = field(compare=False)
    at: int
    seq: int
    pos: int
    withdrawn: bool = False
    place: tuple[float, ...] | None = None
    moves: tuple[tuple[int, tuple[float, ...] | None], ...] = field(default=(), compare=False)
    last: Said | None = field(default=None, compare=False)
    """The last of its repetitions that are only counted."""

    @property
    def now(self) -> MemoryItem:
        """Return the statement where corrections have put it: `place` is None as long as none has."""
        if self.place is None:
            return self.item
        pose = self.item.pose.model_copy(update={'position': self.place})
        return self.item.model_copy(update={'pose': pose})

    @property
    def content(self) -> str:
        return json.dumps(content_fields(self.now), sort_keys=True)

    @property
    def asserted(self) -> str:
        return json.dumps(content_fields(self.item), sort_keys=True)

    @property
    def details(self) -> tuple[float, str, tuple[str, ...]]:
        return (self.item.confidence, self.item.source, self.item.evidence)

    @property
    def about(self) -> tuple[object, ...]:
        item = self.item
        if item.key is None:
            return ('keyless', self.asserted)
        return (item.kind, item.key, item.scope.get('map_id'))


@dataclass(frozen=True)
class Stretch:
    """One version: who speaks for it, from when, to when, and whether a forget ended it."""

    said: Said
    start: int
    end: int | None
    ended: str
    """What ended it: forgotten or ended; empty: it is open or superseded."""
    shown: tuple[float, str, tuple[str, ...]] = (1.0, '', ())
    """Confidence, source and evidence, merged from all that speak for it."""

    @property
    def line(self) -> tuple[object, ...]:
        return (self.said, self.start, self.end, self.ended)

    def status(self, at: int) -> str:
        if at < self.start:
            return 'scheduled'
        return 'current' if self.holds(at) else self.ended or 'invalidated'

    def holds(self, at: int) -> bool:
        return self.start <= at and (self.end is None or at < self.end)

    def face(self) -> tuple[object, ...]:
        return (self.said.item.id, self.start, self.end, self.ended)


@dataclass(frozen=True)
class Told:
    """What a write is expected to answer for one item."""

    event: str
    id: str
    closed_id: str = ''
    reopened_id: str = ''
    reason: str = ''


def content_fields(item: MemoryItem) -> dict[str, Any]:
    """Return what makes two statements the same, of the fields that these tests write."""
    fields: dict[str, Any] = {'kind': item.kind.value}
    for name in ('key', 'label', 'content'):
        if getattr(item, name):
            fields[name] = getattr(item, name)
    if item.entities:
        fields['entities'] = sorted(set(item.entities))
    if item.scope:
        fields['scope'] = dict(item.scope)
    if item.pose is not None:
        fields['pose'] = {'frame_id': item.pose.frame_id, 'position': list(item.pose.position)}
    if item.key is None and not item.valid_from_assumed:
        fields['valid_from_ns'] = item.valid_from_ns
    return fields


def stretches(said: Iterable[Said], forgets: Iterable[tuple[int, int, str]]) -> list[Stretch]:
    """Return the timeline of one identity from its assertions and its endings (at, seq, what)."""
    forgets = list(forgets)
    points: list[tuple[int, int, int, Said | None]] = [
        (s.at, s.seq, s.pos, s) for s in said if not s.withdrawn
    ]
    points += [(at, seq, 0, None) for at, seq, _ in forgets]
    holding: list[tuple[int, Said | None, str]] = []
    for at in sorted({point[0] for point in points}):
        here = sorted((point for point in points if point[0] == at), key=lambda point: point[1:3])
        speaker = here[-1][3]
        for *_, earlier in reversed(here):
            if content_of(earlier) != content_of(speaker):
                break
            speaker = earlier
        causes = {what for when, _, what in forgets if when == at}
        ended = 'forgotten' if 'forgotten' in causes else 'ended' if causes else ''
        if ended or not holding or content_of(holding[-1][1]) != content_of(speaker):
            holding.append((at, speaker, ended))
    line = []
    for number, (at, speaker, _) in enumerate(holding):
        end, _, ended = holding[number + 1] if number + 1 < len(holding) else (None, None, '')
        if speaker is not None:
            run = [
                point[3]
                for point in points
                if content_of(point[3]) == speaker.content and at <= point[0] < (end or math.inf)
            ]
            line.append(Stretch(speaker, at, end, ended, merged(run)))
    return line


def merged(run: Iterable[Said]) -> tuple[float, str, tuple[str, ...]]:
    """Return confidence, source and evidence of assertions that speak for one version."""
    first, *later = sorted(run, key=lambda said: (said.at, said.seq, said.pos))
    confidence, source, evidence = first.details
    for said in later:
        if abs(said.item.confidence - confidence) >= STEP:
            confidence = said.item.confidence
        source = said.item.source or source
        evidence = tuple(dict.fromkeys((*evidence, *said.item.evidence)))
    return confidence, source, evidence


def content_of(said: Said | None) -> str | None:
    return None if said is None else said.content


class PlainMemory:
    """Every assertion and forget in lists; each question answered by looking at all of them."""

    def __init__(self, tolerance_ns: int = NS) -> None:
        self.said: list[Said] = []
        self.forgets: list[tuple[tuple[object, ...], int, int, str]] = []
        self.beliefs: list[frozenset[Stretch]] = [frozenset()]
        self.purges: list[tuple[int, int]] = []
        self.now = 0
        self.last_recorded = 0
        self.map_id = ''
        self.tolerance_ns = tolerance_ns

    @property
    def sequence(self) -> int:
        return len(self.beliefs) - 1

    @property
    def believed(self) -> frozenset[Stretch]:
        return self.beliefs[-1]

    def look_at(self, clock_ns: int) -> None:
        self.now = max(self.now, clock_ns)

    def restart(self, clock_ns: int) -> None:
        self.now = max(self.last_recorded, clock_ns)

    def _commit(self) -> None:
        self.last_recorded = self.now
        self.beliefs.append(self._timelines())

    def _timelines(self) -> frozenset[Stretch]:
        abouts = {said.about for said in self.said}
        return frozenset(stretch for about in abouts for stretch in self._timeline(about))

    def _timeline(self, about: tuple[object, ...]) -> list[Stretch]:
        said = [one for one in self.said if one.about == about]
        return stretches(said, [rest for other, *rest in self.forgets if other == about])

    def resolved(self, item: MemoryItem) -> MemoryItem:
        update: dict[str, Any] = {}
        if item.kind == 'spatial' and self.map_id and 'map_id' not in item.scope:
            update['scope'] = {**item.scope, 'map_id': self.map_id}
        if item.valid_from_ns is None:
            update |= {'valid_from_ns': self.now, 'valid_from_assumed': True}
        return item.model_copy(update=update)

    def write(self, items: list[MemoryItem], ids: list[str]) -> list[Told]:
        """Write items; `ids` are those that the store gave, so that they need not be computed here."""
        told = []
        idle = set()
        for item in map(self.resolved, items):
            assert item.valid_from_ns is not None
            self._set_apart(Said(item, item.valid_from_ns, 0, 0).about, item.valid_from_ns)
        for pos, item in enumerate(items):
            item = self.resolved(item)
            assert item.valid_from_ns is not None
            new = Said(item, item.valid_from_ns, self.sequence + 1, pos)
            known = [one.item.id for one in self.said if (one.asserted, one.at) == (new.asserted, new.at)]
            for one in self.said:
                # Said again: it means what it meant, and not its place of before a correction.
                same = one.asserted == new.asserted and (item.key is None or one.at == new.at)
                if same and one.about == new.about and not one.withdrawn:
                    new = replace(new, place=one.place, moves=one.moves)
            before = self._timeline(new.about)
            # The name of a new statement is the store's to give; that of a known one is not.
            self.said.append(new)
            after = self._timeline(new.about)
            new = replace(new, item=item.model_copy(update={'id': known[0] if known else ids[pos]}))
            self.said[-1] = new
            after = self._timeline(new.about)
            told.append(_told(before, after, new.at))
            if told[-1].event == 'SKIP_DUP' and self._adds_nothing(new, after):
                idle.add(pos)
        self._count_repetitions(idle)
        self._commit()
        return told

    def _set_apart(self, about: tuple[object, ...], earliest: int) -> None:
        """Let repetitions that a change can reach count for themselves."""
        for number, one in enumerate(self.said):
            if one.about == about and one.last is not None and one.last.at >= earliest:
                self.said[number] = replace(one, last=None)
                if one.last.at > one.at and not one.withdrawn:
                    self.said.append(one.last)

    def _adds_nothing(self, new: Said, line: list[Stretch]) -> bool:
        """Return whether it repeats the one before it, or comes last of those that speak for a version."""
        here = next(s for s in line if s.holds(new.at))
        run = sorted(
            (one for one in self.said if not one.withdrawn and _within(one, here)),
            key=lambda one: (one.at, one.seq, one.pos),
        )
        place = run.index(new)
        return new is run[-1] or run[place - 1].details == new.details

    def _evidence(self, one: Said) -> tuple[object, ...]:
        return one.item.valid_from_assumed, self.episode_of(one.seq)

    def episode_of(self, seq: int) -> str:
        """Return the episode of a transaction; what is said again in another one stands for itself."""
        return ''

    def _count_repetitions(self, idle: set[int]) -> None:
        """Of plain repetitions that follow each other, keep the last alone."""
        seq = self.sequence + 1
        new = [one for one in self.said if one.seq == seq and one.pos in idle and one.item.pose is None]
        for one in sorted(new, key=lambda one: (one.at, one.pos)):
            points: list[tuple[int, int, int, Said | None]] = [
                (s.at, s.seq, s.pos, s) for s in self.said if s.about == one.about and not s.withdrawn
            ]
            points += [(at, seq, 0, None) for about, at, seq, _ in self.forgets if about == one.about]
            points.sort(key=lambda point: point[:3])
            place = points.index((one.at, one.seq, one.pos, one))
            first = points[place - 1][3] if place else None
            if first is None or content_of(first) != one.content:
                continue
            if any(point[0] == one.at for point in points[place + 1 :]):
                continue
            if self._evidence(first) == self._evidence(one):
                self.said.remove(one)
                details = dict(zip(('confidence', 'source', 'evidence'), first.details, strict=True))
                last = replace(one, pos=0, item=one.item.model_copy(update=details))
                self.said[self.said.index(first)] = replace(first, last=last)

    def forget(self, query: MemoryQuery) -> list[Stretch]:
        matched = [s for s in self._matching(query) if s.end is None or s.end > self.now]
        for stretch in matched:
            self._set_apart(stretch.said.about, self.now)
        for stretch in matched:
            self._withdraw(lambda said, s=stretch: _during(said, s) and said.at > self.now)
            if stretch.start <= self.now:
                self.forgets.append((stretch.said.about, self.now, self.sequence + 1, 'forgotten'))
        return self._removed(matched)

    def end(self, key: str, at: int) -> list[Stretch]:
        """End what holds at a stated time; what is said from later stays."""
        matched = [
            s
            for s in self.believed
            if s.said.item.key == key
            and s.said.item.kind == 'spatial'
            and s.said.item.scope.get('map_id', '') == self.map_id
            and s.holds(at)
        ]
        for stretch in matched:
            self._set_apart(stretch.said.about, at)
        self.forgets += [(s.said.about, at, self.sequence + 1, 'ended') for s in matched]
        return self._removed(matched)

    def correct(self, step: tuple[float, float, float], map_id: str) -> int:
        """Move everything in the frame `map` of a map; return how many versions are elsewhere."""
        seq = self.sequence + 1
        for one in [one for one in self.said if self._is_in(one, map_id)]:
            self._set_apart(one.about, 0)
        self.said = [self._stepped(one, step, map_id, seq) for one in self.said]
        return self._moved()

    def _stepped(self, one: Said, step: tuple[float, float, float], map_id: str, seq: int) -> Said:
        if not self._is_in(one, map_id) or not any(step):
            return one
        place = tuple(a + b for a, b in zip(one.now.pose.position, step, strict=True))
        return replace(one, place=place, moves=(*one.moves, (seq, one.place)))

    def _is_in(self, one: Said, map_id: str) -> bool:
        pose = one.now.pose
        here = pose is not None and pose.frame_id == 'map' and one.item.scope.get('map_id', '') == map_id
        return here and not one.withdrawn

    def revert(self, seq: int) -> int:
        """Put back what a correction moved, unless another one moved it since."""
        for one in [one for one in self.said if one.moves and one.moves[-1][0] == seq and not one.withdrawn]:
            self._set_apart(one.about, 0)
        self.said = [
            replace(one, place=one.moves[-1][1], moves=one.moves[:-1])
            if one.moves and one.moves[-1][0] == seq and not one.withdrawn
            else one
            for one in self.said
        ]
        return self._moved()

    def _moved(self) -> int:
        self._commit()
        return len(self.believed - self.beliefs[-2])

    def retract(self, query: MemoryQuery) -> list[Stretch]:
        at = self.time_of(query)
        anytime = query.ids or query.include_invalidated
        matched = [s for s in self._matching(query) if anytime or s.holds(at)]
        for stretch in matched:
            self._set_apart(stretch.said.about, stretch.start)
        for stretch in matched:
            self._withdraw(lambda said, s=stretch: _within(said, s))
        return self._removed(matched)

    def _withdraw(self, chosen: Callable[[Said], bool]) -> None:
        self.said = [replace(one, withdrawn=True) if chosen(one) else one for one in self.said]

    def _removed(self, matched: list[Stretch]) -> list[Stretch]:
        if matched:
            self._commit()
        return matched

    def purge(self, query: MemoryQuery) -> set[str]:
        """Delete identities of which any version matches; return the matching ids."""
        pool = self.believed if query.near is not None else frozenset().union(*self.beliefs)
        matched = [s for s in pool if self._passes(s, query)]
        gone = {s.said.about for s in matched}
        if gone:
            self.said = [one for one in self.said if one.about not in gone]
            self.forgets = [one for one in self.forgets if one[0] not in gone]
            self.beliefs = [frozenset(s for s in b if s.said.about not in gone) for b in self.beliefs]
            self._commit()
            self.purges.append((self.sequence, len({s.said.item.id for s in matched})))
        return {str(s.said.item.id) for s in matched}

    def time_of(self, query: MemoryQuery) -> int:
        return self.now + self.tolerance_ns if query.as_of_ns is None else query.as_of_ns

    def belief_of(self, query: MemoryQuery) -> int:
        return self.sequence if query.known_seq is None else min(query.known_seq, self.sequence)

    def since(self, stretch: Stretch, seq: int) -> int:
        while seq and stretch in self.beliefs[seq - 1]:
            seq -= 1
        return seq

    def answer(self, query: MemoryQuery) -> list[Stretch]:
        """Return every match, in order."""
        at = self.time_of(query)
        found = [
            s
            for s in self.beliefs[self.belief_of(query)]
            if self._passes(s, query) and (query.include_invalidated or s.holds(at))
        ]
        return sorted(found, key=lambda s: (distance(s, query) or 0.0, -s.start, str(s.said.item.id)))

    def left_out(self, query: MemoryQuery) -> dict[str, int]:
        """Count what passes every filter but does not hold at the time asked about."""
        at = self.time_of(query)
        counts: dict[str, int] = {}
        for s in self.beliefs[self.belief_of(query)]:
            if self._passes(s, query) and not s.holds(at) and not query.include_invalidated:
                reason = 'not_yet_valid' if at < s.start else s.ended or 'invalidated'
                counts[reason] = counts.get(reason, 0) + 1
        return counts

    def nearest_outside(self, query: MemoryQuery) -> float | None:
        """Return the distance of the nearest match beyond the radius."""
        assert query.near is not None
        pose, radius = query.near
        wide = query.model_copy(update={'near': (pose, math.inf)})
        distances = [distance(s, wide) for s in self.answer(wide)]
        return min((d for d in distances if d is not None and d > radius), default=None)

    def purged_after(self, seq: int) -> int:
        return sum(count for at, count in self.purges if at > seq)

    def _matching(self, query: MemoryQuery) -> list[Stretch]:
        return [s for s in self.believed if self._passes(s, query)]

    def _passes(self, stretch: Stretch, query: MemoryQuery) -> bool:
        item = stretch.said.item
        if query.near is not None:
            d = distance(stretch, query)
            here = (query.scope or {}).get('map_id', self.map_id)
            if d is None or d > query.near[1]:
                return False
            if not query.any_map and item.scope.get('map_id', '') != here:
                return False
        return (
            (query.kinds is None or item.kind in query.kinds)
            and (not query.all_keys or item.key in query.all_keys)
            and (not query.ids or item.id in query.ids)
            and (not query.labels or item.label in query.labels)
            and all(item.scope.get(name) == value for name, value in (query.scope or {}).items())
            and (query.text is None or words(query.text) <= words(spoken(item)))
        )

    def snapshot(self) -> str:
        """Return the hash of the open versions, computed anew from the definition."""
        total = [0] * 1024
        for stretch in self.believed:
            if stretch.end is not None:
                continue
            fields = content_fields(stretch.said.now)
            if not stretch.said.item.valid_from_assumed:
                fields['valid_from_ns'] = stretch.said.item.valid_from_ns
            text = json.dumps(fields, sort_keys=True, ensure_ascii=False, separators=(',', ':'))
            names = ('confidence', 'source', 'evidence')
            shown = {name: value for name, value in zip(names, stretch.shown, strict=True) if value}
            shown['confidence'] = stretch.shown[0]
            text += json.dumps(shown, sort_keys=True, separators=(',', ':'))
            element = hashlib.sha256(unicodedata.normalize('NFC', text).encode()).digest()
            parts = struct.unpack('<1024H', hashlib.shake_256(element).digest(2048))
            total = [(a + b) % 65536 for a, b in zip(total, parts, strict=True)]
        state = struct.pack('<1024H', *total)
        return 'sha256:' + hashlib.sha256(b'hylo-snapshot-2' + state).hexdigest()


def distance(stretch: Stretch, query: MemoryQuery) -> float | None:
    """Return the distance in metres; None: no place, another frame, or no place asked about."""
    pose = stretch.said.now.pose
    if query.near is None or pose is None or pose.frame_id != query.near[0].frame_id:
        return None
    axes = 2 if query.horizontal else 3
    return math.dist(pose.position[:axes], query.near[0].position[:axes])


def spoken(item: MemoryItem) -> str:
    return ' '.join((item.content, item.key or '', item.label, *item.entities))


def words(text: str) -> set[str]:
    return set(re.findall(r'[a-z0-9]+', text.lower()))


def _during(said: Said, stretch: Stretch) -> bool:
    later = stretch.start <= said.at and (stretch.end is None or said.at < stretch.end)
    return later and said.about == stretch.said.about


def _within(said: Said, stretch: Stretch) -> bool:
    return _during(said, stretch) and said.content == stretch.said.content


def _told(before: list[Stretch], after: list[Stretch], at: int) -> Told:
    here = next(s for s in after if s.holds(at))
    shape = [[(s.said.content, s.start, s.end, s.ended) for s in line] for line in (before, after)]
    if shape[0] == shape[1]:
        event = 'SKIP_DUP' if here.shown == before[after.index(here)].shown else 'MERGE'
        return Told(event, str(here.said.item.id), reason=here.ended)
    was = next((s for s in before if s.end is None), None)
    now = next((s for s in after if s.end is None), None)
    if was is None or (now is not None and was.line == now.line):
        return Told('ADD', str(here.said.item.id))
    reopened = str(now.said.item.id) if now is not None and now != here else ''
    return Told('INVALIDATE', str(here.said.item.id), str(was.said.item.id), reopened)
