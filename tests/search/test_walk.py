"""How much one has to read to follow a run."""

from walk import walk


def test_one_solve_goes_through_few_files_and_functions():
    found = walk()
    assert "search/stepper.py" in found
    assert len(found) <= 10, list(found)
    assert sum(map(len, found.values())) <= 80, found
