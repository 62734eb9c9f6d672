"""Each public module says what is public: an `__all__` with every public class and function of its own."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / 'hylo_memory_ros'
MODULES = [
    path
    for path in sorted(PACKAGE.rglob('*.py'))
    if not any(part.startswith('_') and part != '__init__.py' for part in path.relative_to(PACKAGE).parts)
    and 'migrations' not in path.parts
]


def public_names(tree: ast.Module) -> set[str]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith('_')}


def exported(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        if any(isinstance(target, ast.Name) and target.id == '__all__' for target in targets):
            names: list[str] = ast.literal_eval(node.value)
            return names
    return None


@pytest.mark.parametrize('path', MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_all_names_what_is_public(path: Path) -> None:
    tree = ast.parse(path.read_text())
    names = exported(tree)
    if names is None:
        assert not public_names(tree), 'public names, but no __all__'
        return
    assert len(names) == len(set(names))
    assert public_names(tree) <= set(names)
