"""Measure: one JSON line a figure. Arguments name modules or figures; none: everything.

usage: python -m bench [--list] [NAME ...]
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
from collections.abc import Callable, Iterable
from typing import Any

import bench

Figures = Callable[[], Iterable[dict[str, Any]]]


def find_figures() -> dict[str, Figures]:
    """Return every measurement by ``module.name``."""
    found: dict[str, Figures] = {}
    for module in pkgutil.iter_modules(bench.__path__):
        if not module.name.startswith('_'):
            figures = getattr(importlib.import_module(f'bench.{module.name}'), 'FIGURES', {})
            found |= {f'{module.name}.{name}': measure for name, measure in figures.items()}
    return found


def main() -> int:
    """Run what was asked for; the exit code says whether every figure reached its target."""
    parser = argparse.ArgumentParser(prog='./dev bench', description=(__doc__ or '').splitlines()[0])
    parser.add_argument(
        'names', nargs='*', metavar='NAME', help='a module (store) or a measurement (store.write)'
    )
    parser.add_argument('--list', action='store_true', help='name the measurements and end')
    arguments = parser.parse_args()
    figures = find_figures()
    if arguments.list:
        print('\n'.join(sorted(figures)))
        return 0
    unknown = [name for name in arguments.names if not any(_named(full, name) for full in figures)]
    if unknown:
        print(f'no such measurement: {", ".join(unknown)}; try --list', file=sys.stderr)
        return 2
    reached = True
    for full, measure in figures.items():
        if not arguments.names or any(_named(full, name) for name in arguments.names):
            for line in measure():
                print(json.dumps(line), flush=True)
                reached &= bool(line['ok'])
    return 0 if reached else 1


def _named(full: str, name: str) -> bool:
    return name in {full, full.partition('.')[0], full.partition('.')[2]}


if __name__ == '__main__':
    sys.exit(main())
