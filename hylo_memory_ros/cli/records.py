"""Commands that list episodes, skills and helpfulness: `episodes`, `skills`, `report helpfulness`."""

from __future__ import annotations

from typing import Annotated, Any, get_args

import typer
from scipy.special import betaincinv

from hylo_memory_ros.cli.formats import episode_line, hit_line, json_line, transition_line
from hylo_memory_ros.cli.options import (
    INSTANT,
    PAIR,
    TIMES,
    AsJson,
    AsOf,
    KnownAt,
    KnownSeq,
    Limit,
    MemoryFile,
    open_memory_file,
    option_parser,
    with_filters,
)
from hylo_memory_ros.cli.tables import (
    console,
    episodes_table,
    format_summary,
    helpfulness_table,
    skills_table,
    transitions_table,
)
from hylo_memory_ros.model import (
    MAX_K,
    SKILL_STATUSES,
    Helpfulness,
    MemoryKind,
    MemoryQuery,
    parse_object,
)
from hylo_memory_ros.storage.feedback import Order, SubjectCounts


def _parse_status(text: str) -> str:
    # Typer takes no list of literals.
    if text not in SKILL_STATUSES:
        raise ValueError(f'expected one of {", ".join(SKILL_STATUSES)}, got {text!r}')
    return text


def _parse_state(text: str) -> dict[str, Any]:
    return parse_object(text, 'state')


@with_filters('keys')
def skills(
    file: MemoryFile,
    status: Annotated[
        list[Any] | None,
        typer.Option(
            '--status', help='May be repeated; every status otherwise.', parser=option_parser(_parse_status)
        ),
    ] = None,
    state: Annotated[
        Any,
        typer.Option(
            '--state',
            metavar='JSON',
            help='Only those that fit this state.',
            parser=option_parser(_parse_state),
        ),
    ] = None,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    known_seq: KnownSeq = None,
    transitions: Annotated[
        bool, typer.Option('--transitions', help='Their steps through the gate: who, when, by what evidence.')
    ] = False,
    limit: Limit = 1000,
    as_json: AsJson = False,
    **filters: Any,
) -> None:
    """List what the robot can do: each skill's status, its verdicts and how many traces show it."""
    if not 1 <= limit <= MAX_K:
        raise typer.BadParameter(f'--limit: expected 1 to {MAX_K}, got {limit}')
    if transitions:
        _print_transitions(file, filters['keys'], limit, as_json=as_json)
        return
    optional: dict[str, Any] = {
        'state': state,
        'as_of_ns': as_of,
        'known_at_ns': known_at,
        'known_seq': known_seq,
    }
    query = MemoryQuery(
        kinds=frozenset({MemoryKind.SKILL}),
        keys=tuple(filters['keys'] or ()),
        skill_status=tuple(status or SKILL_STATUSES),
        any_map=True,
        k=limit,
        **{name: value for name, value in optional.items() if value is not None},
    )
    with open_memory_file(file) as memory:
        result = memory.query(query)
    if as_json:
        for hit in result:
            print(json_line(hit_line(hit)))
        return
    screen = console()
    if result:
        screen.print(skills_table(sorted(result, key=lambda hit: hit.item.key or '')))
    screen.print(format_summary(result, None), markup=False, soft_wrap=True)


def _print_transitions(file: MemoryFile, keys: list[str] | None, limit: int, *, as_json: bool) -> None:
    with open_memory_file(file) as memory:
        names: list[str | None] = [*keys] if keys else [None]
        steps = [step for name in names for step in memory.skill_transitions(name, limit)]
    if as_json:
        for step in steps:
            print(json_line(transition_line(step)))
    elif steps:
        console().print(transitions_table(steps))


def episodes(
    file: MemoryFile,
    outcome: Annotated[str | None, typer.Option('--outcome', help='Only with this outcome.')] = None,
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
    """List episodes, the newest first: with begin, end, outcome and notes."""
    with open_memory_file(file) as memory:
        found = memory.episodes(
            outcome,
            scope=dict(scope or ()),
            time_range_ns=(start, end),
            known_at_ns=known_at,
            known_seq=known_seq,
            limit=limit,
        )
    if as_json:
        for episode in found:
            print(json_line(episode_line(episode)))
        return
    screen = console()
    if found:
        screen.print(episodes_table(found))
    screen.print(f'{len(found)} episode{"s" * (len(found) != 1)}', markup=False)


report = typer.Typer(help='Report statistics of a memory.', no_args_is_help=True)


@report.callback()
def _root() -> None:
    pass


@report.command()
def helpfulness(
    file: MemoryFile,
    order: Annotated[
        Order,
        typer.Option('--order', metavar='COLUMN', help=f'One of {", ".join(get_args(Order))}.'),
    ] = 'score',
    ascending: Annotated[bool, typer.Option('--ascending', help='Least first.')] = False,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """Print how far items have helped: verdicts, episodes, score with its 90 % interval, retrievals."""
    if limit < 1:
        raise typer.BadParameter(f'--limit: expected at least 1, got {limit}')
    with open_memory_file(file) as memory, memory.read() as view:
        rows, total = view.feedback.report(limit, order, ascending=ascending)
    if as_json:
        for row in rows:
            print(json_line(_line(row)))
        return
    screen = console()
    if rows:
        screen.print(helpfulness_table(rows, [interval(row.counts) for row in rows]))
    screen.print(f'{len(rows)} of {total} that were looked up or judged', markup=False)


def interval(counts: Helpfulness) -> tuple[float, float]:
    """Return the 90 % interval of the probability to help: quantiles of its Beta posterior."""
    favour, against = counts.evidence
    # The posterior has the prior Beta(1, 1), as in `Helpfulness.score`.
    low, high = betaincinv(1.0 + favour, 1.0 + against, (0.05, 0.95))
    return float(low), float(high)


def _line(row: SubjectCounts) -> dict[str, Any]:
    low, high = interval(row.counts)
    return {
        'id': row.id,
        'kind': row.kind,
        'key': row.key,
        'content': row.content,
        **row.counts.as_dict(),
        'low': low,
        'high': high,
    }
