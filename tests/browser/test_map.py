import json
import re

import numpy as np
import pytest
from matplotlib import colormaps

from browser.page_helpers import (
    READY,
    background,
    canvas_positions,
    click,
    facts,
    hover,
    map_of,
    pixel,
    selected_task,
    wait_until,
)
from taskelites.domains.arm import joints


def points_of(result):
    return result.tasks.descriptors


def viridis(share):
    """Return the colour of a value between 0 and 1, rounded as on the page."""
    return np.array(colormaps["viridis"](round(255 * float(share)), bytes=True))[:3].tolist()


def tasks_away_from(result, number):
    """Return tasks in large cells that are not near task `number`, since its outline would change their colours."""
    points = points_of(result)
    between = np.linalg.norm(points[:, None] - points, axis=-1)
    np.fill_diagonal(between, np.inf)
    far = (between[number] > 0.3) & (between.min(axis=1) > 0.02)
    return np.flatnonzero(far)


def test_tooltip_has_numbers_of_task(look):
    page, result = look("arm")
    for number in (3, 77, 149):
        hover(page, canvas_positions(page, points_of(result))[number])
        lines = page.locator(".tip").inner_text().splitlines()
        reach, length = points_of(result)[number]
        assert lines[0] == f"task {number}"
        assert float(lines[1].removeprefix("fitness ")) == pytest.approx(result.fitness[number], rel=1e-3)
        assert float(lines[2].removeprefix("alpha_max ")) == pytest.approx(reach, rel=1e-4)
        assert float(lines[3].removeprefix("length ")) == pytest.approx(length, rel=1e-4)
    page.mouse.move(5, 5)
    assert not page.locator(".tip").is_visible()


def test_tooltip_stays_inside_map(look):
    page, result = look("arm", width=375, height=800)
    frame = map_of(page).bounding_box()
    places = canvas_positions(page, points_of(result))
    for number in (places[:, 0].argmax(), places[:, 1].argmax(), places[:, 0].argmin()):
        hover(page, places[number])
        tip = page.locator(".tip").bounding_box()
        assert tip["x"] >= frame["x"]
        assert tip["x"] + tip["width"] <= frame["x"] + frame["width"]
        assert tip["y"] + tip["height"] <= frame["y"] + frame["height"]


def test_click_shows_facts_of_task(look):
    page, result = look("arm")
    for number in (11, 100):
        click(page, canvas_positions(page, points_of(result))[number])
        assert selected_task(page) == number
        found = facts(page)
        assert float(found["fitness"]) == pytest.approx(result.fitness[number], rel=1e-5)
        assert float(found["gap to the optimum"]) == pytest.approx(
            result.optimum[number] - result.fitness[number], rel=1e-5
        )
        assert found["evaluations on the task"] == str(number + 7)
        assert found["evaluation of the last improvement"] == str(number + 1)
        assert page.url.endswith(f"#task={number}")


def test_arm_is_drawn_in_its_posture(look):
    page, result = look("arm", after="#task=42")
    path = page.locator(".picture g path").first.get_attribute("d")
    drawn = np.array([[float(text) for text in pair.split()] for pair in path[1:].split("L")])
    task = points_of(result)[42]
    posture = joints(result.solutions[42], task, xp=np)
    # The limits of ArmDrawing, in the largest square inside the box for axes in picture.js.
    low, high = min(posture.min(), 1.0) - 0.1, max(posture.max(), 1.0) + 0.1
    left, top, width, side = 50, 8, 258, 222
    shares = (posture - low) / (high - low)
    expected = np.stack([left + (width - side) / 2 + side * shares[:, 0], top + side * (1 - shares[:, 1])], axis=1)
    np.testing.assert_allclose(drawn, expected, atol=0.12)
    assert f"alpha_max {task[0]:.3f}" in page.locator(".drawing .title").inner_text()


def test_cells_have_colour_of_selected_value(look):
    page, result = look("arm", after="#task=0")
    page.mouse.move(5, 5)
    places = canvas_positions(page, points_of(result))
    fitness = result.fitness
    shares = (fitness - fitness.min()) / (fitness.max() - fitness.min())
    away = tasks_away_from(result, 0)[:12]
    for number in away:
        assert pixel(page, places[number]) == viridis(shares[number])
    page.get_by_label("colour").select_option("gap")
    gap = np.log10(result.optimum - fitness)
    shares = (gap.max() - gap) / (gap.max() - gap.min())
    assert all(pixel(page, places[number]) == viridis(shares[number]) for number in away)
    assert page.locator(".colours .what").inner_text() == "gap to the optimum"


