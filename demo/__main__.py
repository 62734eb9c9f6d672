"""Run the demonstration: `python -m demo`."""

from __future__ import annotations

import argparse
import fcntl
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from demo.bag import bag_of, read_bag
from demo.domain import own_domain
from demo.drive import Drive
from demo.node_process import NodeProcess
from demo.replay import Replay, replayed
from demo.report import json_line, print_report
from demo.revisit_landmark.telling import main as revisit
from hylo_memory_ros.errors import HyloMemoryError

TARGET_F1 = 0.997
TARGET_LANDMARKS = (143, 152)
REVISIT = 'revisit_landmark'


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration, and return the exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == [REVISIT]:
        return revisit(arguments[1:])
    given = _parser().parse_args(arguments)
    # A SIGTERM must end the node too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    begun_s = time.monotonic()
    given.out.mkdir(parents=True, exist_ok=True)
    with _alone_in(given.out), own_domain():
        return _run(given.out.resolve(), given.rows, given.loops, begun_s)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        'python -m demo',
        description='A drive through a park, remembered.',
        epilog=f'The other demonstration: python -m demo {REVISIT} --help',
    )
    parser.add_argument('--loops', type=_positive, default=1, help='how often the bag is played (1)')
    parser.add_argument('--rows', type=_positive, help='only so many poses from the beginning of the drive')
    parser.add_argument(
        '--out',
        type=Path,
        default=Path(__file__).parent / 'out',
        help='where bag, memory and map go (demo/out)',
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f'{number} is below 1')
    return number


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    with (folder / '.lock').open('w') as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f'demo: another run writes to {folder}; wait for it, or give --out')
        yield


def _run(out: Path, rows: int | None, loops: int, begun_s: float) -> int:
    screen, side = Console(), Console(stderr=True)
    node = NodeProcess(out / 'memory.db', out / 'node.log')
    with _progress(side) as progress:
        task = progress.add_task('making the bag', total=None)
        drive = Drive.load(rows)
        bag = bag_of(drive, out)
        try:
            with node:
                result = replayed(drive, list(read_bag(bag)), node, out, loops, progress, task)
        except (RuntimeError, HyloMemoryError) as exc:
            side.print(
                f'demo: {exc}\nthe end of {out / "node.log"}:\n{node.last_lines()}',
                markup=False,
                soft_wrap=True,
            )
            return 1
        except KeyboardInterrupt:
            side.print('demo: interrupted; the node has ended')
            return 128 + signal.SIGINT
    return _told(screen, result, drive, out, time.monotonic() - begun_s, whole=rows is None)


def _progress(console: Console) -> Progress:
    columns = (TextColumn('{task.description:<28}'), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def _told(screen: Console, result: Replay, drive: Drive, out: Path, seconds: float, *, whole: bool) -> int:
    outcome = result.outcome
    print_report(screen, outcome, result.answers, _remarks(out, drive))
    print(
        json_line(
            detections=len(drive.trees),
            landmarks=outcome.landmarks,
            confirmed=outcome.confirmed,
            pairwise_f1=round(outcome.score.f1, 4),
            snapshot=result.snapshot,
            complete=result.complete,
            seconds=round(seconds, 1),
        ),
        flush=True,
    )
    least, most = TARGET_LANDMARKS
    # A part of the drive passes fewer trees.
    reached = outcome.score.f1 >= TARGET_F1 and (not whole or least <= outcome.landmarks <= most)
    return 0 if result.complete and reached else 1


def _remarks(out: Path, drive: Drive) -> list[str]:
    x, y, _ = drive.poses[-1]
    file = _short(out / 'memory.db')
    return [
        f'the map: {_short(out / "map.png")}',
        f'ask on: .venv/bin/hylo-memory query {file} --near {x:.1f} {y:.1f} 0 --radius 15 '
        f'--as-of {drive.half_ns}ns',
    ]


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


if __name__ == '__main__':
    sys.exit(main())
