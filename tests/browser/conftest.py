"""A browser for the tests of the report, and pages whose errors and requests fail the tests."""

import os
import shutil
from pathlib import Path

import pytest

from browser.samples import SAMPLES

FOLDER = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",  # required for root, as in containers
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--force-color-profile=srgb",
]


def browser_path():
    """Return the path of the browser, or None."""
    given = os.environ.get("TASKELITES_BROWSER")
    return given or next(filter(None, map(shutil.which, NAMES)), None)


def missing():
    """Return what is missing for these tests, or None."""
    try:
        import playwright.sync_api  # noqa: F401 - tests whether it is installed
    except ImportError:
        return "Playwright is not installed: pip install playwright"
    path = browser_path()
    if path is None:
        return "no browser was found: apt install chromium, or name one in TASKELITES_BROWSER"
    return None if os.access(path, os.X_OK) else f"TASKELITES_BROWSER names {path!r}, which can't be run"


def pytest_collection_modifyitems(items):
    why = missing()
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if why:
                item.add_marker(pytest.mark.skip(reason=why))


def pytest_terminal_summary(terminalreporter):
    why = missing()
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if "tests/browser/" in report.nodeid]
    if why and skipped:
        line = f"NOT TESTED: the report in a browser ({len(skipped)} tests skipped), because {why}"
        terminalreporter.write_line(line, red=True, bold=True)


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=browser_path(), args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def sample(tmp_path_factory):
    """A function that writes the page of a sample on its first call, and returns its path and its result."""
    folder = tmp_path_factory.mktemp("pages")
    written = {}

    def get(name):
        if name not in written:
            path = folder / f"{name}.html"
            written[name] = path, SAMPLES[name](path)
        return written[name]

    return get


class Watch:
    """Records warnings, errors, dialogs, requests and popups of a page since `begin`."""

    def __init__(self, page):
        self.begin("")
        page.on("console", lambda message: self.add(message.type, message.text, message.type in ("warning", "error")))
        page.on("pageerror", lambda error: self.add("error", str(error)))
        page.on("dialog", lambda dialog: (self.add("dialog", dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.add("request", request.url, not self.own(request.url)))
        page.on("popup", lambda other: self.add("popup", other.url))

    def begin(self, address):
        self.address, self.seen = address, []

    def own(self, url):
        return url.split("#")[0] == self.address or url.startswith("data:image/png")

    def add(self, kind, text, bad=True):
        if bad:
            self.seen.append(f"{kind}: {text[:300]}")


@pytest.fixture(scope="session")
def blank(browser):
    """A pool of blank pages, since new ones take long. Pages share only the clipboard."""
    free = {}

    def get(**options):
        key = str(sorted(options.items()))
        if not free.setdefault(key, []):
            page = browser.new_context(**options).new_page()
            page.set_default_timeout(20_000)
            page.watch = Watch(page)
            free[key].append(page)
        page = free[key].pop()
        return page, lambda: (page.goto("about:blank"), free[key].append(page))

    return get


@pytest.fixture
def look(blank, sample):
    """A function that opens the page of a sample. The test fails if `Watch` records anything."""
    opened = []

    def open_page(name, width=1280, height=900, scheme="light", after="", touch=False, **more):
        path, what = sample(name) if isinstance(name, str) else (name, None)
        page, give_back = blank(color_scheme=scheme, has_touch=touch, **more)
        opened.append((page, give_back))
        page.set_viewport_size({"width": width, "height": height})
        page.mouse.move(0, 0)
        page.watch.begin(path.as_uri())
        page.goto(path.as_uri() + after)
        page.wait_for_selector("html[data-ready=whole]", state="attached", timeout=60_000)
        settle(page)
        return (page, what) if isinstance(name, str) else page

    yield open_page
    seen = [line for page, _ in opened for line in page.watch.seen]
    for _, give_back in opened:
        give_back()
    assert not seen


def settle(page):
    """Wait until pending drawing is done."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
