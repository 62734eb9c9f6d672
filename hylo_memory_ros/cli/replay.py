"""Command `replay`: build a memory file from rosbags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from hylo_memory_ros.cli.formats import json_line
from hylo_memory_ros.cli.options import AsJson
from hylo_memory_ros.cli.tables import console, facts_table
from hylo_memory_ros.errors import ReadOnlyError
from hylo_memory_ros.parameters import ParameterFile
from hylo_memory_ros.perception import InputStatus
from hylo_memory_ros.replay import Bag, ReplayResult, TopicNames
from hylo_memory_ros.replay import replay as replay_bag
from hylo_memory_ros.storage.engine.files import url_of


def replay(
    bag: Annotated[
        list[Path], typer.Argument(metavar='BAG...', help='Bags, sqlite3 or MCAP.', show_default=False)
    ],
    params: Annotated[
        list[Path] | None, typer.Option('--params', metavar='FILE', help='Parameter file of the node.')
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option('-p', '--param', metavar='NAME:=VALUE', help='One parameter more.')
    ] = None,
    database: Annotated[
        Path | None,
        typer.Option('--database', metavar='FILE', help='Memory file to write, or to go on with.'),
    ] = None,
    loops: Annotated[int, typer.Option('--loops', min=1, help='How often to play it.')] = 1,
    node: Annotated[
        str, typer.Option('--node', metavar='NAME', help='Full name of the node: which parameters, topics.')
    ] = '/hylo_memory',
    remap: Annotated[
        list[str] | None, typer.Option('--remap', metavar='FROM:=TO', help='Another name of a topic.')
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a memory from a bag, without ROS: the one that a node fed by that bag would have."""
    names = TopicNames(node, remap or ())
    given = ParameterFile(node)
    for path in params or ():
        given.read(path)
    for assignment in param or ():
        given.put(assignment)
    # Standard output is for the answer, which a program may read.
    side = Console(stderr=True)
    config = given.configuration()
    with Bag(bag) as recording, _progress(side, recording, loops) as on_progress:
        result = replay_bag(
            recording, config, names=names, database=_url(database), loops=loops, on_progress=on_progress
        )
    if as_json:
        print(json_line(_facts(bag, result)))
        return
    console().print(facts_table(_in_words(bag, result)))


def _url(database: Path | None) -> str | None:
    if database is None:
        return None
    file = database.expanduser().absolute()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ReadOnlyError(
            f'--database: {file}: expected a folder that can be created: {exc}', path=str(file)
        ) from exc
    return url_of(file)


@contextmanager
def _progress(side: Console, bag: Bag, loops: int) -> Iterator[Any]:
    start_ns, end_ns = bag.span_ns
    columns = (TextColumn('replaying'), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=side, transient=True, disable=not side.is_terminal) as progress:
        # A bag of one message has no length, and a bar needs one.
        task = progress.add_task('', total=max(1, loops * (end_ns - start_ns)))
        yield lambda done_ns: progress.update(task, completed=done_ns)


def _facts(bag: list[Path], result: ReplayResult) -> dict[str, Any]:
    status = result.status
    return {
        'bag': [str(path) for path in bag],
        'snapshot': result.snapshot,
        'complete': result.complete,
        'sequence': result.sequence,
        'landmarks': status.landmarks,
        'confirmed': status.confirmed,
        'messages': result.messages,
        'recorded_s': round(result.recorded_s, 3),
        'seconds': round(result.seconds, 3),
        'factor': round(result.recorded_s / result.seconds, 1),
        'inputs': {source.name: _counts(source) for source in status.inputs},
        'missing': dict(result.missing),
        'skipped': dict(result.skipped),
        'malformed': dict(result.malformed),
        'transforms_refused': dict(result.transforms_refused),
    }


def _counts(source: InputStatus) -> dict[str, Any]:
    return {
        'consumed': source.consumed,
        'repeated': source.repeated,
        'late': source.late,
        'pending': source.pending,
        'dropped': dict(source.lost),
        'refused': dict(source.refused),
    }


def _in_words(bag: list[Path], result: ReplayResult) -> dict[str, str]:
    status = result.status
    words = {
        'bag': ', '.join(map(str, bag)),
        'replayed': f'{result.messages} messages, {result.recorded_s:.1f} s in {result.seconds:.1f} s: '
        f'{result.recorded_s / result.seconds:.0f} times as fast',
        'landmarks': f'{status.landmarks}, {status.confirmed} of them confirmed',
    }
    for source in status.inputs:
        words[f'input {source.name}'] = result.missing.get(source.name) or _format_counts(_counts(source))
    refused = {**result.malformed, **result.transforms_refused}
    if refused:
        words['transforms refused'] = _format_counts(refused)
    if result.skipped:
        words['not used'] = ', '.join(f'{topic} ({kind})' for topic, kind in result.skipped.items())
    words['complete'] = 'yes' if result.complete else 'no: observations were dropped, late, or still wait'
    words['snapshot'] = result.snapshot
    return words


def _format_counts(counts: Mapping[str, Any]) -> str:
    parts = []
    for name, count in counts.items():
        if isinstance(count, Mapping):
            parts += [f'{number} {name} ({reason})' for reason, number in count.items()]
        elif count:
            parts.append(f'{count} {name}')
    return ', '.join(parts) or 'no messages'
