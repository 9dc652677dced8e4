"""A module imports only from rooms above its own; other imports are inside the functions that need them."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import taskelites

ROOT = Path(taskelites.__file__).parent
ROOMS = [
    "errors", "storage", "process", "disk_cache", "compile_cache", "problem", "core", "algorithms", "evaluation",
    "results", "runs", "search", "domains", "analysis", "experiments", "show", "__init__", "cli", "__main__",
]  # fmt: skip
FILES = sorted(ROOT.rglob("*.py"))


def room(parts):
    return parts[0] if parts[0] in ROOMS else "__init__"


def imported_rooms(tree):
    """Yield the rooms of the imports at the top of a module, without those in functions or under TYPE_CHECKING."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "taskelites":
            parts = node.module.split(".")[1:]
            if parts:
                yield room(parts)
            else:
                yield from (room([alias.name]) for alias in node.names)


def test_every_file_has_a_room():
    assert {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in FILES} == set(ROOMS)


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_imports_go_one_way(path):
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for other in imported_rooms(ast.parse(path.read_text())):
        assert other == own or ROOMS.index(other) < ROOMS.index(own), f"{own} imports from {other}"


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_functions_are_short(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = node.end_lineno - body[0].lineno + 1 if body else 0
            assert lines <= 60, f"{node.name} has {lines} lines"


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


# Methods that the standard library documents, and attributes of Dask's executor without a public name
# (`test_executors` checks that Dask still has them).
FOREIGN = {"_asdict", "_exit"}
DASK = {"evaluation/engines/executor.py": {"_shutdown", "_client", "_kwargs", "_futures"}}


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_modules_do_not_use_private_names_of_others(path):
    tree = ast.parse(path.read_text())
    nodes = list(ast.walk(tree))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    allowed = own | FOREIGN | DASK.get(path.relative_to(ROOT).as_posix(), set())
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("taskelites"):
            used |= {alias.name for alias in node.names}
    assert {name for name in used if is_private(name)} <= allowed


def stored_on_self(function):
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr


def test_attributes_are_set_in_the_constructor():
    classes = {
        node.name: node
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    defined = {name: set() for name in classes}
    for name, node in classes.items():
        for member in node.body:
            if isinstance(member, ast.AnnAssign):
                defined[name].add(member.target.id)
            elif isinstance(member, ast.FunctionDef) and member.name in ("__init__", "__post_init__"):
                defined[name].update(stored_on_self(member))
    for name, node in classes.items():
        known = defined[name].union(*(defined.get(ast.unparse(base), set()) for base in node.bases))
        for member in node.body:
            if isinstance(member, ast.FunctionDef):
                assert set(stored_on_self(member)) <= known, f"{name}.{member.name}"


def test_every_public_name_is_available():
    for name in taskelites.__all__:
        assert getattr(taskelites, name) is not None
    assert set(taskelites._ROOM_OF) | set(taskelites._MODULES) >= set(taskelites.__all__)
    for name in taskelites._MODULES:
        assert getattr(taskelites, name) is not None
    assert {*taskelites.__all__, *taskelites._MODULES} <= set(dir(taskelites))
    with pytest.raises(AttributeError, match="has no attribute 'sovle'"):
        _ = taskelites.sovle


def test_domains_and_tasks_do_not_import_jax():
    code = "import sys, taskelites as te; te.Domain, te.tasks.grid((3,), [0], [1]); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
