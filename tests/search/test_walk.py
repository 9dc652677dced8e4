"""Limit the code that one must read to follow a run."""

from walk import walk


def test_solve_calls_few_functions_in_few_files():
    found = walk()
    assert "search/stepper.py" in found
    assert len(found) <= 10, list(found)
    assert sum(map(len, found.values())) <= 80, found
