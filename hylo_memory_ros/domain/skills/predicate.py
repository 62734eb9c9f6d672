"""Parser of predicates, a small part of the Common Expression Language (CEL), and an index of skills.

::

    condition  = and { '||' and }
    and        = comparison { '&&' comparison }
    comparison = sum [ ('==' | '!=' | '<' | '<=' | '>' | '>=' | 'in') sum ]
    sum        = product { ('+' | '-') product }
    product    = factor { ('*' | '/') factor }
    factor     = ('!' | '-') factor | number | string | 'true' | 'false' | 'null' | list | path | call
               | '(' condition ')'
    list       = '[' [ sum { ',' sum } ] ']'
    path       = name { '.' name | '[' (string | integer) ']' }
    call       = function '(' [ sum { ',' sum } ] ')'

The semantics are those of CEL, with these differences: all numbers are of one type, true and false have no
order, ``has`` also accepts a name at the top of the state, and the parser rejects what is not a condition (a
sum, a list).

There are no loops, no regular expressions, no names beyond the state and the functions of `expression`, and
no reference to another predicate, so the length of a predicate bounds the time to parse and to evaluate it.

An entry is an accepted statement, whose predicates never change; the store knows which statements hold, and
since when they were believed. So one index serves the present and every past time.

Threads: a lock guards the table of entries; entries never change, and evaluation runs outside the lock.
"""

from __future__ import annotations

import json
import math
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from hylo_memory_ros.domain.skills.expression import (
    FALSE,
    FUNCTIONS,
    And,
    Arithmetic,
    Call,
    Comparison,
    Condition,
    Constant,
    Has,
    Holds,
    ListOf,
    Not,
    Or,
    Path,
    Term,
)
from hylo_memory_ros.model.skill import SKILL_STATUSES, SkillStatus

MAX_BYTES = 4096
MAX_PARTS = 128
MAX_DEPTH = 32

