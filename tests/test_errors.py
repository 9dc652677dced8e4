"""Errors that are raised on purpose have a common root, and are what Python programmers expect besides."""

import ast
from pathlib import Path

import pytest

import taskelites as te
from taskelites import errors

ROOT = Path(te.__file__).parent
# What travels to workers knows nothing of the library.
OWN = {"evaluation/caller.py", "evaluation/engines/worker_process.py"}


@pytest.mark.parametrize(
    ("error", "built_in"),
    [
        (errors.InvalidValueError, ValueError),
        (errors.InvalidTypeError, TypeError),
        (errors.InvalidCallError, RuntimeError),
        (errors.MissingPackageError, ImportError),
        (errors.MissingFileError, FileNotFoundError),
        (errors.ExistingFileError, FileExistsError),
    ],
)
def test_a_mistake_is_also_the_built_in_error(error, built_in):
    with pytest.raises(built_in, match="what to do") as caught:
        raise error("what to do")
    assert isinstance(caught.value, te.errors.UserError)
    assert isinstance(caught.value, te.TaskelitesError)


@pytest.mark.parametrize("error", [te.FitnessError, te.StorageError, te.errors.RunInUseError, errors.DeviceMemoryError])
def test_other_errors_are_no_mistakes_of_the_user(error):
    assert issubclass(error, te.TaskelitesError)
    assert not issubclass(error, te.errors.UserError)


def test_an_interruption_is_not_caught_as_an_error():
    assert not issubclass(te.Interrupted, Exception)


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_bare_built_in_error_is_raised(path):
    """Else the command would call a mistake of the user a bug."""
    bare = {"ValueError", "TypeError", "ImportError", "FileNotFoundError", "FileExistsError", "MemoryError"}
    if str(path.relative_to(ROOT)) in OWN:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            assert node.exc.func.id not in bare, f"line {node.lineno} raises a bare {node.exc.func.id}"
