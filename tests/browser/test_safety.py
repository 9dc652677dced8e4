import pytest

import taskelites as te
from browser.page_helpers import about, canvas_positions, click, selected_task
from browser.samples import HOSTILE, make_result
from taskelites.show.report import tasks as page_tasks


@pytest.mark.parametrize("name", ["hostile", "hostile comparison"])
def test_hostile_texts_create_no_elements_and_run_no_scripts(look, name):
    page, _ = look(name)
    assert page.evaluate("window.hurt") is None
    # Only the three scripts of the page, and no element that the page does not create.
    assert page.locator("script").count() == 3
    assert page.locator("[onerror], [onload], iframe, object, embed, link, base, main script, main style").count() == 0
    assert page.locator("img").count() == 0


def test_hostile_texts_are_shown_verbatim(look):
    page, result = look("hostile", after="#task=8")
    label = page.locator(".label-text")
    assert label.inner_text() == f"{HOSTILE[1]} 8"
    assert HOSTILE[2] in page.locator("h1").inner_text()
    assert HOSTILE[4] in page.locator("header .note").inner_text()
    assert page.locator(".facts dt", has_text=HOSTILE[1]).count() == 1
    assert HOSTILE[0] in page.locator(".drawing .title").inner_text()
    assert {HOSTILE[2], HOSTILE[3]} <= set(page.locator(".picture text").all_text_contents())
    assert HOSTILE[1] in page.locator(".drawing .legend").inner_text()
    page.get_by_text("7 of 7").click()
    messages = page.locator("[aria-label=failures] tbody td:last-child").all_inner_texts()
    assert messages[1] == HOSTILE[1]
    assert len(messages[6]) == 500  # of 10,000
    settings = page.locator("[aria-label=settings]").inner_text()
    assert f"options.{HOSTILE[0]}" in settings
    assert f"taskelites run {HOSTILE[2]}" in page.locator("pre").inner_text()
    for number in range(9, 15):
        click(page, canvas_positions(page, result.tasks.descriptors)[number])
        assert selected_task(page) == number
    assert page.evaluate("window.hurt") is None


def test_hostile_labels_of_comparison_are_shown_verbatim(look):
    page, found = look("hostile comparison")
    heads = page.locator("[aria-label=measures] tbody th").all_inner_texts()
    assert heads[:3] == found.labels[:3] == HOSTILE[:3]
    assert page.locator("pre").inner_text() == HOSTILE[0]


def test_page_blocks_requests_and_injected_scripts(look):
    page, _ = look("grid")
    failed = []
    page.on("requestfailed", lambda request: failed.append((request.url, request.failure)))
    refused = page.evaluate("() => fetch('https://example.org/').then(() => 'sent', () => 'refused')")
    assert refused == "refused"
    page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.hurt = 5";
          document.body.append(script);
          const image = document.createElement("img");
          image.src = "https://example.org/a.png";
          document.body.append(image);
          const button = document.createElement("div");
          button.setAttribute("onclick", "window.hurt = 6");
          document.body.append(button);
          button.click();
        }"""
    )
    page.wait_for_timeout(50)
    assert page.evaluate("window.hurt") is None
    complaints, page.watch.seen = page.watch.seen, []
    assert len(complaints) >= 4
    assert all("Content Security Policy" in line for line in complaints if line.startswith("error: "))
    # The only request, for the image, was blocked.
    assert failed == [("https://example.org/a.png", "csp")]
    assert [line for line in complaints if not line.startswith("error: ")] == ["request: https://example.org/a.png"]


def test_watch_records_warnings_errors_and_dialogs(look):
    page, _ = look("one task")
    page.evaluate("console.warn('look out')")
    page.evaluate("setTimeout(() => { throw new Error('late') }, 0)")
    page.evaluate("setTimeout(() => alert('hello'), 0)")
    page.wait_for_timeout(100)
    seen, page.watch.seen = page.watch.seen, []
    assert [line.split(":")[0] for line in seen] == ["warning", "error", "dialog"]


def test_page_with_100000_tasks_opens(look, sample):
    path, result = sample("big")
    assert path.stat().st_size < 25e6
    page, _ = look("big", after="#task=99999")
    assert selected_task(page) == 99_999
    click(page, canvas_positions(page, result.tasks.descriptors)[4321])
    away = ((result.tasks.descriptors - result.tasks.descriptors[4321]) ** 2).sum(axis=1)
    # Several points share a pixel.
    assert away[selected_task(page)] < 0.003**2
    assert "5,000 of 100,000 are drawn" in page.locator("main").inner_text()
    assert "rounded" in page.locator(".task .note").inner_text() or about(page)["solutions"]["exact"]


def test_page_states_that_tasks_are_sampled(look, tmp_path, monkeypatch):
    monkeypatch.setattr(page_tasks, "MOST_TASKS", 40)
    result = make_result(te.tasks.grid((10, 10), [0, 0], [1, 1]), range(100))
    shown = page_tasks.shown_tasks(result)
    assert len(shown) == 40
    page = look(te.show.report(result, tmp_path / "some.html"), after=f"#task={shown[7]}")
    assert selected_task(page) == shown[7]
    assert "A random sample of 40 of 100 tasks" in page.locator("main").inner_text()
    hidden = next(i for i in range(100) if i not in shown)
    for number, answer in (
        (hidden, f"task {hidden} is not in the sample that this page shows"),
        (100, "there is no task 100; tasks are numbered 0 to 99"),
    ):
        page.get_by_label("search for a task").fill(str(number))
        page.keyboard.press("Enter")
        assert page.locator(".answer").inner_text() == answer
    click(page, canvas_positions(page, result.tasks.descriptors)[shown[21]])
    assert selected_task(page) == shown[21]
    assert all(int(text.split(":")[0]) in shown for text in page.locator(".chips button").all_inner_texts())
