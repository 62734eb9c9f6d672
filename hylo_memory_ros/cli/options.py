"""Arguments and options that commands share, and the memory file that they open.

Options of filters come from the registry of filters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from hylo_memory_ros.cli.formats import parse_instant
from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import ConfigurationError, StoreError
from hylo_memory_ros.model import MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.service.skills import NO_DIRECTORY
from hylo_memory_ros.storage.engine.files import url_of
from hylo_memory_ros.storage.engine.state import identity_scope_of
from hylo_memory_ros.storage.query.filters import FILTERS, Option

TIMES = 'seconds, integer nanoseconds as 17ns, or ISO 8601 with an offset'


def option_parser(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser whose errors name the option, from one that raises `ValueError`."""

    def parse_option(text: str) -> Any:
        # Typer shows a ValueError without its text, and a BadParameter with option and text.
        try:
            return parse(text)
        except ValueError as exc:
            raise typer.BadParameter(str(exc)) from exc

    return parse_option


def _parse_number(text: str) -> float:
    # Typer parses numbers too, but its errors do not show the value.
    try:
        return float(text)
    except ValueError:
        raise ValueError(f'expected a number, got {text!r}') from None


def _parse_integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f'expected a whole number, got {text!r}') from None


def _pair_parser(separator: str) -> Callable[[str], tuple[str, str]]:
    def parse_pair(text: str) -> tuple[str, str]:
        name, found, value = text.partition(separator)
        if not found:
            raise ValueError(f'expected a name, {separator!r} and a value, got {text!r}')
        return name, value

    return parse_pair


def _parse_weight(text: str) -> tuple[str, float]:
    name, value = _pair_parser('=')(text)
    return name, _parse_number(value)


INSTANT: dict[str, Any] = {'parser': option_parser(parse_instant), 'metavar': 'TIME'}
NUMBER: dict[str, Any] = {'parser': option_parser(_parse_number)}
WHOLE: dict[str, Any] = {'parser': option_parser(_parse_integer), 'metavar': 'N'}
PAIR: dict[str, Any] = {'parser': option_parser(_pair_parser('='))}

MemoryFile = Annotated[Path, typer.Argument(metavar='FILE', help='The memory file.', show_default=False)]
AsJson = Annotated[bool, typer.Option('--json', help='Print one JSON object a line.')]
Center = Annotated[
    tuple[str, str, str] | None,
    typer.Option('--near', metavar='X Y Z', help='Centre in metres; with --radius.'),
]
Radius = Annotated[
    float | None,
    typer.Option('--radius', metavar='M', help='Metres around --near; the boundary belongs to it.', **NUMBER),
]
Frame = Annotated[str, typer.Option('--frame', help='Frame of --near.')]
MapId = Annotated[str | None, typer.Option('--map', help='Search this map only; every map otherwise.')]
AsOf = Annotated[
    int | None,
    typer.Option(
        '--as-of',
        help=f'What was true then: {TIMES}. Otherwise at the newest record of the file.',
        **INSTANT,
    ),
]
KnownAt = Annotated[
    int | None, typer.Option('--known-at', help=f'What was believed then: {TIMES}.', **INSTANT)
]
KnownSeq = Annotated[
    int | None, typer.Option('--known-seq', help='What was believed after this sequence.', **WHOLE)
]
Invalidated = Annotated[
    bool,
    typer.Option('--include-invalidated', help='Whenever it was true: one hit a version, with its status.'),
]

Weights = Annotated[
    list[Any] | None,
    typer.Option(
        '--weight',
        metavar='ORDER=W',
        help='How much near, text, vector, recency, confidence or helpfulness counts; may be repeated.',
        parser=option_parser(_parse_weight),
    ),
]
Most = Annotated[int, typer.Option('-k', help='Most hits; 0: counts only.', **WHOLE)]
Limit = Annotated[int, typer.Option('--limit', help='Most lines to print.', **WHOLE)]
MaxTokens = Annotated[int | None, typer.Option('--max-tokens', help='Most tokens of the text.', **WHOLE)]
After = Annotated[int, typer.Option('--after', help='Begin behind this sequence.', **WHOLE)]


