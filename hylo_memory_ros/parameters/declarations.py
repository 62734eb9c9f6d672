"""Mapping between ROS parameters and the fields of the typed configuration."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from hylo_memory_ros.config import MemoryConfig, Retention
from hylo_memory_ros.errors import ConfigurationError
from hylo_memory_ros.model import EmbeddingSpace
from hylo_memory_ros.model.embedding import SpaceNames
from hylo_memory_ros.model.validation import NOT_A_PARAMETER, Contract
from hylo_memory_ros.parameters.node_config import NodeConfig
from hylo_memory_ros.perception import InputSettings, LandmarkSettings

ValueOf = Callable[['ParameterSpec'], Any]

UNITS = {'_s': 's', '_m': 'm', '_rad': 'rad', '_bytes': 'bytes', '_ns': 'ns', '_hz': 'Hz'}

# Names below these are read by every node itself, and not by this package.
FOREIGN = ('use_sim_time', 'start_type_description_service', 'qos_overrides.')

# Prefixes of groups of parameters, and the parameter that lists the groups.
LISTED_IN = {'input': 'inputs', 'space': 'embedding_spaces'}

# Below which prefix the fields of a composed model appear.
COMPOSED: dict[tuple[type[BaseModel], str], str] = {
    (NodeConfig, 'memory'): '',
    (NodeConfig, 'landmarks'): 'landmarks.',
    (MemoryConfig, 'retention'): 'retention.',
    (MemoryConfig, 'consolidation'): 'consolidation.',
    **{(Retention, kind): f'{kind}.' for kind in Retention().by_kind},
}
# No parameters of their own: they follow from others, or from use_sim_time.
DERIVED = {
    (MemoryConfig, 'clock'),
    (MemoryConfig, 'embedding_spaces'),
    (NodeConfig, 'inputs'),
    (InputSettings, 'name'),
    (LandmarkSettings, 'global_frame'),
    (LandmarkSettings, 'base_frame'),
    (LandmarkSettings, 'localization_gate'),
    (LandmarkSettings, 'inputs'),
    (LandmarkSettings, 'min_valid_stamp_s'),
}


class _InputNames(Contract):
    inputs: tuple[Annotated[str, Field(pattern=r'^[A-Za-z][A-Za-z0-9_]{0,63}$')], ...] = ()
    """Names of the perception inputs; the settings of each are below input.<name>."""


class _SpaceNames(Contract):
    embedding_spaces: SpaceNames = ()
    """Names of the embedding spaces, name@version; the settings of each are below space.<name>."""


@dataclass(frozen=True)
class ParameterSpec:
    """One parameter."""

    name: str
    """Full name of the parameter."""
    path: tuple[str, ...]
    """Names of the fields that lead to its value, from the configuration or the input down."""
    field: FieldInfo
    """The field that it sets."""

    @property
    def default(self) -> Any:
        """The value when nothing is given, as ROS takes it; the empty text when one must be given."""
        if self.field.is_required():
            return ''
        value = self.field.get_default(call_default_factory=True)
        if value is None:
            return ''
        return list(value) if isinstance(value, (tuple, dict)) else value

    @property
    def read_only(self) -> bool:
        """True if it is fixed when the process starts."""
        extra = self.field.json_schema_extra
        return isinstance(extra, dict) and extra.get('read_only') is True

    @property
    def unit(self) -> str:
        """Unit of the value, from the end of the name; empty: none."""
        return next((unit for end, unit in UNITS.items() if self.path[-1].endswith(end)), '')

    @property
    def is_topic(self) -> bool:
        """True if the value is the name of a topic."""
        return self.path[-1].endswith('topic')

    @property
    def expected(self) -> str:
        """The type, the range and the unit, in words."""
        words = _in_words(self.field.annotation) + (', required' if self.field.is_required() else '')
        limits = [
            f'{sign} {limit:g}' if isinstance(limit, float) else f'{sign} {limit}'
            for rule in self._rules()
            for name, sign in (('gt', '>'), ('ge', '>='), ('lt', '<'), ('le', '<='))
            if (limit := getattr(rule, name, None)) is not None
        ]
        words = ' '.join([words, ' and '.join(limits)]).rstrip()
        return f'{words} ({self.unit})' if self.unit else words

    def _rules(self) -> Iterator[Any]:
        for rule in self.field.metadata:
            yield from rule if isinstance(rule, annotated_types.GroupedMetadata) else (rule,)

    @property
    def range(self) -> tuple[float | None, float | None]:
        """The least and the largest value, where there is one."""
        low = high = None
        for rule in self._rules():
            low = getattr(rule, 'ge', getattr(rule, 'gt', low))
            high = getattr(rule, 'le', getattr(rule, 'lt', high))
        return low, high

    def validated(self, value: Any) -> Any:
        """Return a value as the configuration takes it; an integer is taken for a number.

        Raises
        ------
        ValueError
            With the name, the value and what was expected.
        """
        if value == '' and self.field.is_required():
            raise ValueError(f"{self.name}: expected {self.expected}, got ''")
        try:
            if isinstance(value, bool) != (self.field.annotation is bool):
                raise ValueError(
                    'expected a boolean' if self.field.annotation is bool else 'a boolean is not allowed'
                )
            return self._adapter().validate_python(self._as_field(value))
        except ValueError as exc:
            shown = value if isinstance(value, (str, int, float, type(None))) else list(value)
            raise ValueError(f'{self.name}: {shown!r} is not {self.expected}{_reasons(exc)}') from exc

    def _as_field(self, value: Any) -> Any:
        if isinstance(self.default, list):
            # YAML's [] has no type and arrives as "not set"; [""] is how files usually say it.
            value = () if value is None or list(value) == [''] else value
            if self._is_mapping:
                return _as_mapping(value, numbers=_is_number(get_args(self.field.annotation)[1]))
            return value if isinstance(value, str) or not hasattr(value, '__iter__') else tuple(value)
        if value == '' and self.field.is_required():
            raise ValueError('it must be given')
        return None if value == '' and self.field.default is None else value

    @property
    def _is_mapping(self) -> bool:
        return get_origin(self.field.annotation) is Mapping

    def _adapter(self) -> TypeAdapter[Any]:
        annotation: Any = self.field.annotation
        for rule in self.field.metadata:
            annotation = Annotated[annotation, rule]
        return TypeAdapter(annotation, config=ConfigDict(strict=True, allow_inf_nan=False))


def _as_mapping(pairs: Any, *, numbers: bool) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for pair in pairs:
        name, found, value = str(pair).partition('=')
        if not found or name in mapping:
            raise ValueError(f'expected name=value with a new name, got {pair!r}')
        mapping[name] = float(value) if numbers else value
    return mapping


def _is_number(annotation: Any) -> bool:
    return _in_words(annotation) == NAMED[float]


NAMED = {float: 'a number', int: 'an integer', bool: 'true or false', str: 'a string'}
LISTS = {'a number': 'a list of numbers', 'an integer': 'a list of integers', 'a string': 'a list of strings'}


def _in_words(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return 'one of ' + ', '.join(map(repr, parts))
    if origin is Annotated:
        return _in_words(parts[0])
    if origin in (Union, types.UnionType):
        return ' or '.join(_in_words(part) for part in parts if part is not type(None))
    if origin is Mapping:
        return 'a list of name=number' if _is_number(parts[1]) else 'a list of name=value'
    if origin is tuple:
        return LISTS.get(_in_words(parts[0]), 'a list')
    return NAMED.get(annotation, 'a string')


def _walk(model: type[BaseModel], prefix: str = '', path: tuple[str, ...] = ()) -> Iterator[ParameterSpec]:
    for name, field in model.model_fields.items():
        if (model, name) in DERIVED or NOT_A_PARAMETER in field.metadata:
            continue
        if (model, name) in COMPOSED:
            part = field.annotation
            assert isinstance(part, type)
            assert issubclass(part, BaseModel)
            yield from _walk(part, prefix + COMPOSED[model, name], (*path, name))
        else:
            yield ParameterSpec(prefix + name, (*path, name), field)


def node_entries() -> tuple[ParameterSpec, ...]:
    """Return the parameters of the node, with the lists of names last."""
    return (
        *_walk(NodeConfig),
        ParameterSpec(
            'embedding_spaces', ('embedding_spaces',), _SpaceNames.model_fields['embedding_spaces']
        ),
        ParameterSpec('inputs', ('inputs',), _InputNames.model_fields['inputs']),
    )


def input_entries(name: str) -> tuple[ParameterSpec, ...]:
    """Return the parameters of one input."""
    return tuple(_walk(InputSettings, f'input.{name}.'))


def space_entries(name: str) -> tuple[ParameterSpec, ...]:
    """Return the parameters of one embedding space."""
    return tuple(_walk(EmbeddingSpace, f'space.{name}.'))


def _reasons(problem: ValueError) -> str:
    """Return the messages of validators beyond type and range."""
    if not isinstance(problem, ValidationError):
        return ''
    messages = [error['ctx']['error'] for error in problem.errors() if error['type'] == 'value_error']
    return f': {"; ".join(map(str, messages))}' if messages else ''


def build_configuration(value_of: ValueOf, given: Collection[str], *, clock: str) -> NodeConfig:
    """Build the configuration from single values.

    Parameters
    ----------
    value_of : callable
        Return the value of a parameter, as ROS has it.
    given : collection of str
        Names of all parameters that a user gave, to refuse those that do not exist.
    clock : str
        Name of the service clock.

    Raises
    ------
    ConfigurationError
        With every parameter that is wrong, its value and the expected type, and every name that is none.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    for entry in node_entries():
        _put(values, entry, value_of, problems)
    values.setdefault('memory', {})['clock'] = clock
    values['memory']['embedding_spaces'] = {
        name: _space(name, value_of, problems) for name in values.pop('embedding_spaces', ())
    }
    values['inputs'] = tuple(_input(name, value_of, problems) for name in values.get('inputs', ()))
    inputs = [source['name'] for source in values['inputs']]
    problems[:0] = _unknown(given, {'input': inputs, 'space': list(values['memory']['embedding_spaces'])})
    if not problems:
        try:
            return NodeConfig.model_validate(values)
        except ValidationError as exc:
            problems += [_problem(error, inputs) for error in exc.errors()]
    raise ConfigurationError('; '.join(problems), problems=tuple(problems))