def test_unsolved_task_is_grey_and_has_no_copy_button(look):
    page, result = look("arm-single", after="#task=0")
    assert page.get_by_role("button", name="copy as JSON").is_visible()
    page.mouse.move(5, 5)
    assert pixel(page, canvas_positions(page, points_of(result))[4]) == [0xB9, 0xBE, 0xC4]
    click(page, canvas_positions(page, points_of(result))[4])
    assert selected_task(page) == 4
    assert "This task has no solution." in page.locator(".task .note").inner_text()
    assert facts(page)["fitness"] == "none"
    assert not page.get_by_role("button", name="copy as JSON").is_visible()


@pytest.mark.parametrize("name", ["arm", "arm-single"])
def test_copied_solution_equals_solution(look, name):
    page, result = look(name, after="#task=17", permissions=["clipboard-read", "clipboard-write"])
    read = "() => navigator.clipboard.readText()"
    page.get_by_role("button", name="copy as JSON").click()
    page.get_by_text("copied", exact=True).wait_for()
    copied = json.loads(page.evaluate(read))
    assert copied["task"] == 17
    solution = np.array(copied["solution"], dtype=result.solutions.dtype)
    assert np.array_equal(solution, result.solutions[17])
    assert copied["fitness"] == result.fitness[17]
    assert list(copied["descriptors"].values()) == points_of(result)[17].tolist()
    page.get_by_role("button", name="copy as Python").click()
    page.get_by_text("copied", exact=True).first.wait_for()
    wait_until(page, "async () => (await navigator.clipboard.readText()).startsWith('import numpy')")
    known = {}
    exec(page.evaluate(read), known)  # users run the copied text
    assert np.array_equal(known["solution"].astype(result.solutions.dtype), result.solutions[17])
    assert np.array_equal(known["task"], points_of(result)[17])


def test_neighbour_buttons_select_nearest_tasks(look):
    page, result = look("arm", after="#task=30")
    away = np.linalg.norm(points_of(result) - points_of(result)[30], axis=1)
    nearest = np.argsort(away)[1:7]
    buttons = page.locator(".chips button")
    assert [int(text.split(":")[0]) for text in buttons.all_inner_texts()] == nearest.tolist()
    buttons.nth(2).click()
    assert selected_task(page) == nearest[2]


