import re

import numpy as np
import pytest

from browser.page_helpers import READY, map_of, selected_task

FOCUSABLE = "button, select, input, summary, [tabindex='0'], a[href]"
# Pairs of background and text colours that occur on a page.
PAIRS = [
    *(("--page", "--ink"), ("--page", "--quiet"), ("--paper", "--ink"), ("--paper", "--quiet")),
    *(("--button", "--ink"), ("--tip", "--ink")),
]


def visible(page):
    """Return the indices of all elements that the keyboard should reach."""
    return page.evaluate(
        """(selector) => Array.from(document.querySelectorAll(selector))
          .map((element, i) => { element.dataset.number = i; return element.checkVisibility() ? i : -1; })
          .filter((i) => i >= 0)""",
        FOCUSABLE,
    )


@pytest.mark.parametrize("name", ["arm", "comparison"])
def test_tab_reaches_all_controls_in_order_with_visible_focus(look, name):
    page, _ = look(name)
    wanted = visible(page)
    reached = []
    for _ in range(len(wanted)):
        page.keyboard.press("Tab")
        number, style, width = page.evaluate(
            """() => {
              const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
              return [Number(document.activeElement.dataset.number), outlineStyle, outlineWidth];
            }"""
        )
        reached.append(number)
        assert style != "none"
        assert float(width.removesuffix("px")) >= 2
    assert reached == wanted


def test_page_can_be_used_with_keyboard_only(look):
    page, result = look("arm", after="#task=0")
    page.get_by_role("button", name="light or dark").focus()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.type") == "search":
            break
    page.keyboard.type("33")
    page.keyboard.press("Enter")
    assert selected_task(page) == 33
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "CANVAS":
            break
    page.keyboard.press("ArrowRight")
    here, there = result.tasks.descriptors[33], result.tasks.descriptors[selected_task(page)]
    assert there[0] > here[0]
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("copied", exact=True).wait_for()


def test_arrow_keys_and_pointer_show_values_of_curves(look):
    page, result = look("arm")
    chart = page.get_by_role("img", name=re.compile("^Fitness over the solved tasks"))
    readout = page.locator("figure", has=chart).locator(".readout")
    assert readout.inner_text() == ""
    chart.focus()
    page.keyboard.press("ArrowLeft")
    history = result.history

    def expected(i):
        return f"{round(history['evaluations'][i]):,}: mean", history["mean"][i], history["median"][i]

    def shown_values():
        start, mean, median = re.fullmatch(r"(.*) (\S+), median (\S+)", readout.inner_text()).groups()
        return start, pytest.approx(float(mean), rel=1e-3), pytest.approx(float(median), rel=1e-3)

    assert expected(39) == shown_values()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert expected(37) == shown_values()
    page.keyboard.press("ArrowRight")
    assert expected(38) == shown_values()
    box = chart.bounding_box()
    chart.hover(position={"x": 59, "y": box["height"] / 2})
    assert expected(0) == shown_values()
    page.mouse.move(0, 0)
    assert readout.inner_text() == ""


def test_curves_are_drawn_at_their_values(look):
    page, result = look("arm")
    page.get_by_label("logarithmic evaluations").uncheck()
    chart = page.get_by_role("img", name=re.compile("^Coverage"))
    path = chart.locator("path").first.get_attribute("d")
    drawn = np.array([[float(text) for text in pair.split()] for pair in re.split("[ML]", path)[1:]])
    width = chart.bounding_box()["width"]
    evaluations, coverage = result.history["evaluations"], result.history["coverage"]
    x = 58 + (evaluations - evaluations[0]) / (evaluations[-1] - evaluations[0]) * (width - 78)
    y = 256 - coverage / 1.02 * (256 - 10)
    np.testing.assert_allclose(drawn, np.stack([x, y], axis=1), atol=0.06)