def _unknown(given: Collection[str], listed: Mapping[str, list[str]]) -> list[str]:
    """Return a problem for each given name that is no parameter, and for each group that is not listed."""
    known = {entry.name for entry in node_entries()}
    known.update(entry.name for name in listed['input'] for entry in input_entries(name))
    known.update(entry.name for name in listed['space'] for entry in space_entries(name))
    problems = {}
    for name in sorted(name for name in given if name not in known and not name.startswith(FOREIGN)):
        prefix, _, rest = name.partition('.')
        # The name of an input has no dot; a version of a space may.
        group = rest.partition('.')[0] if prefix == 'input' else rest.rpartition('.')[0]
        if prefix in listed and group not in listed[prefix]:
            meant = _did_you_mean(group, listed[prefix])
            problems[f'{prefix}.{group}.*'] = f'{LISTED_IN[prefix]} does not list {group!r}{meant}'
        else:
            problems[name] = f'there is no parameter of this name{_did_you_mean(name, known)}'
    return [f'{name}: {problem}' for name, problem in problems.items()]


def _did_you_mean(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return f'; did you mean {close[0]!r}?' if close else ''


def _input(name: str, value_of: ValueOf, problems: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {'name': name}
    for entry in input_entries(name):
        _put(values, entry, value_of, problems)
    return values


def _space(name: str, value_of: ValueOf, problems: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for entry in space_entries(name):
        _put(values, entry, value_of, problems)
    return values


def _put(values: dict[str, Any], entry: ParameterSpec, value_of: ValueOf, problems: list[str]) -> None:
    try:
        value = entry.validated(value_of(entry))
    except ValueError as exc:
        problems.append(str(exc))
        return
    for part in entry.path[:-1]:
        values = values.setdefault(part, {})
    values[entry.path[-1]] = value


def _problem(error: Any, inputs: list[str]) -> str:
    place = [str(part) for part in error['loc']]
    if place[:1] == ['inputs']:
        place[:2] = ['input', inputs[int(place[1])]]
    if place[:2] == ['memory', 'embedding_spaces']:
        place[:2] = ['space']
    text = str(error['msg']).removeprefix('Value error, ')
    return f'{".".join(place)}: {text}' if place else text
