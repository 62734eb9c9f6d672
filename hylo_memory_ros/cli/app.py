"""The application: registration of commands, and exit codes of errors.

Exit codes: 0 done, 1 refused or found wrong (the reason is on the standard error), 2 used wrongly.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import ValidationError

from hylo_memory_ros import __version__
from hylo_memory_ros.cli.inspect import (
    consolidate,
    consolidations,
    info,
    observations,
    revert_consolidation,
    snapshot,
    verify,
)
from hylo_memory_ros.cli.plot import plot
from hylo_memory_ros.cli.query import audit, changes, history, query
from hylo_memory_ros.cli.receipts import chain, receipt, render, replay_receipt
from hylo_memory_ros.cli.records import episodes, report, skills
from hylo_memory_ros.cli.replay import replay
from hylo_memory_ros.errors import HyloMemoryError

application = typer.Typer(
    name='hylo-memory',
    help='Ask, check and draw the memory file of a robot; a node may be writing it meanwhile.',
    no_args_is_help=True,
    add_completion=False,
    # Plain text: a traceback and markup would read brackets in stored names as styles.
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for command in (
    info,
    query,
    history,
    changes,
    audit,
    episodes,
    skills,
    verify,
    snapshot,
    observations,
    plot,
    render,
    receipt,
    replay_receipt,
    chain,
    replay,
    consolidate,
    consolidations,
    revert_consolidation,
):
    application.command()(command)
application.add_typer(report, name='report')


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
        Arguments after the name of the program; otherwise those of the process.

    Returns
    -------
    int
        The exit code.
    """
    try:
        application(args=None if arguments is None else list(arguments), prog_name='hylo-memory')
    # Typer ends every command by SystemExit; tests and demos that call `main` need the code.
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except HyloMemoryError as exc:
        return _print_error(str(exc))
    except ValidationError as exc:
        return _print_error('; '.join(_problems(exc)))
    return 0


def _print_error(reason: str) -> int:
    sys.stderr.write(f'hylo-memory: {reason}\n')
    return 1


def _problems(error: ValidationError) -> list[str]:
    problems = []
    for problem in error.errors():
        field = '.'.join(map(str, problem['loc']))
        # Pydantic's own prefix says nothing to a user.
        message = problem['msg'].removeprefix('Value error, ')
        problems.append(f'{field}: {problem["input"]!r}: {message}' if field else message)
    return problems
