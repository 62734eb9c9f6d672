"""The application: its commands, and how a refusal ends.

Exit codes: 0 done, 1 refused or found wrong (the reason is on the standard error), 2 used wrongly.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import ValidationError

from hylo_memory_ros import __version__
from hylo_memory_ros.cli import consolidate as consolidating
from hylo_memory_ros.cli import episodes, skills
from hylo_memory_ros.cli import inspect as checking
from hylo_memory_ros.cli import plot as drawing
from hylo_memory_ros.cli import query as asking
from hylo_memory_ros.cli import receipts as proving
from hylo_memory_ros.cli import replay as replaying
from hylo_memory_ros.cli import report as reporting
from hylo_memory_ros.errors import HyloMemoryError

__all__ = ['application', 'main']

application = typer.Typer(
    name='hylo-memory',
    help='Ask, check and draw the memory file of a robot; a node may be writing it meanwhile.',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for command in (
    checking.info,
    asking.query,
    asking.history,
    asking.changes,
    episodes.episodes,
    skills.skills,
    checking.verify,
    checking.snapshot,
    checking.observations,
    drawing.plot,
    proving.render,
    proving.receipt,
    proving.replay_receipt,
    proving.chain,
    replaying.replay,
    consolidating.consolidate,
    consolidating.consolidations,
    consolidating.revert_consolidation,
):
    application.command()(command)
application.add_typer(reporting.report, name='report')


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f'hylo-memory {__version__}')
        raise typer.Exit


@application.callback()
def _root(
    version: Annotated[
        bool, typer.Option('--version', callback=_print_version, is_eager=True, help='Print the version.')
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the program's name; otherwise from the command line.

    Returns
    -------
    int
        The exit code.
    """
    try:
        application(args=None if arguments is None else list(arguments), prog_name='hylo-memory')
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except HyloMemoryError as exc:
        return _refused(str(exc))
    except ValidationError as exc:
        return _refused('; '.join(_told(exc)))
    return 0


def _refused(reason: str) -> int:
    sys.stderr.write(f'hylo-memory: {reason}\n')
    return 1


def _told(error: ValidationError) -> list[str]:
    told = []
    for problem in error.errors():
        field = '.'.join(map(str, problem['loc']))
        message = problem['msg'].removeprefix('Value error, ')
        told.append(f'{field}: {problem["input"]!r}: {message}' if field else message)
    return told
