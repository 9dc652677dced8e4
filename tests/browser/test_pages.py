import html
import re

import pytest

import taskelites as te
from browser.samples import arm_result, drawing

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
    ),
]


@pytest.mark.parametrize("name", PAGES)
def test_every_kind_of_page_opens_cleanly(look, name):
    page, _ = look(name)
    assert page.locator("h1").inner_text()
    assert "NaN" not in page.inner_html("main")
    assert "undefined" not in page.inner_text("main")


def test_a_page_works_inside_of_another_page(look, sample, tmp_path):
    """As viewers of artefacts show it: in a frame that may run scripts and nothing else."""
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


def test_tournament_sizes_have_their_shares_and_rates(look):
    page, _ = look("arm")
    areas = page.get_by_role("img", name="Share of the candidates").locator("path.share")
    # Both sizes are tried as often: the border between them is in the middle of the chart.
    lower, upper = (areas.nth(i).get_attribute("d") for i in range(2))
    corners = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", lower)]
    assert set(corners) == {(240 - 44 + 10) / 2, 240 - 44}
    assert {float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", upper)} == {(240 - 44 + 10) / 2, 10}
    chart = page.get_by_role("img", name="Success rate")
    chart.focus()
    page.keyboard.press("ArrowLeft")
    readout = page.locator("figure", has=chart).locator(".readout").inner_text()
    assert readout == "4,000: size 1 0.5, size 10 0.09091"


def test_more_sizes_than_colours_have_colours(look):
    page, _ = look("wide")
    fills = page.locator("path.share").evaluate_all("(areas) => areas.map((area) => area.getAttribute('fill'))")
    assert len(fills) == 12
    assert all(re.fullmatch("#[0-9A-Fa-f]{6}", fill) for fill in fills)


def test_noise_is_told_apart(look):
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


def test_the_colours_say_what_they_mean(look):
    for name, marks, bars in (
        ("grid", ["0", "8.75", "17.5", "26.3", "35"], 1),
        ("same fitness", ["3"], 1),
        ("none solved", ["no", "values"], 0),
    ):
        page, _ = look(name)
        assert page.locator(".colours .marks").inner_text().split() == marks
        assert page.locator(".colours .bar").count() == bars


def test_a_draw_that_raises_says_what_it_raised(look):
    page, _ = look("raises")
    assert "Not drawn: draw raised KeyError: '<b>no such robot</b>'" in page.locator(".task .note").inner_text()


def test_an_image_is_shown_as_an_image(look):
    page, _ = look("image")
    image = page.locator(".drawing img")
    assert image.evaluate("(image) => image.decode().then(() => [image.naturalWidth, image.naturalHeight])") == [
        396,
        360,
    ]
    assert image.get_attribute("alt") == "the solution of task 7"


def test_a_drawing_has_its_parts(look):
    page, result = look("busy", after="#task=2")
    picture = page.locator(".picture")
    texts = picture.locator("text").all_text_contents()
    assert {"a <u>title</u>", "<b>two</b>", "lines", "across", "upwards"} <= set(texts)
    assert page.locator(".drawing .legend .key").all_inner_texts() == ["disc", "the <i>line</i>"]
    assert {"10\u2070", "10\u00b2"} <= set(texts)
    dashed = picture.locator("path[stroke-dasharray]")
    corners = [tuple(map(float, pair.split())) for pair in dashed.get_attribute("d")[1:].split("L")]
    # Axes from (0, 0) to (2, 1), in a box of 0.8 by 0.72 of the picture.
    width, height = 316.8, 288.0
    for (x, y), across, up in zip(corners, (0, 0.5, 1), result.solutions[2], strict=True):
        assert x == pytest.approx((0.16 + 0.8 * across) * width, abs=0.1)
        assert y == pytest.approx((1 - 0.13 - 0.72 * up) * height, abs=0.1)


def test_long_names_at_the_ticks_are_not_cut_off(look, tmp_path):
    def bars(solution, task, ax=None):
        ax.barh(["the length of the chord", "span"], [1, 2])

    result, domain = drawing(bars, number=2)
    page = look(te.show.report(result, tmp_path / "a.html", domain=domain))
    name = page.locator(".picture text", has_text="the length of the chord")
    inner, outer = name.bounding_box(), page.locator(".picture").bounding_box()
    assert outer["x"] <= inner["x"]
    assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]


def test_what_is_not_drawn_is_said(look, tmp_path):
    result, domain = arm_result(20)
    page = look(te.show.report(result, tmp_path / "a.html", domain=domain, drawing_time=0))
    assert page.locator(".picture").count() == 0
    assert page.locator(".task .chart svg").count() == 1  # bars


def test_failures_are_listed(look):
    page, _ = look("failures")
    counts = page.locator("[aria-label='counts of failures'] tbody tr").all_inner_texts()
    assert [row.split("\t") for row in counts] == [
        ["raised", "3"],
        ["timeout", "1"],
        ["infeasible (-inf)", "2"],
        ["made again (retried)", "1"],
    ]
    page.get_by_text("3 of 4").click()
    assert page.locator("[aria-label=failures] tbody tr").nth(1).inner_text().split("\t") == [
        "1",
        "1,001",
        "1",
        "raised",
        "lost 1",
    ]
