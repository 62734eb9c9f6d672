"""Commands that query a memory: `query`, `history`, `changes`, `audit`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hylo_memory_ros.cli.formats import (
    audit_line,
    change_line,
    format_instant,
    hit_line,
    json_line,
    summary_line,
    version_line,
)
from hylo_memory_ros.cli.options import (
    After,
    AsJson,
    AsOf,
    Center,
    Frame,
    Invalidated,
    KnownAt,
    KnownSeq,
    Limit,
    MapId,
    MemoryFile,
    Most,
    Radius,
    Weights,
    build_query,
    open_memory_file,
    with_filters,
)
from hylo_memory_ros.cli.tables import (
    audit_table,
    changes_table,
    console,
    format_summary,
    hits_table,
    versions_table,
)
from hylo_memory_ros.errors import NotFoundError
from hylo_memory_ros.model import MemoryKind

Cursor = Annotated[str | None, typer.Option('--cursor', help='Go on where an earlier answer ended.')]


@with_filters()
def query(
    file: MemoryFile,
    near: Center = None,
    radius: Radius = None,
    frame: Frame = 'map',
    horizontal: Annotated[
        bool, typer.Option('--horizontal', help='Measure in the plane of x and y.')
    ] = False,
    map_id: MapId = None,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    known_seq: KnownSeq = None,
    include_invalidated: Invalidated = False,
    weight: Weights = None,
    k: Most = 10,
    cursor: Cursor = None,
    explain: Annotated[
        bool, typer.Option('--explain', help='Say what was left out; with --json as a last line.')
    ] = False,
    as_json: AsJson = False,
    **filters: Any,
) -> None:
    """Ask: what is near, what has this label, key or these words, now or at another time."""
    query = build_query(
        near, radius, frame, map_id, horizontal=horizontal, as_of_ns=as_of, known_at_ns=known_at,
        known_seq=known_seq, include_invalidated=include_invalidated, k=k, cursor=cursor, explain=explain,
        weights=dict(weight) if weight else None, **filters,
    )  # fmt: skip
    with open_memory_file(file) as memory:
        result = memory.query(query)
    if as_json:
        lines = [hit_line(hit) for hit in result]
        # Last, so that a reader of hits can stop before it.
        for line in [*lines, summary_line(result)] if explain else lines:
            print(json_line(line))
        return
    screen = console()
    if result:
        screen.print(hits_table(result.hits))
    screen.print(format_summary(result, radius), markup=False, soft_wrap=True)


def history(
    file: MemoryFile,
    id: Annotated[str | None, typer.Argument(metavar='[ID]', help='Id of any version.')] = None,
    key: Annotated[str | None, typer.Option('--key', help='Key, instead of an id.')] = None,
    kind: Annotated[MemoryKind | None, typer.Option('--kind', help='Where keys repeat.')] = None,
    map_id: Annotated[str | None, typer.Option('--map', help='Where keys repeat.')] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """Print the versions of one thing: contents, valid and believed intervals."""
    with open_memory_file(file) as memory:
        answer = memory.history(
            id, kind=kind.value if kind else None, key=key, map_id=map_id, limit=limit, cursor=cursor
        )
    if not answer.versions:
        raise NotFoundError(f'history: there is nothing of {f"the id {id!r}" if id else f"the key {key!r}"}')
    if as_json:
        for version in answer.versions:
            print(json_line(version_line(version)))
        return
    screen = console()
    screen.print(versions_table(answer.versions))
    if answer.cursor:
        screen.print(f'go on with --cursor {answer.cursor}', markup=False, soft_wrap=True)


def changes(
    file: MemoryFile,
    after: After = 0,
    epoch: Annotated[str | None, typer.Option('--epoch', help='Refuse another history than this.')] = None,
    limit: Limit = 1000,
    as_json: AsJson = False,
) -> None:
    """Print the feed of transactions, oldest first."""
    with open_memory_file(file) as memory:
        answer = memory.changes((epoch or memory.epoch, after), limit)
    if as_json:
        for change in answer.changes:
            print(json_line(change_line(change)))
        return
    screen = console()
    if answer.changes:
        screen.print(changes_table(answer.changes))
    gap = '; older ones are no longer kept' if answer.gap else ''
    last = answer.changes[-1] if answer.changes else None
    where = f', at {format_instant(last.recorded_at_ns)}' if last else ''
    summary = f'up to sequence {last.sequence if last else after} of {answer.last_sequence}{where}{gap}'
    screen.print(summary, markup=False)


def audit(
    file: MemoryFile,
    id: Annotated[str | None, typer.Argument(metavar='[ID]', help='Only removals of this item.')] = None,
    after: After = 0,
    limit: Limit = 1000,
    as_json: AsJson = False,
) -> None:
    """Print who removed what, when and why: every forget, end, retract and purge."""
    with open_memory_file(file) as memory:
        entries = memory.audit(id, after=after, limit=limit)
    if as_json:
        for entry in entries:
            print(json_line(audit_line(entry)))
        return
    screen = console()
    if entries:
        screen.print(audit_table(entries))
    summary = f'{len(entries)} removals{f", up to sequence {entries[-1].sequence}" if entries else ""}'
    screen.print(summary, markup=False)
