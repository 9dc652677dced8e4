import html
import re

import pytest

import taskelites as te
from browser.samples import arm_result

PAGES = [
    *("arm", "arm-single", "comparison", "replicates", "line", "grid", "wide", "objects", "one task", "one object"),
    *(
        "none solved",
        "no history",
        "one point",
        "no point",
        "noise",
        "same fitness",
        "failures",
        "raises",
        "image",
        "busy",
        "sketch",
    ),
]


@pytest.mark.parametrize("name", PAGES)
def test_every_sample_opens_without_errors(look, name):
    page, _ = look(name)
    assert page.locator("h1").inner_text()
    assert "NaN" not in page.inner_html("main")
    assert "undefined" not in page.inner_text("main")


def test_page_works_in_sandboxed_frame(look, sample, tmp_path):
    """Some viewers show pages in a frame that may only run scripts."""
    inner = html.escape(sample("arm")[0].read_text(encoding="utf-8"))
    outer = tmp_path / "outer.html"
    outer.write_text(
        f'<!DOCTYPE html><html data-ready="whole"><iframe sandbox="allow-scripts" width="900" height="900" '
        f'srcdoc="{inner}"></iframe></html>'
    )
    page = look(outer)
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready=whole]").wait_for(state="attached")
    frame.get_by_role("button", name="worst", exact=True).click()
    worst = sample("arm")[1].fitness.argmin()
    assert frame.locator("#task-heading").inner_text() == f"Task {worst}"
    page.watch.seen = [line for line in page.watch.seen if line != "request: about:srcdoc"]