def parse_center(near: tuple[str, str, str]) -> tuple[float, float, float]:
    """Return the numbers of ``--near``.

    Raises
    ------
    typer.BadParameter
        A part is not a number.
    """
    try:
        x, y, z = map(_parse_number, near)
    except ValueError as exc:
        raise typer.BadParameter(f'--near: {exc}') from exc
    return x, y, z


_Command = TypeVar('_Command', bound=Callable[..., None])
_PARSERS: dict[type, dict[str, Any]] = {
    float: NUMBER,
    int: WHOLE,
    tuple: {'parser': option_parser(_pair_parser(':'))},
}


def with_filters(*fields: str) -> Callable[[_Command], _Command]:
    """Add the options of filters to a command, as its ``**filters``; no field named: of every filter.

    Examples
    --------
    >>> @with_filters('labels')
    ... def command(file: MemoryFile, **filters: Any) -> None: ...
    >>> list(inspect.signature(command).parameters)
    ['file', 'labels']
    """

    def decorate(command: _Command) -> _Command:
        # Typer reads signature and annotations alone: options from the registry must appear in both.
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[name])
            for name, parameter in inspect.signature(command).parameters.items()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        options = [option for query_filter in FILTERS for option in query_filter.options]
        added = [_parameter(option) for option in options if not fields or option.field in fields]
        signature = inspect.Signature([*own, *added])
        command.__signature__ = signature  # type: ignore[attr-defined]
        command.__annotations__ = {name: part.annotation for name, part in signature.parameters.items()}
        return command

    return decorate


def _parameter(option: Option) -> inspect.Parameter:
    default = MemoryQuery.model_fields[option.field].get_default()
    settings = {'help': option.help, **_PARSERS.get(option.type, {})}
    if option.metavar is not None:
        settings['metavar'] = option.metavar
    type_of: Any = Any if option.type is tuple else option.type
    if option.repeated:
        type_of, default = list[type_of] | None, None
    elif default is None and type_of is not Any:
        type_of = type_of | None
    annotation = Annotated[type_of, typer.Option(option.flag, **settings)]
    return inspect.Parameter(
        option.field, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def build_query(
    near: tuple[str, str, str] | None,
    radius_m: float | None,
    frame_id: str,
    map_id: str | None,
    **fields: Any,
) -> MemoryQuery:
    """Return the query of options; a field that is None or empty is not set.

    Raises
    ------
    typer.BadParameter
        A centre without a radius, or a radius without a centre.
    pydantic.ValidationError
        A value breaks a rule.
    """
    if (near is None) != (radius_m is None):
        missing, given = ('--radius', '--near') if radius_m is None else ('--near', '--radius')
        raise typer.BadParameter(f'{given} has no meaning without {missing}: give both, or neither')
    if near is not None:
        fields['near'] = (Pose(frame_id=frame_id, position=parse_center(near)), radius_m)
    if map_id is not None:
        fields['scope'] = {'map_id': map_id}
    # A command line has no current map, unlike a robot.
    fields['any_map'] = map_id is None
    return MemoryQuery(**{name: value for name, value in fields.items() if value not in (None, [])})


@contextmanager
def open_memory_file(path: Path, *, writing: bool = False) -> Iterator[MemoryService]:
    """Open a memory file for reading beside a node that writes it, or for writing, alone.

    "Now" is the time of the file's newest record, so that a file gives the same answers today and
    tomorrow, whichever clock its robot had.

    Raises
    ------
    StoreError
        The file is missing, damaged, foreign, or of a newer version, or it is to be written and in use; it
        is left untouched.
    """
    try:
        memory = _open(path, MemoryConfig(accept_older_clock=True), writing)
    # The file has another identity scope than the default one: open it with its own.
    except ConfigurationError:
        config = MemoryConfig(accept_older_clock=True, identity_scope=identity_scope_of(path))
        memory = _open(path, config, writing)
    with memory:
        yield memory


def _open(path: Path, config: MemoryConfig, writing: bool) -> MemoryService:
    if writing and not path.is_file():
        raise StoreError(f'database {path}: there is no such file', path=str(path))
    if writing:
        # What the robot set is not known here, and nothing that is written here is a skill.
        config = config.model_copy(update={'skill_directory': NO_DIRECTORY})
    # A clock at 0 lies before every record, so that "now" is the newest record.
    return MemoryService.open(url_of(path), config=config, clock=lambda: 0, read_only=not writing)
