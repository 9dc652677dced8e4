"""The request of `taskelites run`, as stored in the run folder."""

import json
import shlex
from dataclasses import replace

import pytest

from taskelites.cli import parser
from taskelites.cli.run_request import RunRequest
from taskelites.errors import StorageError
from taskelites.runs import RunFolder

LINES = [
    "run arm",
    "run arm --algorithm mt-map-elites --set tournament=50 --set 'target=(0.5, 0.5)' --tasks 100 --dim 4",
    "run mine:domain --evaluations 1e3 --batch-size 8 --ahead 4 --seed 3 --replicates 2 --checkpoint-every 30s",
    "run mine:domain --workers auto --on-error retry --retries 3 --timeout 90 --mode async --samples 5 --no-report",
    "run mine:domain --ray auto",
]


def stated(line):
    return RunRequest.from_options(parser().parse_args(shlex.split(line)))


@pytest.mark.parametrize("line", LINES)
def test_command_line_of_request_parses_to_same_request(line):
    request = stated(line)
    again = stated(request.command().removeprefix("taskelites "))
    assert again == replace(request, no_report=False)


@pytest.mark.parametrize("line", LINES)
def test_request_is_read_back_from_run_folder(line, tmp_path):
    request = stated(line)
    RunFolder(tmp_path / "run").write_plan({"request": request.plain(), "plan": {}})
    assert RunRequest.of_run(tmp_path / "run", "run") == request


def test_error_for_invalid_request_names_file(tmp_path):
    plain = stated("run arm").plain()
    RunFolder(tmp_path / "run").write_plan({"request": plain | {"shell": True}, "plan": {}})
    with pytest.raises(StorageError, match=r"run\.json' has an invalid request \(.*shell"):
        RunRequest.of_run(tmp_path / "run", "run")


def test_stored_request_can_be_written_as_json():
    plain = stated(LINES[3]).plain()
    assert json.loads(json.dumps(plain)) == plain
