"""Which episodes a memory has, and how they ended: `episodes`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hylo_memory_ros.cli.json_lines import episode_line, json_line
from hylo_memory_ros.cli.memory_file import opened
from hylo_memory_ros.cli.options import INSTANT, PAIR, TIMES, AsJson, KnownAt, KnownSeq, Limit, MemoryFile
from hylo_memory_ros.cli.tables import console, episodes_table

__all__ = ['episodes']


def episodes(
    file: MemoryFile,
    outcome: Annotated[str | None, typer.Option('--outcome', help='That ended so.')] = None,
    scope: Annotated[
        list[Any] | None,
        typer.Option('--scope', metavar='NAME=VALUE', help='With this scope; repeated: all.', **PAIR),
    ] = None,
    start: Annotated[
        int | None,
        typer.Option('--from', help=f'That were open then, or begun later: {TIMES}.', **INSTANT),
    ] = None,
    end: Annotated[
        int | None, typer.Option('--to', help='That had begun by then: a time as for --from.', **INSTANT)
    ] = None,
    known_at: KnownAt = None,
    known_seq: KnownSeq = None,
    limit: Limit = 1000,
    as_json: AsJson = False,
) -> None:
    """List episodes, the newest first: when they began and ended, how, and what was said of them."""
    with opened(file) as memory:
        found = memory.episodes(
            outcome,
            scope=dict(scope or ()),
            time_range_ns=(start, end),
            known_at_ns=known_at,
            known_seq=known_seq,
            limit=limit,
        )
    if as_json:
        for one in found:
            print(json_line(episode_line(one)))
        return
    screen = console()
    if found:
        screen.print(episodes_table(found))
    screen.print(f'{len(found)} episode{"s" * (len(found) != 1)}', markup=False)
