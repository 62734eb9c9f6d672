"""Tables for terminal output: hits, versions, changes and episodes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hylo_memory_ros.cli.formats import format_instant
from hylo_memory_ros.model import (
    AuditEntry,
    Change,
    Episode,
    Hit,
    Pose,
    QueryResult,
    SkillTransition,
    Version,
)
from hylo_memory_ros.model.feedback import COUNTS, VERDICTS
from hylo_memory_ros.storage.feedback import SubjectCounts

Columns = Mapping[str, Sequence[str | Text]]

_WIDTH_OF_A_PIPE = 240
_LONGEST = 60


def console() -> Console:
    """Return the console for tables: as wide as the terminal, or wide enough for a pipe."""
    screen = Console(highlight=False)
    # A pipe has no width, and rich would fold tables at 80 columns.
    if not screen.is_terminal:
        screen.width = _WIDTH_OF_A_PIPE
    return screen


def escape_text(text: str, longest: int = _LONGEST) -> Text:
    """Return stored text for a terminal: shortened, and without characters that act on it."""
    if len(text) > longest:
        text = f'{text[: longest - 1]}…'
    return Text(
        # Control characters of stored text could move the cursor or recolor the terminal.
        ''.join(char if char.isprintable() else char.encode('unicode_escape').decode() for char in text)
    )


def format_place(pose: Pose | None) -> str:
    """Return a position and its frame, to the centimetre.

    Examples
    --------
    >>> format_place(Pose(frame_id='map', position=(1.0, -2.005, 0.0)))
    '1.00 -2.00 0.00 map'
    """
    if pose is None:
        return ''
    return ' '.join([*(f'{part:.2f}' for part in pose.position), pose.frame_id])


def format_sigma(pose: Pose | None) -> str:
    """Return the largest standard deviation of a position along an axis, metres."""
    if pose is None or pose.covariance is None:
        return ''
    return f'{math.sqrt(max(pose.covariance[0], pose.covariance[7], pose.covariance[14])):.2f}'


def hits_table(hits: Sequence[Hit]) -> Table:
    """Return the hits of a query; columns that would be empty are left out."""
    columns: Columns = {
        'm': [f'{hit.distance_m:.2f}' if hit.distance_m is not None else '' for hit in hits],
        'score': [f'{hit.score:.3f}' if hit.details else '' for hit in hits],
        'kind': [hit.item.kind.value for hit in hits],
        'key': [escape_text(hit.item.key or '') for hit in hits],
        'label': [escape_text(hit.item.label) for hit in hits],
        'content': [
            escape_text(hit.item.content) if hit.item.content != hit.item.label else '' for hit in hits
        ],
        'x y z frame': [escape_text(format_place(hit.item.pose)) for hit in hits],
        '± m': [format_sigma(hit.item.pose) for hit in hits],
        'map': [escape_text(hit.item.scope.get('map_id', '')) for hit in hits],
        'seen': [str(hit.stats.observations) if hit.stats and hit.stats.observations else '' for hit in hits],
        'helped': [
            f'{hit.stats.helpfulness.score:.2f}' if hit.stats and hit.stats.helpfulness else ''
            for hit in hits
        ],
        'since': [format_instant(hit.item.valid_from_ns) for hit in hits],
        'until': [format_instant(hit.valid_to_ns) for hit in hits],
        'status': [hit.status if hit.status != 'current' else '' for hit in hits],
        'id': [escape_text(hit.item.id or '') for hit in hits],
    }
    return _table(columns, right={'m', 'score', '± m', 'seen', 'helped'})


def versions_table(versions: Sequence[Version]) -> Table:
    """Return a history: what was true when, and when that was believed."""
    columns: Columns = {
        '': ['>' if version.is_asked else '' for version in versions],
        'since': [format_instant(version.valid_from_ns) for version in versions],
        'until': [
            f'{format_instant(version.valid_to_ns)}{f" ({version.ended_by})" if version.ended_by else ""}'
            for version in versions
        ],
        'believed': [
            f'{version.from_seq}..{"" if version.to_seq is None else version.to_seq}' for version in versions
        ],
        'recorded': [format_instant(version.recorded_at_ns) for version in versions],
        'superseded': [format_instant(version.superseded_at_ns) for version in versions],
        'by': [version.superseded_cause or '' for version in versions],
        'content': [escape_text(version.item.content) for version in versions],
        'x y z frame': [escape_text(format_place(version.item.pose)) for version in versions],
        'id': [escape_text(version.item.id or '') for version in versions],
    }
    return _table(columns, right=set())


def changes_table(changes: Sequence[Change]) -> Table:
    """Return a piece of the feed, one line a transaction."""
    columns: Columns = {
        'sequence': [str(change.sequence) for change in changes],
        'recorded': [format_instant(change.recorded_at_ns) for change in changes],
        'op': [change.op for change in changes],
        'items': [str(len(change.ids)) for change in changes],
        'outcomes': [_tally(change.outcomes) for change in changes],
        'keys': [escape_text(', '.join(filter(None, change.keys))) for change in changes],
        'actor': [escape_text(change.actor) for change in changes],
        'episode': [escape_text(change.episode) for change in changes],
    }
    return _table(columns, right={'sequence', 'items'})


def audit_table(entries: Sequence[AuditEntry]) -> Table:
    """Return records of removals, one a line."""
    columns: Columns = {
        'sequence': [str(entry.sequence) for entry in entries],
        'recorded': [format_instant(entry.recorded_at_ns) for entry in entries],
        'op': [entry.op for entry in entries],
        'items': [str(entry.count) for entry in entries],
        'reason': [escape_text(entry.reason) for entry in entries],
        'actor': [escape_text(entry.actor) for entry in entries],
        'ids': [escape_text(', '.join(entry.ids or ())) for entry in entries],
    }
    return _table(columns, right={'sequence', 'items'})


def episodes_table(episodes: Sequence[Episode]) -> Table:
    """Return episodes, one a line; columns that would be empty are left out."""
    columns: Columns = {
        'id': [escape_text(episode.id) for episode in episodes],
        'outcome': [escape_text('open' if episode.is_open else episode.outcome) for episode in episodes],
        'begun': [format_instant(episode.begun_ns) for episode in episodes],
        'ended': [format_instant(episode.ended_ns) for episode in episodes],
        's': ['' if episode.duration_s is None else f'{episode.duration_s:.1f}' for episode in episodes],
        'sequences': [f'{episode.begin_seq}..{episode.end_seq or ""}' for episode in episodes],
        'scope': [escape_text(', '.join(map('='.join, episode.scope.items()))) for episode in episodes],
        'note': [
            escape_text('; '.join(filter(None, (episode.note, episode.end_note)))) for episode in episodes
        ],
        'actor': [escape_text(episode.actor) for episode in episodes],
    }
    return _table(columns, right={'s'})


def helpfulness_table(rows: Sequence[SubjectCounts], intervals: Sequence[tuple[float, float]]) -> Table:
    """Return how far items have helped, one a line; columns that would be empty are left out.

    Parameters
    ----------
    intervals : sequence of (float, float)
        Between what each score lies.
    """
    columns: Columns = {
        'score': [f'{row.counts.score:.3f}' for row in rows],
        '90 %': [f'{low:.2f}..{high:.2f}' for low, high in intervals],
        **{_heading(name): [_number(getattr(row.counts, name)) for row in rows] for name in COUNTS},
        'last': [format_instant(row.counts.last_ns, '') for row in rows],
        'kind': [row.kind for row in rows],
        'key': [escape_text(row.key) for row in rows],
        'content': [escape_text(row.content) for row in rows],
        'id': [escape_text(row.id or row.subject) for row in rows],
    }
    return _table(columns, right={'score', *map(_heading, COUNTS)})


def facts_table(facts: Mapping[str, str]) -> Table:
    """Return names and values, one pair a line."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style='bold')
    table.add_column(overflow='fold')
    for name, value in facts.items():
        table.add_row(name, escape_text(value, 10_000))
    return table


