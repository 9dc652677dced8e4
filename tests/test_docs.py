"""What the README, the docs and the examples show is run."""

import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from taskelites.cli import main
from taskelites.domains.hexapod.rendering import backend

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
# Experiments take minutes to days as they stand; of two equal options the last counts.
SMALLER = {
    "arm": "--replicates 1 --tasks 200 --evaluations 640",
    "hexapod": "--replicates 1 --tasks 20 --evaluations 64 --set single_replicates=1 --set single_evaluations=28",
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page, language):
    return [text for name, text in BLOCK.findall(page.read_text()) if name == language]


def can_render():
    try:
        backend()
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for number, text in enumerate(blocks(page, "python")):
        first = re.match(r"# (\w+\.py)\n", text)
        if first:  # a file that the page tells to write
            (tmp_path / first.group(1)).write_text(text)
        with warnings.catch_warnings():
            exec(compile(text, f"{page.name}, block {number}", "exec"), {"__name__": "docs"})
    reproduced = set()
    for text in blocks(page, "console"):
        for line in text.splitlines():
            if line.startswith("$ taskelites "):
                words = shlex.split(line, comments=True)[2:]
                if words[0] == "watch" and not can_render():
                    continue
                if words[0] == "reproduce":
                    words += [*SMALLER[words[1]].split(), "--quiet"]
                    if words[1] in reproduced:  # the same, in another size
                        continue
                    reproduced.add(words[1])
                assert main(words) == 0, line


def test_the_readme_names_the_two_commands():
    text = (ROOT / "README.md").read_text()
    assert "make run" in text
    assert "make test" in text
    assert "taskelites run arm" in text
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^run:", makefile, re.MULTILINE)
    assert re.search(r"^test:", makefile, re.MULTILINE)


def test_links_within_the_project_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith(("http://", "https://")):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_the_examples_run(script, tmp_path):
    subprocess.run([sys.executable, "-W", "error::DeprecationWarning", str(script)], cwd=tmp_path, check=True)
