"""Run the code of the README, the docs and the examples."""

import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import taskelites as te
from taskelites.cli import main
from taskelites.domains.hexapod.rendering import backend

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
# Smaller sizes, since the experiments take minutes to days. Of two equal options, the last one counts.
SMALLER = {
    "arm": "--replicates 1 --tasks 200 --evaluations 640",
    "hexapod": "--replicates 1 --tasks 20 --evaluations 64 --set single_replicates=1 --set single_evaluations=28",
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page, language):
    return [text for name, text in BLOCK.findall(page.read_text()) if name == language]


def commands(page):
    lines = (line for text in blocks(page, "console") for line in text.splitlines())
    return [shlex.split(line, comments=True)[2:] for line in lines if line.startswith("$ taskelites ")]


def can_render():
    try:
        backend()
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_python_blocks_and_commands_of_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for number, text in enumerate(blocks(page, "python")):
        first = re.match(r"# (\w+\.py)\n", text)
        if first:  # a file that the page asks the reader to write
            (tmp_path / first.group(1)).write_text(text)
        with warnings.catch_warnings():
            exec(compile(text, f"{page.name}, block {number}", "exec"), {"__name__": "docs"})
    for words in commands(page):
        if words[0] != "reproduce" and (words[0] != "watch" or can_render()):
            assert main(words) == 0, words


@pytest.mark.slow  # test_reproduce and test_reproduce_hexapod run small versions of both experiments
def test_experiments_of_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = [words for words in commands(ROOT / "README.md") if words[0] == "reproduce"]
    assert {words[1] for words in found} == set(SMALLER)
    for words in found:
        assert main([*words, *SMALLER[words[1]].split(), "--quiet"]) == 0, words


def test_readme_names_make_targets():
    text = (ROOT / "README.md").read_text()
    assert "make run" in text
    assert "make test" in text
    assert "taskelites run arm" in text
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^run:", makefile, re.MULTILINE)
    assert re.search(r"^test:", makefile, re.MULTILINE)


def test_relative_links_are_valid():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith(("http://", "https://")):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_run(script, tmp_path):
    subprocess.run([sys.executable, "-W", "error::DeprecationWarning", str(script)], cwd=tmp_path, check=True)


def test_auto_is_default_algorithm():
    assert te.solve.__kwdefaults__["algorithm"] == te.Optimizer.__init__.__kwdefaults__["algorithm"] == "auto"
    result = te.solve(lambda x, t: -abs(x[0] - t[0]), [[0.0], [0.5], [1.0]], bounds=(0, 1), dim=1, evaluations=64)
    assert result.settings["algorithm"]["name"] == "auto"
