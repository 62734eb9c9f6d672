"""The text of a predicate: a small part of the Common Expression Language (CEL) that cannot run away.

::

    condition  = and { '||' and }
    and        = comparison { '&&' comparison }
    comparison = sum [ ('==' | '!=' | '<' | '<=' | '>' | '>=' | 'in') sum ]
    sum        = product { ('+' | '-') product }
    product    = factor { ('*' | '/') factor }
    factor     = ('!' | '-') factor | number | string | 'true' | 'false' | 'null' | list | path | call
               | '(' condition ')'
    list       = '[' [ sum { ',' sum } ] ']'
    path       = name { '.' name | '[' (string | whole number) ']' }
    call       = function '(' [ sum { ',' sum } ] ')'

It means what it means in CEL, but for this: all numbers are of one type, true and false have no order,
``has`` also asks about the top of the state, and what is no condition (a sum, a list) is refused at reading.

No loops, no regular expressions, no names beyond the state and the functions below, no reference to another
predicate: each is read and evaluated in a time that its own length bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from hylo_memory_ros.domain.skills.expression import (
    All,
    AnyOf,
    Arithmetic,
    Call,
    Compare,
    Condition,
    Constant,
    Holds,
    ListOf,
    Not,
    Path,
    Term,
)
from hylo_memory_ros.domain.skills.functions import ARGUMENTS, CONDITIONS
from hylo_memory_ros.domain.skills.tokens import Token, number_of, string_of, tokens_of

__all__ = ['ALWAYS', 'MAX_BYTES', 'MAX_DEPTH', 'MAX_PARTS', 'parse_predicate']

MAX_BYTES = 4096
MAX_PARTS = 128
MAX_DEPTH = 32

ALWAYS = All(frozenset())
"""What an empty trigger means."""

_LITERALS = {'true': ('bool', True), 'false': ('bool', False), 'null': ('null', None)}
_COMPARISONS = frozenset({'==', '!=', '<', '<=', '>', '>=', 'in'})
_MIRRORED = {'==': '==', '<': '>', '<=': '>=', '>': '<', '>=': '<='}

_Part = Term | Condition
_Any = TypeVar('_Any')


@lru_cache(maxsize=4096)
def parse_predicate(text: str) -> Condition:
    """Read a predicate.

    Raises
    ------
    ValueError
        With the place, counted from 1, and what is wrong there.

    Examples
    --------
    >>> parse_predicate('battery > 0.3')
    Compare(operator='>', left=Path(steps=('battery',)), right=Constant(type='number', value=0.3))
    >>> parse_predicate('object.label in ["mug", "cup"] && __import__("os")')
    Traceback (most recent call last):
    ...
    ValueError: at 35: no function '__import__'; there are abs, distance, has, max, min, size, starts_with
    """
    if (size := len(text.encode('utf-8', 'surrogatepass'))) > MAX_BYTES:
        raise ValueError(f'{size} bytes, at most {MAX_BYTES}')
    return _Parser(tokens_of(text)).whole()


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._parts = 0

    def whole(self) -> Condition:
        condition = self._condition(self._or)
        if self._next.kind != 'end':
            raise self._unexpected('the end')
        return condition

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _taken(self, *texts: str) -> str:
        """Take a mark or word that comes next, or take nothing."""
        token = self._next
        if token.kind in ('mark', 'name') and token.text in texts:
            self._at += 1
            return token.text
        return ''

    def _needed(self, text: str) -> None:
        if not self._taken(text):
            raise self._unexpected(repr(text))

    def _unexpected(self, wanted: str) -> ValueError:
        token = self._next
        found = repr(token.text) if token.kind != 'end' else 'the end'
        return ValueError(f'at {token.at}: {found} where {wanted} is needed')

    def _counted(self, part: _Any) -> _Any:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise ValueError(f'at {self._next.at}: more than {MAX_PARTS} parts')
        return part

    def _nested(self, read: Callable[[], _Part]) -> _Part:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError(f'at {self._next.at}: nested deeper than {MAX_DEPTH}')
        part = read()
        self._depth -= 1
        return part

    def _condition(self, read: Callable[[], _Part]) -> Condition:
        at = self._next.at
        return self._as_condition(read(), at)

    def _as_condition(self, part: _Part, at: int) -> Condition:
        if isinstance(part, (Compare, Holds, Not, All, AnyOf)):
            return part
        if isinstance(part, Path) or (isinstance(part, Constant) and part.type == 'bool'):
            return self._counted(Holds(part))
        if isinstance(part, Call) and part.function in CONDITIONS:
            return self._counted(Holds(part))
        raise ValueError(f'at {at}: {_what(part)} is neither true nor false')

    def _term(self, read: Callable[[], _Part]) -> Term:
        at = self._next.at
        return _as_term(read(), at)

    def _or(self) -> _Part:
        return self._several(self._and, '||', AnyOf)

    def _and(self) -> _Part:
        return self._several(self._comparison, '&&', All)

    def _several(self, read: Callable[[], _Part], mark: str, joined: type[All | AnyOf]) -> _Part:
        at = self._next.at
        part = read()
        if not self._taken(mark):
            return part
        parts = {self._as_condition(part, at), self._condition(read)}
        while self._taken(mark):
            parts.add(self._condition(read))
        return self._counted(joined(frozenset(parts)))

    def _comparison(self) -> _Part:
        at = self._next.at
        part = self._sum()
        operator = self._taken(*_COMPARISONS)
        if not operator:
            return part
        left, right = _as_term(part, at), self._term(self._sum)
        at = self._next.at
        if self._taken(*_COMPARISONS):
            raise ValueError(f'at {at}: one comparison after another: join them with &&')
        return self._counted(_compared(operator, left, right))

    def _sum(self) -> _Part:
        return self._reckoned(self._product, '+', '-')

    def _product(self) -> _Part:
        return self._reckoned(self._factor, '*', '/')

    def _reckoned(self, read: Callable[[], _Part], *operators: str) -> _Part:
        at = self._next.at
        part = read()
        while operator := self._taken(*operators):
            part = self._counted(Arithmetic(operator, _as_term(part, at), self._term(read)))
        return part

    def _factor(self) -> _Part:
        if self._taken('!'):
            condition = self._condition(lambda: self._nested(self._factor))
            return self._counted(Not(condition))
        if self._taken('-'):
            return self._counted(_negated(self._term(lambda: self._nested(self._factor))))
        if self._taken('('):
            part = self._nested(self._or)
            self._needed(')')
            return part
        if self._taken('['):
            return self._counted(ListOf(self._terms(']')))
        token = self._next
        if token.kind not in ('number', 'string', 'name') or token.text == 'in':
            raise self._unexpected('a value')
        self._at += 1
        if token.kind == 'number':
            return self._counted(Constant('number', number_of(token)))
        if token.kind == 'string':
            return self._counted(Constant('string', string_of(token)))
        if token.text in _LITERALS:
            return self._counted(Constant(*_LITERALS[token.text]))
        if self._taken('('):
            return self._counted(self._call(token))
        return self._counted(Path(self._steps(token)))

    def _terms(self, end: str) -> tuple[Term, ...]:
        terms: list[Term] = []
        while not self._taken(end):
            if terms:
                self._needed(',')
            terms.append(self._term(lambda: self._nested(self._sum)))
        return tuple(terms)

    def _call(self, name: Token) -> Call:
        if name.text not in ARGUMENTS:
            known = ', '.join(sorted(ARGUMENTS))
            raise ValueError(f'at {name.at}: no function {name.text!r}; there are {known}')
        arguments = self._terms(')')
        wanted = ARGUMENTS[name.text]
        if len(arguments) != wanted:
            raise ValueError(f'at {name.at}: {name.text} takes {wanted}, not {len(arguments)}')
        if name.text == 'has' and not isinstance(arguments[0], Path):
            raise ValueError(f'at {name.at}: has asks about a place in the state')
        return Call(name.text, arguments)

    def _steps(self, name: Token) -> tuple[str | int, ...]:
        steps: list[str | int] = [name.text]
        while mark := self._taken('.', '['):
            self._counted(name)
            steps.append(self._name() if mark == '.' else self._index())
        return tuple(steps)

    def _name(self) -> str:
        token = self._next
        if token.kind != 'name':
            raise self._unexpected('a name')
        self._at += 1
        return token.text

    def _index(self) -> str | int:
        token = self._next
        index: str | int | float | None = string_of(token) if token.kind == 'string' else None
        if token.kind == 'number':
            index = number_of(token)
        if index is None or isinstance(index, float):
            raise self._unexpected('a name in quotes or a whole number')
        self._at += 1
        self._needed(']')
        return index


def _as_term(part: _Part, at: int) -> Term:
    if isinstance(part, (Compare, Holds, Not, All, AnyOf)):
        raise ValueError(f'at {at}: {_what(part)} has no value to compare or to reckon with')
    return part


def _compared(operator: str, left: Term, right: Term) -> Condition:
    if operator == '!=':
        return Not(_compared('==', left, right))
    if operator == 'in':
        if isinstance(right, ListOf) and right.items:
            return AnyOf(frozenset(_compared('==', left, item) for item in right.items))
        return Compare(operator, left, right)
    # The constant stands on the right, so that many of the same kind are compared at once.
    if isinstance(left, Constant) and not isinstance(right, Constant):
        return Compare(_MIRRORED[operator], right, left)
    return Compare(operator, left, right)


def _negated(term: Term) -> Term:
    if isinstance(term, Constant) and term.type == 'number':
        assert isinstance(term.value, (int, float))
        return Constant('number', -term.value + 0)
    return Arithmetic('-', Constant('number', 0), term)


def _what(part: _Part) -> str:
    names = {Constant: 'a literal', ListOf: 'a list', Call: 'this function', Arithmetic: 'a sum'}
    return names.get(type(part), 'a condition')