def skills_table(hits: Sequence[Hit]) -> Table:
    """Return skills: what they are for, where they stand, and what speaks for them."""
    verdicts = [hit.item.payload.get('verdicts', {}) for hit in hits]
    columns: Columns = {
        'key': [escape_text(hit.item.key or '') for hit in hits],
        'status': [hit.item.payload['status'] for hit in hits],
        **{_heading(name): [_number(counts.get(name)) for counts in verdicts] for name in VERDICTS},
        'traces': [_number(len(set(hit.item.payload.get('evidence', ())))) for hit in hits],
        'does': ['code' if 'code' in hit.item.payload else 'params' for hit in hits],
        'api surface': [escape_text(hit.item.payload['api_surface']) for hit in hits],
        'content': [escape_text(hit.item.content) for hit in hits],
        'since': [format_instant(hit.item.valid_from_ns) for hit in hits],
        'map': [escape_text(hit.item.scope.get('map_id', '')) for hit in hits],
    }
    return _table(columns, right={'traces', *map(_heading, VERDICTS)})


def _heading(name: str) -> str:
    return name.replace('_', ' ')


def _number(count: int | None) -> str:
    return str(count) if count else ''


def transitions_table(steps: Sequence[SkillTransition]) -> Table:
    """Return steps of skills through their gate, one a line."""
    columns: Columns = {
        'sequence': [str(step.sequence) for step in steps],
        'recorded': [format_instant(step.recorded_at_ns) for step in steps],
        'actor': [escape_text(step.actor) for step in steps],
        'key': [escape_text(step.key or '(purged)') for step in steps],
        'from': [step.from_status or '' for step in steps],
        'to': [step.to_status for step in steps],
        'traces': [escape_text(', '.join(step.evidence.get('traces', ()))) for step in steps],
    }
    return _table(columns, right={'sequence'})