ALWAYS = And(())
"""Condition of an empty trigger."""

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>(?:\d+\.\d+|\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<mark>\|\||&&|==|!=|<=|>=|[!<>+\-*/().,\[\]])
    |(?P<end>$)
    )""",
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|.)', re.DOTALL)
_ESCAPED = {'n': '\n', 't': '\t', 'r': '\r', '"': '"', "'": "'", '\\': '\\'}
_LITERALS = {'true': True, 'false': False, 'null': None}
_COMPARISONS = ('==', '!=', '<', '<=', '>', '>=', 'in')
_INT64 = 2**63

_Node = Term | Condition
_T = TypeVar('_T')


@lru_cache(maxsize=4096)
def parse_predicate(text: str) -> Condition:
    """Parse a predicate.

    Raises
    ------
    ValueError
        With the position, counted from 1, and what was expected there.

    Examples
    --------
    >>> parse_predicate('battery > 0.3')
    Comparison(operator='>', left=Path(steps=('battery',)), right=Constant(value=0.3))
    >>> parse_predicate('object.label in ["mug", "cup"] && __import__("os")')
    Traceback (most recent call last):
    ...
    ValueError: at 35: unknown function '__import__'; known: abs, distance, has, max, min, size, starts_with
    """
    if (size := len(text.encode('utf-8', 'surrogatepass'))) > MAX_BYTES:
        raise ValueError(f'expected at most {MAX_BYTES} bytes, got {size}')
    return _Parser(_tokenize(text)).parse()


class _Token(NamedTuple):
    kind: str
    """``number``, ``name``, ``string``, ``mark`` or ``end``."""
    text: str
    position: int
    """Counted from 1."""


def _tokenize(text: str) -> list[_Token]:
    """Split a text into tokens; the last one is its end."""
    tokens: list[_Token] = []
    index = 0
    while not tokens or tokens[-1].kind != 'end':
        match = _TOKEN.match(text, index)
        if match is None or match.lastgroup is None:
            index = len(text) - len(text[index:].lstrip())
            raise ValueError(f'at {index + 1}: unexpected text {text[index : index + 20]!r}')
        tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1))
        index = match.end()
    return tokens


def _parse_number(token: _Token) -> int | float:
    if token.text.isdigit():
        # 64 bits have 19 digits; Python takes quadratic time for long integers.
        if len(token.text) <= 19 and (integer := int(token.text)) < _INT64:
            return integer
        raise ValueError(f'at {token.position}: expected an integer of at most 64 bits, got {token.text:.30}')
    number = float(token.text)
    if math.isinf(number):
        raise ValueError(f'at {token.position}: expected a finite number, got {token.text:.30}')
    return number


def _parse_string(token: _Token) -> str:
    """Return the text between the quotes, in NFC as the texts of a state are."""

    def unescape(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) == 5:
            return chr(int(code[1:], 16))
        if code not in _ESCAPED:
            raise ValueError(f'at {token.position}: unknown escape \\{code} in a string')
        return _ESCAPED[code]

    text = _ESCAPE.sub(unescape, token.text[1:-1])
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f'at {token.position}: lone surrogate in a string') from None
    return unicodedata.normalize('NFC', text)


class _Parser:
    """Recursive descent, one method for each rule of the grammar."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._index = 0
        self._depth = 0
        self._parts = 0

    def parse(self) -> Condition:
        condition = self._condition(self._or)
        if self._next.kind != 'end':
            raise self._unexpected('the end')
        return condition

    @property
    def _next(self) -> _Token:
        return self._tokens[self._index]

    def _take(self, *texts: str) -> str:
        """Consume the next token if it is one of these marks or words; else return an empty text."""
        token = self._next
        if token.kind in ('mark', 'name') and token.text in texts:
            self._index += 1
            return token.text
        return ''

    def _take_kind(self, *kinds: str) -> _Token | None:
        token = self._next
        if token.kind not in kinds:
            return None
        self._index += 1
        return token

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._unexpected(repr(text))

    def _unexpected(self, expected: str) -> ValueError:
        token = self._next
        found = repr(token.text) if token.kind != 'end' else 'the end'
        return ValueError(f'at {token.position}: expected {expected}, got {found}')

    def _count(self, node: _T) -> _T:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise ValueError(f'at {self._next.position}: more than {MAX_PARTS} parts')
        return node

    def _nest(self, rule: Callable[[], _Node]) -> _Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError(f'at {self._next.position}: nested deeper than {MAX_DEPTH}')
        node = rule()
        self._depth -= 1
        return node

    def _condition(self, rule: Callable[[], _Node]) -> Condition:
        position = self._next.position
        return self._as_condition(rule(), position)

    def _as_condition(self, node: _Node, position: int) -> Condition:
        if isinstance(node, Condition):
            return node
        if isinstance(node, (Path, Has)) or _is_boolean(node):
            return self._count(Holds(node))
        raise ValueError(f'at {position}: expected a condition, got {_describe(node)}')

    def _term(self, rule: Callable[[], _Node]) -> Term:
        position = self._next.position
        return _as_term(rule(), position)

    def _or(self) -> _Node:
        return self._junction(self._and, '||', Or)

    def _and(self) -> _Node:
        return self._junction(self._comparison, '&&', And)

    def _junction(self, rule: Callable[[], _Node], mark: str, kind: type[And | Or]) -> _Node:
        position = self._next.position
        node = rule()
        if self._next.text != mark:
            return node
        parts = [self._as_condition(node, position)]
        while self._take(mark):
            parts.append(self._condition(rule))
        return self._count(kind(tuple(parts)))

    def _comparison(self) -> _Node:
        position = self._next.position
        node = self._sum()
        operator = self._take(*_COMPARISONS)
        if not operator:
            return node
        left, right = _as_term(node, position), self._term(self._sum)
        position = self._next.position
        if self._take(*_COMPARISONS):
            raise ValueError(f'at {position}: comparisons cannot be chained: join them with &&')
        return self._count(_compare(operator, left, right))

    def _sum(self) -> _Node:
        return self._arithmetic(self._product, '+', '-')

    def _product(self) -> _Node:
        return self._arithmetic(self._factor, '*', '/')

    def _arithmetic(self, rule: Callable[[], _Node], *operators: str) -> _Node:
        position = self._next.position
        node = rule()
        while operator := self._take(*operators):
            node = self._count(Arithmetic(operator, _as_term(node, position), self._term(rule)))
        return node

    def _factor(self) -> _Node:
        if self._take('!'):
            return self._count(Not(self._condition(lambda: self._nest(self._factor))))
        if self._take('-'):
            return self._count(_negate(self._term(lambda: self._nest(self._factor))))
        if self._take('('):
            node = self._nest(self._or)
            self._expect(')')
            return node
        if self._take('['):
            return self._count(ListOf(self._terms(']')))
        if self._next.text == 'in':
            raise self._unexpected('a value')
        return self._count(self._value())

    def _value(self) -> Term:
        token = self._take_kind('number', 'string', 'name')
        if token is None:
            raise self._unexpected('a value')
        if token.kind == 'number':
            return Constant(_parse_number(token))
        if token.kind == 'string':
            return Constant(_parse_string(token))
        if token.text in _LITERALS:
            return Constant(_LITERALS[token.text])
        return self._call(token) if self._take('(') else self._path(token)

    def _terms(self, end: str) -> tuple[Term, ...]:
        terms: list[Term] = []
        while not self._take(end):
            if terms:
                self._expect(',')
            terms.append(self._term(lambda: self._nest(self._sum)))
        return tuple(terms)

    def _call(self, name: _Token) -> Term:
        if name.text != 'has' and name.text not in FUNCTIONS:
            known = ', '.join(sorted({'has', *FUNCTIONS}))
            raise ValueError(f'at {name.position}: unknown function {name.text!r}; known: {known}')
        arguments = self._terms(')')
        arity = 1 if name.text == 'has' else FUNCTIONS[name.text].arity
        if len(arguments) != arity:
            raise ValueError(
                f'at {name.position}: expected {arity} arguments of {name.text}, got {len(arguments)}'
            )
        if name.text != 'has':
            return Call(name.text, arguments)
        (path,) = arguments
        if not isinstance(path, Path):
            raise ValueError(f'at {name.position}: has takes a place in the state, got {_describe(path)}')
        return Has(path)

    def _path(self, name: _Token) -> Path:
        steps: list[str | int] = [name.text]
        while mark := self._take('.', '['):
            steps.append(self._count(self._name() if mark == '.' else self._subscript()))
        return Path(tuple(steps))

    def _name(self) -> str:
        token = self._take_kind('name')
        if token is None:
            raise self._unexpected('a name')
        return token.text

    def _subscript(self) -> str | int:
        token = self._next
        step: str | int | float | None = None
        if token.kind == 'string':
            step = _parse_string(token)
        elif token.kind == 'number':
            step = _parse_number(token)
        if step is None or isinstance(step, float):
            raise self._unexpected('a name in quotes or an integer')
        self._index += 1
        self._expect(']')
        return step


