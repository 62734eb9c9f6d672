"""Commands that inspect a file as a whole: `info`, `verify`, `snapshot`, `observations`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from hylo_memory_ros.cli.formats import format_instant, json_line
from hylo_memory_ros.cli.options import AsJson, MemoryFile, open_memory_file
from hylo_memory_ros.cli.tables import console, facts_table
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.landmarks.landmarks import InputRow, ObservationRecord

__all__ = ['info', 'observations', 'snapshot', 'verify']


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