def format_summary(result: QueryResult, asked_radius_m: float | None) -> str:
    """Return, in a sentence or two, how much matched and what was left out and why."""
    least = 'at least ' if result.total_is_lower_bound else ''
    words = [f'{len(result)} of {least}{result.total}']
    if result.center_used is not None and asked_radius_m is not None:
        words.append(f'within {asked_radius_m:g} m of {format_place(result.center_used)}')
    words.append(f'as of {format_instant(result.as_of_ns)}, believed at sequence {result.sequence}')
    text = ', '.join(words)
    left_out = [f'{count} {reason.replace("_", " ")}' for reason, count in result.excluded.items()]
    if result.nearest_excluded_m is not None:
        left_out.append(f'the nearest outside is at {result.nearest_excluded_m:.2f} m')
    if result.purged:
        left_out.append(f'{result.purged} purged since')
    if left_out:
        text += f'\nleft out: {", ".join(left_out)}'
    for note in result.notes:
        text += f'\nnote: {escape_text(note)}'
    if result.cursor:
        text += f'\ngo on with --cursor {result.cursor}'
    return text


def _tally(outcomes: Iterable[str]) -> str:
    names = list(outcomes)
    return ' '.join(f'{names.count(name)} {name}' for name in dict.fromkeys(names))


def _table(columns: Columns, right: set[str]) -> Table:
    # Most answers use half of the columns.
    filled = {name: cells for name, cells in columns.items() if any(map(len, cells))}
    table = Table(box=None, header_style='bold', pad_edge=False)
    for name in filled:
        table.add_column(name, justify='right' if name in right else 'left', overflow='fold')
    for cells in zip(*filled.values(), strict=True):
        table.add_row(*cells)
    return table
