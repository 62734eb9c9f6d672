"""What a robot can do: `skills`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hylo_memory_ros.cli.json_lines import hit_line, json_line, transition_line
from hylo_memory_ros.cli.memory_file import opened
from hylo_memory_ros.cli.options import AsJson, AsOf, KnownAt, KnownSeq, Limit, MemoryFile, with_filters
from hylo_memory_ros.cli.tables import console, skills_table, summary_text, transitions_table
from hylo_memory_ros.model import MAX_K, SKILL_STATUSES, MemoryKind, MemoryQuery, parse_object

__all__ = ['skills']


def _status(text: str) -> str:
    if text not in SKILL_STATUSES:
        raise typer.BadParameter(f'{text!r} is none of {", ".join(SKILL_STATUSES)}')
    return text


def _state(text: str) -> dict[str, Any]:
    try:
        return parse_object(text, '--state')
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc


@with_filters('keys')
def skills(
    file: MemoryFile,
    status: Annotated[
        list[Any] | None,
        typer.Option('--status', help='May be repeated; every status otherwise.', parser=_status),
    ] = None,
    state: Annotated[
        Any,
        typer.Option('--state', metavar='JSON', help='Only those that fit this state.', parser=_state),
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
        raise typer.BadParameter(f'--limit: {limit} is not 1 to {MAX_K}')
    if transitions:
        _print_transitions(file, filters['keys'], limit, as_json=as_json)
        return
    given: dict[str, Any] = {
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
        **{name: value for name, value in given.items() if value is not None},
    )
    with opened(file) as memory:
        result = memory.query(query)
    if as_json:
        for hit in result:
            print(json_line(hit_line(hit)))
        return
    screen = console()
    if result:
        screen.print(skills_table(sorted(result, key=lambda hit: hit.item.key or '')))
    screen.print(summary_text(result, None), markup=False, soft_wrap=True)


def _print_transitions(file: MemoryFile, keys: list[str] | None, limit: int, *, as_json: bool) -> None:
    with opened(file) as memory:
        names: list[str | None] = [*keys] if keys else [None]
        steps = [step for name in names for step in memory.skill_transitions(name, limit)]
    if as_json:
        for step in steps:
            print(json_line(transition_line(step)))
    elif steps:
        console().print(transitions_table(steps))
