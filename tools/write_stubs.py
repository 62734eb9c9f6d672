"""Write type stubs of the generated interfaces, so that editors and mypy follow messages into the code.

`hylo_memory_ros/{msg,srv,action}.pyi` are made from the interface files; ``--check`` writes nothing and
exits with 1 if they differ.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / 'hylo_memory_ros'
KINDS = {
    'msg': ('',),
    'srv': ('Request', 'Response'),
    'action': ('Goal', 'Result', 'Feedback'),
}
PRIMITIVES = {'bool': 'bool', 'string': 'str', 'byte': 'bytes'}
DEFINITION = re.compile(r'(?P<type>[\w/]+)(?P<array>\[[^]]*\])? +(?P<name>\w+)(?P<constant> *=.*)?')


def python_type(name: str, imports: set[tuple[str, str]], module: str) -> str:
    """Return the Python type of a field's type, and note what must be imported for it."""
    if name in PRIMITIVES:
        return PRIMITIVES[name]
    if re.fullmatch(r'u?int\d+', name):
        return 'int'
    if re.fullmatch(r'float\d+', name):
        return 'float'
    package, _, kind = name.rpartition('/')
    if package or module != 'msg':
        imports.add((f'{package or "hylo_memory_ros"}.msg', kind))
    return kind


def class_lines(name: str, section: str, imports: set[tuple[str, str]], module: str) -> list[str]:
    """Return a class with the constants, fields and constructor of one section of an interface file."""
    constants, fields = [], []
    for line in section.splitlines():
        found = DEFINITION.match(line.strip())
        if found is None:
            continue
        kind = python_type(found['type'], imports, module)
        if found['constant']:
            constants.append(f'    {found["name"]}: ClassVar[{kind}]')
            continue
        if found['array']:
            # A client reads an array of numbers as array.array or ndarray, and may assign a list.
            kind = f'Sequence[{kind}]' if kind in {'int', 'float', 'bool'} else f'list[{kind}]'
        fields.append(f'{found["name"]}: {kind}')
    arguments = [f'        {field} = ...,' for field in fields]
    constructor = [
        '    def __init__(',
        '        self,',
        *(['        *,'] if fields else []),
        *arguments,
        '    ) -> None: ...',
    ]
    return [f'class {name}:', *constants, *(f'    {field}' for field in fields), *constructor, '']


def stub(module: str) -> str:
    """Return the text of one stub."""
    imports: set[tuple[str, str]] = set()
    body: list[str] = []
    names = []
    for path in sorted((ROOT / module).glob(f'*.{module}')):
        names.append(path.stem)
        sections = re.split(r'^---$', path.read_text(), flags=re.MULTILINE)
        if module == 'msg':
            body += class_lines(path.stem, sections[0], imports, module)
            continue
        body.append(f'class {path.stem}:')
        for part, section in zip(KINDS[module], sections, strict=True):
            body += [f'    {line}'.rstrip() for line in class_lines(part, section, imports, module)]
    grouped: dict[str, list[str]] = {}
    for package, kind in sorted(imports):
        grouped.setdefault(package, []).append(kind)
    return '\n'.join(
        [
            '# Made by tools/write_stubs.py from the interface files.',
            'from collections.abc import Sequence',
            'from typing import ClassVar',
            '',
            *(f'from {package} import {", ".join(kinds)}' for package, kinds in grouped.items()),
            '',
            f'__all__ = {names!r}',
            '',
            *body,
        ]
    )


if __name__ == '__main__':
    check = '--check' in sys.argv[1:]
    stale = []
    for module in KINDS:
        path, text = PACKAGE / f'{module}.pyi', stub(module)
        if check and (not path.exists() or path.read_text() != text):
            stale.append(path.name)
        elif not check:
            path.write_text(text)
    print(f'stubs differ from the interface files: {", ".join(stale)}' if stale else 'stubs: ok')
    sys.exit(bool(stale))
