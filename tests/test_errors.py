"""The library's errors have a common base class, and also inherit from the matching built-in errors."""

import ast
from pathlib import Path

import pytest

import taskelites as te
from taskelites import errors

ROOT = Path(te.__file__).parent
# Code that is sent to workers by value does not import the library.
SENT_TO_WORKERS = {"evaluation/caller.py", "evaluation/engines/worker_process.py"}


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
def test_user_error_inherits_from_built_in_error(error, built_in):
    with pytest.raises(built_in, match="what to do") as caught:
        raise error("what to do")
    assert isinstance(caught.value, te.errors.UserError)
    assert isinstance(caught.value, te.TaskelitesError)


@pytest.mark.parametrize("error", [te.FitnessError, te.StorageError, te.errors.RunInUseError, errors.DeviceMemoryError])
def test_other_errors_are_not_user_errors(error):
    assert issubclass(error, te.TaskelitesError)
    assert not issubclass(error, te.errors.UserError)


def test_interruption_is_not_an_exception_subclass():
    assert not issubclass(te.Interrupted, Exception)


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_built_in_error_is_raised_directly(path):
    """The command would report it as a bug instead of a user error."""
    bare = {"ValueError", "TypeError", "ImportError", "FileNotFoundError", "FileExistsError", "MemoryError"}
    if str(path.relative_to(ROOT)) in SENT_TO_WORKERS:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            assert node.exc.func.id not in bare, f"line {node.lineno} raises a bare {node.exc.func.id}"
