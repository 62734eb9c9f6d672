"""What a memory has learnt of itself: `report helpfulness`."""

from __future__ import annotations

from typing import Annotated, Any, get_args

import typer
from scipy.special import betaincinv

from hylo_memory_ros.cli.json_lines import json_line
from hylo_memory_ros.cli.memory_file import opened
from hylo_memory_ros.cli.options import AsJson, Limit, MemoryFile
from hylo_memory_ros.cli.tables import console, helpfulness_table
from hylo_memory_ros.model import Helpfulness
from hylo_memory_ros.storage.feedback.scores import Order, SubjectCounts

__all__ = ['report']

report = typer.Typer(help='Report what a memory has learnt of itself.', no_args_is_help=True)

ORDERS = get_args(Order)


@report.callback()
def _root() -> None:
    pass


def _order(text: str) -> str:
    if text not in ORDERS:
        raise typer.BadParameter(f'{text!r} is none of {", ".join(ORDERS)}')
    return text


@report.command()
def helpfulness(
    file: MemoryFile,
    order: Annotated[
        Any,
        typer.Option('--order', metavar='COLUMN', help=f'One of {", ".join(ORDERS)}.', parser=_order),
    ] = 'score',
    ascending: Annotated[bool, typer.Option('--ascending', help='Least first.')] = False,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """Print how far items have helped: verdicts, episodes, score with its 90 % interval, retrievals."""
    if limit < 1:
        raise typer.BadParameter(f'--limit: {limit} is below 1')
    with opened(file) as memory, memory.read() as view:
        rows, total = view.feedback.report(limit, order, ascending=ascending)
    if as_json:
        for told in rows:
            print(json_line(_line(told)))
        return
    screen = console()
    if rows:
        screen.print(helpfulness_table(rows, [interval(told.counts) for told in rows]))
    screen.print(f'{len(rows)} of {total} that were looked up or judged', markup=False)


def interval(counts: Helpfulness) -> tuple[float, float]:
    """Return between what the probability to help lies with 90 %: quantiles of its Beta posterior."""
    favour, against = counts.evidence
    low, high = betaincinv(1.0 + favour, 1.0 + against, (0.05, 0.95))
    return float(low), float(high)


def _line(told: SubjectCounts) -> dict[str, Any]:
    low, high = interval(told.counts)
    return {
        'id': told.id,
        'kind': told.kind,
        'key': told.key,
        'content': told.content,
        **told.counts.as_dict(),
        'low': low,
        'high': high,
    }