def test_distribution_counts_all_solved_tasks(look):
    page, result = look("line")
    chart = page.get_by_role("img", name="Tasks by value")
    heights = [256 - 60 - float(y) for y in re.findall(r"V([\d.]+)h", chart.locator("path").get_attribute("d"))]
    # Heights are compared relative to the highest bar, since the scale of the y-axis is not fixed.
    assert page.locator("figure", has=chart).locator(".readout").inner_text().startswith("mean ")
    known = result.fitness[result.solved]
    bins = max(8, min(60, round((chart.bounding_box()["width"] - 80) / 9)))
    counts, _ = np.histogram(known, bins)
    np.testing.assert_allclose(np.array(heights) / max(heights), counts[counts > 0] / counts.max(), atol=0.01)


def test_page_of_comparison_has_values_of_its_tables(look):
    page, found = look("comparison")
    table = found.table()
    rows = page.locator("[aria-label=measures] tbody tr").all_inner_texts()
    for row, label in zip(rows, found.labels, strict=True):
        cells = row.split("\t")
        assert cells[0] == label
        assert float(cells[1].split()[0]) == pytest.approx(table.loc[label, "mean_all_median"], rel=1e-4)
    tests = page.locator("[aria-label=tests] tbody tr")
    assert tests.count() == len(found.tests()) == 3
    page.get_by_role("combobox", name="measure").select_option("mean_all")
    final = page.get_by_role("img", name=re.compile("^Final values"))
    assert final.locator("circle").count() == 12
    assert "mean fitness over all tasks" in final.text_content()


def test_headings_are_nested_and_controls_have_names(look):
    for name in ("arm", "comparison"):
        page, _ = look(name)
        levels = page.evaluate(
            "() => Array.from(document.querySelectorAll('h1, h2, h3, h4'), (e) => Number(e.tagName[1]))"
        )
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert max(np.diff(levels)) <= 1
        unnamed = page.evaluate(
            """() => Array.from(document.querySelectorAll("button, select, input, canvas, [role=img], [role=region]"))
              .filter((e) => !(e.getAttribute("aria-label") || (e.closest("label") || e).textContent.trim()))
              .filter((e) => e.checkVisibility()).map((e) => e.outerHTML.slice(0, 100))"""
        )
        assert unnamed == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_sufficient_contrast(look, scheme):
    page, _ = look("arm", scheme=scheme)
    names = sorted({name for pair in PAIRS for name in pair})
    found = page.evaluate(
        "(names) => names.map((n) => getComputedStyle(document.documentElement).getPropertyValue(n).trim())", names
    )
    colours = dict(zip(names, found, strict=True))
    for below, above in PAIRS:
        assert contrast(colours[below], colours[above]) >= 4.5, (below, above)


def contrast(one, other):
    """Return the contrast ratio of the Web Content Accessibility Guidelines."""

    def luminance(colour):
        shares = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_black_and_white():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


OVERFLOWING = """() => Array.from(document.querySelectorAll("main *"))
  .filter((e) => e.checkVisibility() && !e.closest(".hidden, .scroll, pre, svg"))
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5)
  .map((e) => e.outerHTML.slice(0, 100))"""


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        *(("arm", "light"), ("arm", "dark"), ("comparison", "light"), ("comparison", "dark"), ("wide", "light")),
        *(("hostile", "light"), ("hostile comparison", "light"), ("failures", "light")),
    ],
)
def test_page_fits_on_a_telephone(look, name, scheme):
    page, _ = look(name, width=375, height=800, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    assert page.evaluate(OVERFLOWING) == []
    heads = page.locator("thead tr").evaluate_all("(rows) => rows.map((row) => row.getBoundingClientRect().height)")
    assert all(height < 40 for height in heads)  # one line
    if name in ("arm", "wide"):
        below, panel = map_of(page).bounding_box(), page.locator(".task").bounding_box()
        assert panel["y"] >= below["y"] + below["height"]


def test_task_is_beside_map_on_wide_screen(look):
    page, _ = look("arm", width=1600)
    left, panel = map_of(page).bounding_box(), page.locator(".task").bounding_box()
    assert panel["x"] >= left["x"] + left["width"]
    assert abs(panel["y"] - page.locator(".map-side").bounding_box()["y"]) < 1
    page.set_viewport_size({"width": 600, "height": 800})
    page.evaluate(READY)
    assert map_of(page).bounding_box()["width"] <= 600
    assert page.locator(".task").bounding_box()["x"] < 100
