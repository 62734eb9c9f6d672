"""Check that package.xml, CMakeLists.txt, the requirements and the sources agree, and say where not.

What the installed Python imports is a dependency of package.xml, and the other way round; the packages whose
messages the interfaces use are found by CMake; versions are one; nothing is left to do in a comment.
"""

import ast
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME = 'hylo_memory_ros'
# What is imported under another name than that of its dependency.
KEYS = {'annotated_types': 'python3-pydantic', 'pydantic_core': 'python3-pydantic', 'yaml': 'python3-yaml'}
# Used where it is installed, and done without elsewhere.
OPTIONAL = {'apriltag_msgs', 'bondpy', 'matplotlib', 'rosbags', 'rosidl_runtime_py'}
OPTIONAL |= {'onnx', 'onnxruntime', 'tokenizers', 'usearch'}
# Needed without being imported: what generated code stands on, and types that parameters name.
INDIRECT = {'action_msgs', 'nav_msgs', 'rosidl_default_runtime', 'vision_msgs'}


def imports(*folders: str) -> set[str]:
    """Return the top-level names that the Python files below the folders import."""
    names = set()
    for path in (p for folder in folders for p in (ROOT / folder).rglob('*.py')):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition('.')[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names.add(node.module.partition('.')[0])
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == 'importlib.import_module':
                name = node.args[0]
                if isinstance(name, ast.Constant):
                    names.add(str(name.value).partition('.')[0])
    return names - set(sys.stdlib_module_names) - {NAME}


def interface_packages() -> set[str]:
    """Return the packages whose messages the interface files use."""
    used = set()
    for kind in ('msg', 'srv', 'action'):
        for path in (ROOT / kind).glob(f'*.{kind}'):
            used |= set(re.findall(r'^(\w+)/\w+', path.read_text(), re.MULTILINE))
    return used


def dependency_problems(package: ET.Element) -> list[str]:
    """Return where package.xml and what is used differ."""
    declared = {tag: {e.text or '' for e in package.iter(tag)} for tag in ('depend', 'exec_depend')}
    at_run_time = declared['depend'] | declared['exec_depend']
    python = set(_requirements('core.txt'))
    used = {
        f'python3-{name.replace("_", "-")}' if name in python else KEYS.get(name, name)
        for name in imports(NAME, 'launch') - OPTIONAL
    }
    interfaces = interface_packages()
    cmake = (ROOT / 'CMakeLists.txt').read_text()
    return [
        *(f'package.xml lacks a dependency on {name}' for name in sorted(used - at_run_time)),
        *(
            f'package.xml depends on {name}, which nothing uses'
            for name in sorted(at_run_time - used - interfaces - INDIRECT)
        ),
        *(
            f'package.xml: interfaces use {name}: make it a <depend>'
            for name in sorted(interfaces - declared['depend'])
        ),
        *(
            f'CMakeLists.txt does not find {name}'
            for name in sorted(interfaces)
            if f'find_package({name} ' not in cmake
        ),
        *(
            f'requirements/core.txt names {name}, which nothing imports'
            for name in sorted(python - imports(NAME))
        ),
    ]


def _requirements(file: str) -> list[str]:
    lines = (ROOT / 'requirements' / file).read_text().splitlines()
    return [
        re.split(r'[<>=!~ ;]', line)[0].lower().replace('-', '_')
        for line in lines
        if line and line[0] not in '#-'
    ]


def version_problems(package: ET.Element) -> list[str]:
    """Return where the version is not that of package.xml."""
    version = package.findtext('version') or ''
    sources = (ROOT / NAME / '__init__.py').read_text()
    changes = (ROOT / 'CHANGELOG.rst').read_text()
    return [
        *(
            []
            if f"__version__ = '{version}'" in sources
            else [f'{NAME}/__init__.py: __version__ is not {version}']
        ),
        *(
            []
            if re.search(rf'^{re.escape(version)} \(', changes, re.MULTILINE)
            else [f'CHANGELOG.rst lacks {version}']
        ),
    ]


def leftovers() -> list[str]:
    """Return the lines of tracked text files that still say what is to do."""
    words = r'\b[T]ODO\b|\b[F]IXME\b|\b[X]XX\b'
    command = ['git', 'grep', '-nIP', words, '--', ':!LICENSE', ':!*.csv']
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return [f'left to do: {line}' for line in found.stdout.splitlines()]


if __name__ == '__main__':
    root = ET.parse(ROOT / 'package.xml').getroot()
    wrong = [*dependency_problems(root), *version_problems(root), *leftovers()]
    print('\n'.join(wrong) or 'package: ok')
    sys.exit(bool(wrong))
