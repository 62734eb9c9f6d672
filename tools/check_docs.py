"""Check that the documents speak of what exists: exits with 1 and says what is wrong.

Links of the Markdown files resolve; the services `~/name`, types and commands of ./dev that they name exist.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOPICS = {'events', 'status', 'markers'}


def snake(name: str) -> str:
    """Return the name of a service for that of its type: `ReportAbsent` -> `report_absent`."""
    return re.sub(r'(?<!^)(?=[A-Z])', '_', name).lower()


def documents() -> list[Path]:
    """Return the Markdown files of the project."""
    skipped = {'.venv', 'build', 'install', 'log', 'node_modules'}
    return [p for p in sorted(ROOT.rglob('*.md')) if not skipped & set(p.relative_to(ROOT).parts)]


def link_problems() -> list[str]:
    """Return relative links to files that are not there."""
    links = (
        (path, target)
        for path in documents()
        for target in re.findall(r'\]\(([^)#\s]+)(?:#[^)]*)?\)', path.read_text())
        if '://' not in target and not target.startswith('mailto:')
    )
    return [
        f'{path.relative_to(ROOT)}: no {target}'
        for path, target in links
        if not (path.parent / target).exists()
    ]


def name_problems() -> list[str]:
    """Return services, types and commands that documents name and that are not there."""
    services = {snake(p.stem) for p in (ROOT / 'srv').glob('*.srv')}
    actions = {snake(p.stem) for p in (ROOT / 'action').glob('*.action')}
    commands = set(re.findall(r'^  (\w+) +', (ROOT / 'dev').read_text().partition('<<')[2], re.MULTILINE))
    found = []
    for path in documents():
        text, where = path.read_text(), path.relative_to(ROOT)
        named = set(re.findall(r'~/([a-z_]+)(?![\w/-])', text)) | set(
            re.findall(r'(?<!ros)/hylo_memory/([a-z_]+)', text)
        )
        found += [
            f'{where}: no service or topic ~/{name}' for name in sorted(named - services - actions - TOPICS)
        ]
        for kind, name in sorted(set(re.findall(r'hylo_memory_ros/(msg|srv|action)/([A-Z]\w*)', text))):
            if not (ROOT / kind / f'{name}.{kind}').exists():
                found.append(f'{where}: no {kind}/{name}')
        found += [
            f'{where}: no ./dev {name}'
            for name in sorted(set(re.findall(r'\./dev ([a-z]+)', text)) - commands)
        ]
    return found


if __name__ == '__main__':
    wrong = [*link_problems(), *name_problems()]
    print('\n'.join(wrong) or 'documents: ok')
    sys.exit(bool(wrong))