def _is_boolean(term: Term) -> bool:
    """Return True if a term that is not a path can be true or false."""
    if isinstance(term, Call):
        return term.function == 'starts_with'
    return isinstance(term, Constant) and isinstance(term.value, bool)


def _as_term(node: _Node, position: int) -> Term:
    if isinstance(node, Condition):
        raise ValueError(f'at {position}: expected a value, got a condition')
    return node


def _compare(operator: str, left: Term, right: Term) -> Condition:
    if operator == '!=':
        return Not(Comparison('==', left, right))
    if operator == 'in' and isinstance(right, ListOf) and right.items:
        # One equal item decides, whatever the others lack; a plain list is unknown with any unknown item.
        return Or(tuple(Comparison('==', left, item) for item in right.items))
    return Comparison(operator, left, right)


def _negate(term: Term) -> Term:
    if (
        isinstance(term, Constant)
        and isinstance(term.value, (int, float))
        and not isinstance(term.value, bool)
    ):
        return Constant(-term.value)
    return Arithmetic('-', Constant(0), term)


def _describe(term: Term) -> str:
    if isinstance(term, Call):
        return f'the result of {term.function}'
    return {Constant: 'a literal', ListOf: 'a list', Arithmetic: 'arithmetic'}.get(type(term), 'a value')


OTHER_STATUS = 'other_status'
"""Reason to exclude a skill whose status the query does not ask for."""
_REASONS = ('precondition_failed', 'precondition_unfit', 'precondition_unknown', '')


@dataclass(frozen=True, slots=True)
class Fit:
    """Outcome of every stated skill in one state."""

    reasons: Mapping[int, str]
    """Reason to exclude each statement, by its number and in ascending order; empty: the skill fits."""

    @property
    def fitting(self) -> list[int]:
        """The statements of skills that fit."""
        return [statement for statement, reason in self.reasons.items() if not reason]

    def to_json(self) -> str:
        """Return the fitting statements as a JSON array."""
        return json.dumps(self.fitting, separators=(',', ':'))

    def count_reasons(self, statements: Iterable[int]) -> dict[str, int]:
        """Count the reasons to exclude some statements."""
        reasons = (self.reasons.get(statement, '') for statement in statements)
        return dict(Counter(filter(None, reasons)))


@dataclass(frozen=True, slots=True)
class _Entry:
    status: SkillStatus
    trigger: Condition
    preconditions: Condition

    def reason(self, state: Mapping[str, Any]) -> str:
        trigger = self.trigger.evaluate(state)
        if trigger is FALSE:
            return 'trigger_failed'
        return _REASONS[min(trigger, self.preconditions.evaluate(state))]


class SkillIndex:
    """Compiled predicates of every skill that was ever stated."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[int, _Entry] = {}

    def __len__(self) -> int:
        """Return the number of statements."""
        return len(self._entries)

    def __contains__(self, statement: int) -> bool:
        """Return True if a statement is one of a skill."""
        return statement in self._entries

    def load(self, skills: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Replace the entries by those of these statements; see `add`."""
        entries = {statement: _compile(payload) for statement, payload in skills}
        with self._lock:
            self._entries = entries

    def add(self, skills: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Add statements, each by its number and payload, in ascending order of their numbers."""
        entries = {statement: _compile(payload) for statement, payload in skills}
        with self._lock:
            self._entries.update(entries)

    def fit(self, state: Mapping[str, Any], statuses: Collection[SkillStatus] = SKILL_STATUSES) -> Fit:
        """Evaluate every skill.

        Parameters
        ----------
        state : mapping
            State of the caller, as `model.skill.validate_state` returns it.
        statuses : collection of str
            Statuses that the query asks for.
        """
        with self._lock:
            entries = list(self._entries.items())
        return Fit(
            {
                statement: entry.reason(state) if entry.status in statuses else OTHER_STATUS
                for statement, entry in entries
            }
        )


def _compile(payload: Mapping[str, Any]) -> _Entry:
    trigger = parse_predicate(payload['trigger']) if payload.get('trigger') else ALWAYS
    preconditions = And(tuple(map(parse_predicate, payload.get('preconditions', ()))))
    return _Entry(payload['status'], trigger, preconditions)
