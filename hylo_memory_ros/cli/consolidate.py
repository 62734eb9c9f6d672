"""Commands that consolidate a memory file: `consolidate`, `consolidations`, `revert-consolidation`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hylo_memory_ros.cli.formats import json_line
from hylo_memory_ros.cli.options import PAIR, WHOLE, AsJson, MemoryFile, open_memory_file
from hylo_memory_ros.model import Budget, ConsolidationReport, MemoryKind, Reversion

__all__ = ['consolidate', 'consolidations', 'revert_consolidation']

_SHOWN = 20


def consolidate(
    file: MemoryFile,
    items: Annotated[int | None, typer.Option('--items', help='Most statements that stay.', **WHOLE)] = None,
    size: Annotated[int | None, typer.Option('--bytes', help='Most bytes that they take.', **WHOLE)] = None,
    scope: Annotated[
        list[Any] | None,
        typer.Option(
            '--scope', metavar='NAME=VALUE', help='Only statements of this scope; may be repeated.', **PAIR
        ),
    ] = None,
    kind: Annotated[list[MemoryKind] | None, typer.Option('--kind', help='May be repeated.')] = None,
    dry_run: Annotated[bool, typer.Option('--dry-run', help='Report only, change nothing.')] = False,
    as_json: AsJson = False,
) -> None:
    """Age, merge and summarize until the file is within a budget; no node may be using it."""
    budget = Budget(items=items, bytes=size)
    with open_memory_file(file, writing=not dry_run) as memory:
        report = memory.consolidate(
            dict(scope or ()), budget, kinds=kind or None, dry_run=dry_run, actor='hylo-memory'
        )
    if as_json:
        print(json_line(report.as_dict()))
    else:
        _print_report(report)
    # A script that keeps a file within a budget must notice when it is not met.
    if not report.met:
        raise typer.Exit(1)


def revert_consolidation(
    file: MemoryFile,
    id: Annotated[
        str, typer.Argument(metavar='ID', help='Consolidation, as its report named it.', show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Let what a consolidation ended hold again, and take its summaries out."""
    with open_memory_file(file, writing=True) as memory:
        reversion = memory.revert_consolidation(id, actor='hylo-memory')
    if as_json:
        print(json_line(reversion.as_dict()))
    else:
        _print_reversion(reversion)


def consolidations(file: MemoryFile, as_json: AsJson = False) -> None:
    """List the consolidations of a file: name, request and result."""
    with open_memory_file(file) as memory:
        records = memory.consolidations()
    for record in records:
        line = {'id': record.name, **record._asdict()}
        del line['number']
        if as_json:
            print(json_line(line))
            continue
        report = record.report or {}
        did = ', '.join(
            f'{report[f"{name}_count"]} {name}'
            for name in ('merged', 'summarized', 'aged')
            if f'{name}_count' in report
        )
        state = 'reverted' if record.reverted_ns is not None else did or 'interrupted'
        print(f'{record.name}  {json_line(record.asked)}  {state}')


def _print_report(report: ConsolidationReport) -> None:
    would = 'would be ' if report.dry_run else ''
    print(report.consolidation_id or ('dry run' if report.dry_run else 'no statement changed'))
    print(f'items: {report.items_before} -> {report.items_after}')
    print(f'bytes: {report.bytes_before} -> {report.bytes_after}')
    for name, groups in (('merged', report.merged), ('summarized', report.summarized)):
        if groups:
            count = sum(len(group.ids) for group in groups)
            print(f'{would}{name}: {count} statements into {len(groups)}')
            for group in groups[:_SHOWN]:
                print(f'  {group.id}  stands for {len(group.ids)}')
    if report.aged:
        print(f'{would}moved into the archive: {len(report.aged)} statements')
    for item_id, reason in report.skipped.items():
        print(f'not made: {item_id}: {reason}')
    print(f'snapshot: {report.digest_before}')
    if report.hash_changed and not report.dry_run:
        print(f'      now: {report.digest_after}')
    if not report.met:
        print('the budget is not met: what holds, has a key or is no event stays')


def _print_reversion(reversion: Reversion) -> None:
    print(f'{reversion.consolidation_id}: {len(reversion.restored)} statements hold again')
    print(f'taken out: {len(reversion.withdrawn)} summaries')
    for item_id, reason in reversion.kept.items():
        print(f'stays: {item_id}: {reason}')
    print(f'snapshot: {reversion.digest}')