def test_buttons_select_best_median_worst_and_random_task(look):
    page, result = look("arm", after="#task=1")
    order = np.argsort(result.fitness)
    for word, number in (("best", order[-1]), ("worst", order[0]), ("median", order[(len(order) - 1) // 2])):
        page.get_by_role("button", name=word, exact=True).click()
        assert selected_task(page) == number
    page.get_by_role("button", name="random", exact=True).click()
    assert 0 <= selected_task(page) < len(result)


def test_first_task_is_from_address_or_best(look):
    page, result = look("arm", after="#task=17")
    assert selected_task(page) == 17
    for address in ("", "#task=999", "#nonsense"):
        other, _ = look("arm", after=address)
        assert selected_task(other) == result.fitness.argmax()


def test_search_by_number(look):
    page, _ = look("arm", after="#task=3")

    def search(text):
        page.get_by_label("search for a task").fill(text)
        page.keyboard.press("Enter")
        return selected_task(page), page.locator(".answer").inner_text()

    assert search("21") == (21, "")
    assert search("150") == (21, "there is no task 150; tasks are numbered 0 to 149")
    assert search("<b>nonsense") == (21, "enter the number of a task, 0 to 149")
    assert search("-1") == (21, "enter the number of a task, 0 to 149")
    assert search(" 22 ") == (22, "")


def test_search_by_text(look):
    page, _ = look("objects", after="#task=3")

    def search(text):
        page.get_by_label("search for a task").fill(text)
        page.get_by_role("button", name="find").click()
        return selected_task(page), page.locator(".answer").inner_text()

    assert page.locator(".label-text").inner_text() == "Robot a leg 3"
    assert search("LEG 28") == (28, "")
    assert search("robot b") == (1, "1 of 10 with this text")
    assert search("robot b") == (4, "2 of 10 with this text")
    assert search("12") == (12, "")
    assert search("31") == (12, "there is no task 31; tasks are numbered 0 to 29")
    assert search("dragon") == (12, "no task has this in its text")


def test_tasks_without_descriptors_are_in_order(look):
    page, _ = look("objects")
    columns = 6
    for number in (0, 8, 29):
        place = np.array([[number % columns, -(number // columns)]])
        click(page, canvas_positions(page, place)[0])
        assert selected_task(page) == number
    assert page.locator(".chips button").count() == 0


def test_one_descriptor_is_plotted_against_value(look):
    page, result = look("line", after="#task=0")
    values = np.where(np.isnan(result.fitness), result.fitness[~np.isnan(result.fitness)].min(), result.fitness)
    low, high = np.nanmin(result.fitness), np.nanmax(result.fitness)
    size = map_of(page).bounding_box()
    width, height = size["width"] - 58 - 10, size["height"] - 10 - 42
    for number in (5, 24, 49):
        x = 58 + (result.tasks.descriptors[number, 0] + 0.05) / 1.1 * width
        y = 10 + (1 - ((values[number] - low) / (high - low) + 0.05) / 1.1) * height
        click(page, (x, y))
        assert selected_task(page) == number


def test_axes_can_be_selected_among_many_descriptors(look):
    page, result = look("wide", after="#task=0")
    page.get_by_role("combobox", name="x", exact=True).select_option("2")
    page.get_by_role("combobox", name="y", exact=True).select_option("7")
    points = points_of(result)[:, [2, 7]]
    size = map_of(page).bounding_box()
    low, span = points.min(axis=0), np.ptp(points, axis=0)
    shares = (points - low + 0.05 * span) / (1.1 * span)
    # A task that is not hidden by others.
    near = np.linalg.norm(shares[:, None] - shares, axis=-1)
    np.fill_diagonal(near, np.inf)
    number = int(near.min(axis=1).argmax())
    click(
        page,
        (
            58 + shares[number, 0] * (size["width"] - 68),
            10 + (1 - shares[number, 1]) * (size["height"] - 52),
        ),
    )
    assert selected_task(page) == number
    page.get_by_role("combobox", name="y", exact=True).select_option("-1")  # one descriptor and one component
    assert selected_task(page) == number


def view(page, result):
    """Return the tasks at two positions of the canvas, which depend on the visible part of the map."""
    size = map_of(page).bounding_box()
    found = []
    for share in (0.25, 0.75):
        hover(page, (58 + share * (size["width"] - 68), 10 + share * (size["height"] - 52)))
        found.append(int(re.match(r"task (\d+)", page.locator(".tip").inner_text())[1]))
    return found


def test_wheel_zooms_only_after_click_on_map(look):
    page, result = look("arm", after="#task=0", height=700)
    whole = view(page, result)
    page.evaluate("scrollTo(0, 100)")
    map_of(page).hover(position={"x": 300, "y": 300})
    page.evaluate("scrollTo(0, 100)")
    page.mouse.wheel(0, -60)
    wait_until(page, "scrollY < 60")
    assert view(page, result) == whole
    map_of(page).click()
    before = page.evaluate("scrollY")
    page.mouse.wheel(0, -600)
    page.wait_for_timeout(100)
    page.evaluate(READY)
    assert page.evaluate("scrollY") == before
    near = view(page, result)
    assert near != whole
    page.get_by_role("button", name="whole map").click()
    assert view(page, result) == whole


def test_zoom_and_pan(look):
    page, result = look("grid", after="#task=0")
    size = map_of(page).bounding_box()
    middle = (58 + 0.5 * (size["width"] - 68), 10 + 0.5 * (size["height"] - 52))
    whole = view(page, result)
    # A cell is a sixth of the map wide, so columns 1 and 4 are at 0.25 and 0.75. Rows are counted from below.
    assert whole == [1 + 6 * 4, 4 + 6 * 1]
    page.get_by_role("button", name="zoom in").click()
    page.get_by_role("button", name="zoom in").click()
    # 6 / 1.5**2 = 2.67 of 6 cells are visible, from 1.67 to 4.33, so 2.33 and 3.67 are at 0.25 and 0.75.
    assert view(page, result) == [2 + 6 * 3, 3 + 6 * 2]
    frame = map_of(page).bounding_box()
    start = (frame["x"] + middle[0], frame["y"] + middle[1])
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(start[0] - 100, start[1], steps=4)
    step = (size["width"] - 68) / (6 / 1.5**2)
    page.mouse.move(start[0] - step, start[1], steps=4)
    page.mouse.up()
    assert selected_task(page) == 0  # a drag selects nothing
    assert view(page, result) == [3 + 6 * 3, 4 + 6 * 2]  # moved by one column
    page.get_by_role("button", name="zoom out").click()
    page.get_by_role("button", name="zoom out").click()
    assert view(page, result) == whole
    map_of(page).dblclick(position={"x": middle[0] + 3, "y": middle[1] + 3})
    assert view(page, result) == [2 + 6 * 3, 3 + 6 * 2]


def test_arrow_keys_select_neighbour_in_their_direction(look):
    page, _ = look("grid", after="#task=14")
    map_of(page).focus()
    for key, number in (("ArrowRight", 15), ("ArrowUp", 21), ("ArrowLeft", 20), ("ArrowDown", 14)):
        page.keyboard.press(key)
        assert selected_task(page) == number
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    assert selected_task(page) == 12  # the first column


def test_arrow_keys_select_tasks_within_45_degrees(look):
    page, result = look("arm", after="#task=0")
    places = canvas_positions(page, points_of(result)) * [1, -1]  # y upwards
    map_of(page).focus()
    number = 0
    for key, (right, up) in 4 * [("ArrowRight", (1, 0)), ("ArrowUp", (0, 1)), ("ArrowLeft", (-1, 0))]:
        away = places - places[number]
        along, across = away @ [right, up], np.abs(away @ [up, right])
        cost = np.where((along > 0) & (across <= along), along + 2 * across, np.inf)
        number = int(cost.argmin()) if np.isfinite(cost).any() else number
        page.keyboard.press(key)
        assert selected_task(page) == number


def test_keys_zoom_map(look):
    page, result = look("grid", after="#task=14")
    whole = view(page, result)
    map_of(page).focus()
    page.keyboard.press("+")
    page.keyboard.press("=")
    assert view(page, result) != whole
    page.keyboard.press("-")
    page.keyboard.press("-")
    assert view(page, result) == whole
    page.keyboard.press("+")
    page.keyboard.press("0")
    assert view(page, result) == whole


def test_tap_on_narrow_screen_selects_task(look):
    page, result = look("arm", width=375, height=700, touch=True, after="#task=0")
    map_of(page).scroll_into_view_if_needed()
    place = canvas_positions(page, points_of(result))[60]
    map_of(page).tap(position={"x": float(place[0]), "y": float(place[1])})
    assert selected_task(page) == 60


def test_maps_of_comparison_share_selection(look):
    page, found = look("comparison")
    runs = [found.typical(label) for label in found.labels]
    points = points_of(runs[0])
    size = map_of(page).bounding_box()
    plane = page.evaluate("() => JSON.parse(document.getElementById('about').textContent).plane")
    low, high = np.array(plane["low"]), np.array(plane["high"])
    share = (points[25] - low) / (high - low)
    place = (8 + share[0] * (size["width"] - 16), 8 + (1 - share[1]) * (size["height"] - 16))
    hover(page, place)
    lines = page.locator(".tip").first.inner_text().splitlines()
    assert lines[0] == "task 25"
    for line, label, run in zip(lines[1:], found.labels, runs, strict=False):
        name, value = line.split(": ")
        assert name == label
        assert float(value) == pytest.approx(run.fitness[25], rel=1e-3)
    click(page, place)
    rows = page.locator("[aria-label='the task'] tbody tr").all_inner_texts()
    for row, run in zip(rows, runs, strict=True):
        assert float(row.split("\t")[1]) == pytest.approx(run.fitness[25], rel=1e-5)
        assert float(row.split("\t")[2]) == pytest.approx(run.optimum[25] - run.fitness[25], rel=1e-5)


def test_dark_scheme_by_preference_and_button(look):
    light, _ = look("grid", after="#task=0")
    dark, _ = look("grid", scheme="dark", after="#task=0")
    assert background(light) == "rgb(255, 255, 255)"
    assert background(dark) == "rgb(20, 23, 27)"
    corner = (58, 300)  # on the frame of the map, which is one pixel wide
    pale, deep = pixel(light, corner), pixel(dark, corner)
    assert pale[0] > deep[0] + 50
    for page, wanted, frame in ((light, "rgb(20, 23, 27)", deep), (dark, "rgb(255, 255, 255)", pale)):
        page.get_by_role("button", name="light or dark").click()
        assert background(page) == wanted
        assert pixel(page, corner) == frame
