"""Commands for a file as a whole: `info`, `verify`, `snapshot`, `observations`, consolidation."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from hylo_memory_ros.cli.formats import format_instant, json_line
from hylo_memory_ros.cli.options import PAIR, WHOLE, AsJson, MemoryFile, open_memory_file
from hylo_memory_ros.cli.tables import console, facts_table
from hylo_memory_ros.model import Budget, ConsolidationReport, MemoryKind, Reversion
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.landmarks import InputRow, ObservationRecord


def info(file: MemoryFile, as_json: AsJson = False) -> None:
    """Print what a memory file holds: size, times, counts, maps, inputs, landmarks, snapshot."""
    with open_memory_file(file) as memory:
        facts = _facts(memory, file)
    if as_json:
        print(json_line(facts))
        return
    console().print(facts_table(_in_words(facts)))


def _facts(memory: MemoryService, file: Path) -> dict[str, Any]:
    facts: dict[str, Any] = {'file': str(file), 'bytes': file.stat().st_size, **memory.manifest()}

    archive = memory.archive_info()
    with memory.read() as view:
        held, confirmed = view.landmarks.count()
        return {
            **facts,
            'archive': None if archive is None else archive._asdict(),
            'held': {kind: size._asdict() for kind, size in view.sizes.held_by_kind().items()},
            'maps': view.maps.load_all(),
            'inputs': {name: row._asdict() for name, row in view.ledger.load_inputs().items()},
            'landmarks': {'held': held, 'confirmed': confirmed},
        }


def _in_words(facts: dict[str, Any]) -> dict[str, str]:
    held = facts['landmarks']
    words = {
        'file': f'{facts["file"]}, {facts["bytes"]:,} bytes',
        'snapshot': facts['digest'],
        'complete': 'yes' if facts.get('complete', True) else 'no: observations were dropped or late',
        'sequence': f'{facts["sequence"]}, recorded {format_instant(facts["recorded_at_ns"], "never")}',
        'epoch': facts['epoch'],
        'items': ', '.join(f'{count} {kind}' for kind, count in facts['counts'].items() if count) or 'none',
        'at hand': ', '.join(
            f'{one["items"]} {kind} in {one["bytes"]:,} bytes' for kind, one in facts['held'].items()
        )
        or 'nothing',
        'archive': _format_archive(facts['archive']),
        'landmarks': f'{held["held"]}, {held["confirmed"]} of them confirmed',
        'maps': ', '.join(name or '(none)' for name in facts['maps']) or '(none)',
        'schema': f'{facts["schema"]}, canonical form {facts["canonical_form"]}',
    }
    for name, row in facts['inputs'].items():
        counts = InputRow(**row)
        words[f'input {name}'] = (
            f'newest {format_instant(counts.newest_ns, "none")}, {counts.dropped} dropped, {counts.late} late'
        )
    return words


def _format_archive(archive: dict[str, Any] | None) -> str:
    if archive is None:
        return 'nothing'
    if archive['lost']:
        return str(archive['lost'])
    return f'{archive["statements"]} statements, {archive["file"]}, {archive["bytes"]:,} bytes'


def verify(file: MemoryFile, as_json: AsJson = False) -> None:
    """Recompute every timeline, hash and the mirror from the evidence; exit code 1 when one differs."""
    with open_memory_file(file) as memory:
        report = memory.verify()
    if as_json:
        fields = ('ok', 'problems', 'identities', 'versions', 'sequence')
        print(json_line({name: getattr(report, name) for name in fields}))
    else:
        for problem in report.problems:
            print(problem)
        state = 'sound' if report.ok else f'{len(report.problems)} problems'
        extent = f'{report.identities} timelines, {report.versions} versions'
        print(f'{state}: {extent}, up to sequence {report.sequence}')
    if not report.ok:
        raise typer.Exit(1)


def snapshot(
    file: MemoryFile,
    copy: Annotated[
        Path | None,
        typer.Option('--copy', metavar='PATH', help='Also copy the memory, whole, to a new file.'),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the hash of what is believed and open: equal for equal memories on any machine."""
    with open_memory_file(file) as memory:
        digest = memory.snapshot(None if copy is None else str(copy.absolute()))
        manifest = memory.manifest()
    print(json_line(manifest) if as_json else digest)


def observations(
    file: MemoryFile,
    input: Annotated[str | None, typer.Option('--input', help='Only those of this input.')] = None,
    landmark: Annotated[str | None, typer.Option('--landmark', help='Only those given to this key.')] = None,
    as_csv: Annotated[bool, typer.Option('--csv', help='Comma-separated, with a header.')] = False,
    as_json: AsJson = False,
) -> None:
    """Print the ledger: each detection of each message, and the landmark it was given to."""
    # Typer has no groups of options that exclude each other.
    if as_csv and as_json:
        raise typer.BadParameter('expected one of --csv and --json, got both')
    with open_memory_file(file) as memory, memory.read() as view:
        write = _writer(as_csv=as_csv, as_json=as_json)
        for record in view.ledger.observations():
            if input in (None, record.input) and landmark in (None, record.landmark):
                write(record)


_COLUMNS = ('input', 'stamp_ns', 'index', 'landmark')


def _writer(*, as_csv: bool, as_json: bool) -> Callable[[ObservationRecord], None]:
    if as_json:
        return lambda record: print(json_line(dict(zip(_COLUMNS, record, strict=True))))
    if as_csv:
        rows = csv.writer(sys.stdout, lineterminator='\n')
        rows.writerow(_COLUMNS)
        return rows.writerow
    return lambda record: print(
        f'{record.input}  {format_instant(record.stamp_ns)}  {record.detection}  {record.landmark or "-"}'
    )


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