def test_charts_of_bandit_show_shares_and_success_rates(look):
    page, _ = look("arm")
    areas = page.get_by_role("img", name="Share of the candidates").locator("path.share")
    # Both sizes are tried equally often, so the border between them is in the middle of the chart.
    lower, upper = (areas.nth(i).get_attribute("d") for i in range(2))
    corners = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", lower)]
    assert set(corners) == {(240 - 44 + 10) / 2, 240 - 44}
    assert {float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", upper)} == {(240 - 44 + 10) / 2, 10}
    chart = page.get_by_role("img", name="Success rate")
    chart.focus()
    page.keyboard.press("ArrowLeft")
    readout = page.locator("figure", has=chart).locator(".readout").inner_text()
    assert readout == "4,000: size 1 0.5, size 10 0.09091"


def test_many_tournament_sizes_have_colours(look):
    page, _ = look("wide")
    fills = page.locator("path.share").evaluate_all("(areas) => areas.map((area) => area.getAttribute('fill'))")
    assert len(fills) == 12
    assert all(re.fullmatch("#[0-9A-Fa-f]{6}", fill) for fill in fills)


def test_corrected_fitness_is_shown(look):
    page, _ = look("noise", after="#task=12")
    assert page.locator(".tiles").inner_text().split("corrected mean (8 samples)")[1].split()[0] == "-0.75"
    facts = page.locator(".facts").inner_text()
    assert "corrected fitness" in facts
    assert "deviation of the samples" in facts
    chart = page.get_by_role("img", name="Tasks by value")
    figure = page.locator("figure", has=chart)
    assert figure.locator(".legend .key").all_inner_texts() == ["believed", "corrected"]
    assert "believed: mean -0.5, " in figure.locator(".readout").inner_text()
    assert "corrected: mean -0.75, " in figure.locator(".readout").inner_text()
    assert page.get_by_text("mean of 8 samples").count() == 1


def test_colour_bar_has_labels(look):
    for name, marks, bars in (
        ("grid", ["0", "8.75", "17.5", "26.3", "35"], 1),
        ("same fitness", ["3"], 1),
        ("none solved", ["no", "values"], 0),
    ):
        page, _ = look(name)
        assert page.locator(".colours .marks").inner_text().split() == marks
        assert page.locator(".colours .bar").count() == bars


def test_error_of_draw_is_shown(look):
    page, _ = look("raises")
    assert "Not drawn: draw raised KeyError: '<b>no such robot</b>'" in page.locator(".task .note").inner_text()


@pytest.mark.parametrize("name", ["image", "busy"])
def test_matplotlib_drawing_is_shown_as_image(look, name):
    page, _ = look(name)
    image = page.locator(".drawing img")
    assert image.evaluate("(image) => image.decode().then(() => [image.naturalWidth, image.naturalHeight])") == [
        360,
        320,
    ]
    assert image.evaluate("(image) => image.width") == 360  # not scaled, since scaling would blur it
    assert image.get_attribute("alt") == "the solution of task 7"
    first = image.get_attribute("src")
    page.get_by_role("button", name="worst", exact=True).click()
    assert image.get_attribute("alt") == "the solution of task 0"
    assert (image.get_attribute("src") == first) == (name == "image")  # the image sample is the same for all tasks


def test_all_parts_of_sketch_are_drawn(look):
    page, result = look("sketch", after="#task=2")
    solution = result.solutions[2]
    assert page.locator(".drawing .title").inner_text() == f"a <u>title</u>\nof {solution[0]:.3f}"
    texts = page.locator(".picture text").all_text_contents()
    assert {"across", "upwards", "0", "0.5", "1", "2"} <= set(texts)
    assert page.locator(".drawing .legend .key").all_inner_texts() == ["the <i>line</i>", "square"]
    line, far, square = page.locator(".picture g path").all()
    # The axes from (0, 0) to (2, 1) fill a box of 258 by 222 pixels with upper left corner (50, 8).
    parts = [
        [[float(text) for text in pair.split()] for pair in part.split("L")]
        for part in line.get_attribute("d")[1:].split("M")
    ]
    assert [len(part) for part in parts] == [2, 2]
    wanted = zip((0, 0.5, 1.5, 2), (*solution[:2], solution[2], solution[2]), strict=True)
    for (x, y), (across, up) in zip([*parts[0], *parts[1]], wanted, strict=True):
        assert x == pytest.approx(50 + 258 * across / 2, abs=0.15)
        assert y == pytest.approx(8 + 222 * (1 - up), abs=0.15)
    assert line.get_attribute("stroke") == "#ff7f0eff"
    assert line.get_attribute("stroke-width") == "2"
    (x0, y0), (x1, y1) = [[float(text) for text in pair.split()] for pair in far.get_attribute("d")[1:].split("L")]
    assert (x0, y0) == (50 + 258 / 2, 8 + 222 / 2)
    assert (y1 - y0) / (x1 - x0) == pytest.approx(-222 / 258, rel=1e-3)  # in the direction of (1000, 500)
    box = page.locator(".picture .frame").last.bounding_box()
    marker = square.bounding_box()
    assert marker["x"] + marker["width"] / 2 == pytest.approx(box["x"] + box["width"] * solution[0] / 2, abs=0.7)
    assert marker["y"] + marker["height"] / 2 == pytest.approx(box["y"] + box["height"] * (1 - solution[1]), abs=0.7)


def test_tasks_without_picture_have_bars(look, tmp_path):
    result, domain = arm_result(20)
    page = look(te.show.report(result, tmp_path / "a.html", domain=domain, drawing_time=0))
    assert page.locator(".picture").count() == 0
    assert page.locator(".task .chart svg").count() == 1  # bars


def test_failures_are_counted_and_listed(look):
    page, _ = look("failures")
    counts = page.locator("[aria-label='counts of failures'] tbody tr").all_inner_texts()
    assert [row.split("\t") for row in counts] == [
        ["raised", "3"],
        ["timeout", "1"],
        ["infeasible (-inf)", "2"],
        ["retried", "1"],
    ]
    page.get_by_text("3 of 4").click()
    assert page.locator("[aria-label=failures] tbody tr").nth(1).inner_text().split("\t") == [
        "1",
        "1,001",
        "1",
        "raised",
        "lost 1",
    ]
