"""Time to write a report, its size, and the time until its page responds to a click.

    python benchmarks/report.py            # needs playwright and Chromium; without them only time and size are measured

The page is opened from disk in headless Chromium. "ready" is the time until the map can be used, "first click" the
time until a click on a task has shown its solution, both from the start of loading. These are absolute times, so run it
on an idle machine.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import taskelites as te


def arm_of_36_joints() -> tuple[te.Result, te.Domain]:
    domain = te.domain("arm", tasks=5000, dim=36)
    return te.solve(domain, evaluations=500_000, algorithm="mt-map-elites", progress=False), domain


def many_tasks(number: int = 100_000, dim: int = 36) -> tuple[te.Result, None]:
    """Return an artificial result of the largest size that reports are made for."""
    random = np.random.default_rng(0)
    tasks = te.tasks.uniform(number, [0, 0], [1, 1])
    return te.Result(
        solutions=random.random((number, dim)),
        fitness=-np.hypot(*(tasks.descriptors - 0.5).T),
        tasks=tasks,
        evaluations=100 * number,
        task_evaluations=np.full(number, 100),
        last_improved=random.integers(1, 100 * number, number),
        settings={"problem": "many tasks", "bounds": [0.0, 1.0], "algorithm": {"name": "mt-map-elites"}},
    ), None


def time_page(path: Path) -> tuple[float, float] | None:
    """Return seconds until the page is ready and until it has responded to a click, or None without a browser."""
    chromium = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if chromium is None:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        begin = time.perf_counter()
        page.goto(path.as_uri(), wait_until="commit")
        page.wait_for_selector("html[data-ready]")
        ready = time.perf_counter() - begin
        before = page.text_content("#task-heading")
        place = page.locator(".map canvas").bounding_box()
        assert place is not None
        page.mouse.click(place["x"] + 0.4 * place["width"], place["y"] + 0.3 * place["height"])
        while page.text_content("#task-heading") == before:  # the content security policy forbids wait_for_function
            time.sleep(0.002)
        clicked = time.perf_counter() - begin
        browser.close()
    return ready, clicked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"{'':<28} {'written':>9} {'size':>9} {'ready':>9} {'first click':>12}   medians of {rounds}")
    for name, make in (("arm, 5,000 x 36", arm_of_36_joints), ("artificial, 100,000 x 36", many_tasks)):
        result, domain = make()
        path = Path(tempfile.mkdtemp()) / "report.html"
        written, found = [], []
        for _ in range(rounds):
            begin = time.perf_counter()
            te.show.report(result, path, domain=domain)
            written.append(time.perf_counter() - begin)
            if (times := time_page(path)) is not None:
                found.append(times)
        shown = [f"{statistics.median(column):.2f} s" for column in zip(*found, strict=True)] or ["no browser", ""]
        size = f"{path.stat().st_size / 1e6:.1f} MB"
        print(f"{name:<28} {statistics.median(written):>7.2f} s {size:>9} {shown[0]:>9} {shown[1]:>12}")


if __name__ == "__main__":
    main()
