"""Check what a reader and a client rely on in the interface files: exits with 1 and says what is wrong.

Every field and constant has a comment of its own, beside it or above it. Every response and result ends with
`bool success`, `uint16 error_code`, `string message`. CMakeLists.txt lists each file. Error codes are unique.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENDING = ['bool success', 'uint16 error_code', 'string message']


def uncommented(text: str) -> list[str]:
    """Return the definitions without a comment beside them or directly above."""
    missing, above = [], False
    for line in text.splitlines():
        definition, _, comment = line.partition('#')
        if not definition.strip() or line.strip() == '---':
            above = bool(comment.strip())
            continue
        if not (above or comment.strip()):
            missing.append(definition.strip())
        above = False
    return missing


def definitions(section: str) -> list[str]:
    """Return the definitions of one section without comments, blanks reduced to one."""
    lines = (' '.join(line.partition('#')[0].split()) for line in section.splitlines())
    return [line for line in lines if line]


def problems() -> list[str]:
    """Return what is wrong, one sentence each."""
    found = []
    own = [path for kind in ('msg', 'srv', 'action') for path in sorted((ROOT / kind).glob(f'*.{kind}'))]
    helpers = sorted((ROOT / 'tools/interfaces').glob('*/msg/*.msg'))
    for path in (*own, *helpers):
        name = path.relative_to(ROOT)
        text = path.read_text()
        found += [f'{name}: no comment for `{line}`' for line in uncommented(text)]
        sections = re.split(r'^---$', text, flags=re.MULTILINE)
        if len(sections) > 1 and definitions(sections[1])[-3:] != ENDING:
            found.append(f'{name}: the response must end with {", ".join(ENDING)}')
    listed = set(
        re.findall(r'^ +((?:msg|srv|action)/\S+)$', (ROOT / 'CMakeLists.txt').read_text(), re.MULTILINE)
    )
    present = {str(path.relative_to(ROOT)) for path in own}
    found += [f'CMakeLists.txt does not list {name}' for name in sorted(present - listed)]
    found += [f'CMakeLists.txt lists {name}, which is not there' for name in sorted(listed - present)]
    codes = [line.partition('=')[2] for line in definitions((ROOT / 'msg/ErrorCode.msg').read_text())]
    found += [
        f'msg/ErrorCode.msg: {code} is used twice'
        for code in sorted({c for c in codes if codes.count(c) > 1})
    ]
    return found


if __name__ == '__main__':
    wrong = problems()
    print('\n'.join(wrong) or 'interfaces: ok')
    sys.exit(bool(wrong))
