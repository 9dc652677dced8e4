import json
import re

import numpy as np
import pytest
from matplotlib import colormaps

from browser.looking import READY, background, chosen, click, facts, hover, map_of, pixel, spots, until
from taskelites.domains.arm import joints


def points_of(result):
    return result.tasks.descriptors


def viridis(share):
    """The colour of a value, as the page rounds it."""
    return np.array(colormaps["viridis"](round(255 * float(share)), bytes=True))[:3].tolist()


def away_from(result, number):
    """Tasks that no outline of the chosen one or its neighbours touches, in cells large enough for a pixel of them."""
    points = points_of(result)
    between = np.linalg.norm(points[:, None] - points, axis=-1)
    np.fill_diagonal(between, np.inf)
    far = (between[number] > 0.3) & (between.min(axis=1) > 0.02)
    return np.flatnonzero(far)


def test_hovering_tells_the_task_and_its_numbers(look):
    page, result = look("arm")
    for number in (3, 77, 149):
        hover(page, spots(page, points_of(result))[number])
        lines = page.locator(".tip").inner_text().splitlines()
        reach, length = points_of(result)[number]
        assert lines[0] == f"task {number}"
        assert float(lines[1].removeprefix("fitness ")) == pytest.approx(result.fitness[number], rel=1e-3)
        assert float(lines[2].removeprefix("alpha_max ")) == pytest.approx(reach, rel=1e-4)
        assert float(lines[3].removeprefix("length ")) == pytest.approx(length, rel=1e-4)
    page.mouse.move(5, 5)
    assert not page.locator(".tip").is_visible()


def test_the_tip_stays_inside_of_the_map(look):
    page, result = look("arm", width=375, height=800)
    frame = map_of(page).bounding_box()
    places = spots(page, points_of(result))
    for number in (places[:, 0].argmax(), places[:, 1].argmax(), places[:, 0].argmin()):
        hover(page, places[number])
        tip = page.locator(".tip").bounding_box()
        assert tip["x"] >= frame["x"]
        assert tip["x"] + tip["width"] <= frame["x"] + frame["width"]
        assert tip["y"] + tip["height"] <= frame["y"] + frame["height"]


def test_clicking_shows_the_numbers_of_the_task(look):
    page, result = look("arm")
    for number in (11, 100):
        click(page, spots(page, points_of(result))[number])
        assert chosen(page) == number
        found = facts(page)
        assert float(found["fitness"]) == pytest.approx(result.fitness[number], rel=1e-5)
        assert float(found["gap to the optimum"]) == pytest.approx(
            result.optimum[number] - result.fitness[number], rel=1e-5
        )
        assert found["evaluations on the task"] == str(number + 7)
        assert found["evaluation of the last improvement"] == str(number + 1)
        assert page.url.endswith(f"#task={number}")


def test_the_arm_is_drawn_in_its_posture(look):
    page, result = look("arm", after="#task=42")
    path = page.locator(".picture g path").first.get_attribute("d")
    drawn = np.array([[float(text) for text in pair.split()] for pair in path[1:].split("L")])
    task = points_of(result)[42]
    posture = joints(result.solutions[42], task, xp=np)
    # The limits of ArmDrawing, in the largest square of the box that picture.js has for axes.
    low, high = min(posture.min(), 1.0) - 0.1, max(posture.max(), 1.0) + 0.1
    left, top, width, side = 50, 8, 258, 222
    shares = (posture - low) / (high - low)
    expected = np.stack([left + (width - side) / 2 + side * shares[:, 0], top + side * (1 - shares[:, 1])], axis=1)
    np.testing.assert_allclose(drawn, expected, atol=0.12)
    assert f"alpha_max {task[0]:.3f}" in page.locator(".drawing .title").inner_text()


def test_cells_have_the_colour_of_their_fitness_and_of_another_value_when_it_is_chosen(look):
    page, result = look("arm", after="#task=0")
    page.mouse.move(5, 5)
    places = spots(page, points_of(result))
    fitness = result.fitness
    shares = (fitness - fitness.min()) / (fitness.max() - fitness.min())
    away = away_from(result, 0)[:12]
    for number in away:
        assert pixel(page, places[number]) == viridis(shares[number])
    page.get_by_label("colour").select_option("gap")
    gap = np.log10(result.optimum - fitness)
    shares = (gap.max() - gap) / (gap.max() - gap.min())
    assert all(pixel(page, places[number]) == viridis(shares[number]) for number in away)
    assert page.locator(".colours .what").inner_text() == "gap to the optimum"


def test_an_unsolved_task_is_grey_and_has_nothing_to_copy(look):
    page, result = look("arm-single", after="#task=0")
    assert page.get_by_role("button", name="copy as JSON").is_visible()
    page.mouse.move(5, 5)
    assert pixel(page, spots(page, points_of(result))[4]) == [0xB9, 0xBE, 0xC4]
    click(page, spots(page, points_of(result))[4])
    assert chosen(page) == 4
    assert "This task has no solution." in page.locator(".task .note").inner_text()
    assert facts(page)["fitness"] == "none"
    assert not page.get_by_role("button", name="copy as JSON").is_visible()


@pytest.mark.parametrize("name", ["arm", "arm-single"])
def test_a_copied_solution_is_the_solution(look, name):
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
    until(page, "async () => (await navigator.clipboard.readText()).startsWith('import numpy')")
    known = {}
    exec(page.evaluate(read), known)  # it is meant to be run
    assert np.array_equal(known["solution"].astype(result.solutions.dtype), result.solutions[17])
    assert np.array_equal(known["task"], points_of(result)[17])


def test_neighbours_are_the_nearest_tasks_and_can_be_gone_to(look):
    page, result = look("arm", after="#task=30")
    away = np.linalg.norm(points_of(result) - points_of(result)[30], axis=1)
    nearest = np.argsort(away)[1:7]
    buttons = page.locator(".chips button")
    assert [int(text.split(":")[0]) for text in buttons.all_inner_texts()] == nearest.tolist()
    buttons.nth(2).click()
    assert chosen(page) == nearest[2]


def test_best_median_and_worst(look):
    page, result = look("arm", after="#task=1")
    order = np.argsort(result.fitness)
    for word, number in (("best", order[-1]), ("worst", order[0]), ("median", order[(len(order) - 1) // 2])):
        page.get_by_role("button", name=word, exact=True).click()
        assert chosen(page) == number
    page.get_by_role("button", name="random", exact=True).click()
    assert 0 <= chosen(page) < len(result)


def test_a_page_begins_with_the_task_of_its_address_or_the_best(look):
    page, result = look("arm", after="#task=17")
    assert chosen(page) == 17
    for address in ("", "#task=999", "#nonsense"):
        other, _ = look("arm", after=address)
        assert chosen(other) == result.fitness.argmax()


def test_searching(look):
    page, _ = look("arm", after="#task=3")

    def search(text):
        page.get_by_label("search for a task").fill(text)
        page.keyboard.press("Enter")
        return chosen(page), page.locator(".answer").inner_text()

    assert search("21") == (21, "")
    assert search("150") == (21, "there is no task 150; tasks are numbered 0 to 149")
    assert search("<b>nonsense") == (21, "enter the number of a task, 0 to 149")
    assert search("-1") == (21, "enter the number of a task, 0 to 149")
    assert search(" 22 ") == (22, "")


def test_searching_by_text(look):
    page, _ = look("objects", after="#task=3")

    def search(text):
        page.get_by_label("search for a task").fill(text)
        page.get_by_role("button", name="find").click()
        return chosen(page), page.locator(".answer").inner_text()

    assert page.locator(".label-text").inner_text() == "Robot a leg 3"
    assert search("LEG 28") == (28, "")
    assert search("robot b") == (1, "1 of 10 with this text")
    assert search("robot b") == (4, "2 of 10 with this text")
    assert search("12") == (12, "")
    assert search("31") == (12, "there is no task 31; tasks are numbered 0 to 29")
    assert search("dragon") == (12, "no task has this in its text")


def test_objects_stand_in_the_order_of_their_numbers(look):
    page, _ = look("objects")
    columns = 6
    for number in (0, 8, 29):
        place = np.array([[number % columns, -(number // columns)]])
        click(page, spots(page, place)[0])
        assert chosen(page) == number
    assert page.locator(".chips button").count() == 0


def test_one_descriptor_stands_over_its_value(look):
    page, result = look("line", after="#task=0")
    values = np.where(np.isnan(result.fitness), result.fitness[~np.isnan(result.fitness)].min(), result.fitness)
    low, high = np.nanmin(result.fitness), np.nanmax(result.fitness)
    size = map_of(page).bounding_box()
    width, height = size["width"] - 58 - 10, size["height"] - 10 - 42
    for number in (5, 24, 49):
        x = 58 + (result.tasks.descriptors[number, 0] + 0.05) / 1.1 * width
        y = 10 + (1 - ((values[number] - low) / (high - low) + 0.05) / 1.1) * height
        click(page, (x, y))
        assert chosen(page) == number


def test_choosing_axes_among_many_descriptors(look):
    page, result = look("wide", after="#task=0")
    page.get_by_role("combobox", name="x", exact=True).select_option("2")
    page.get_by_role("combobox", name="y", exact=True).select_option("7")
    points = points_of(result)[:, [2, 7]]
    size = map_of(page).bounding_box()
    low, span = points.min(axis=0), np.ptp(points, axis=0)
    shares = (points - low + 0.05 * span) / (1.1 * span)
    # One that no other hides.
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
    assert chosen(page) == number
    page.get_by_role("combobox", name="y", exact=True).select_option("-1")  # one descriptor and one component
    assert chosen(page) == number


def view(page, result):
    """Which part of the plane is shown, found by hovering: the tasks at two places."""
    size = map_of(page).bounding_box()
    found = []
    for share in (0.25, 0.75):
        hover(page, (58 + share * (size["width"] - 68), 10 + share * (size["height"] - 52)))
        found.append(int(re.match(r"task (\d+)", page.locator(".tip").inner_text())[1]))
    return found


def test_the_wheel_zooms_only_after_a_click_on_the_map(look):
    page, result = look("arm", after="#task=0", height=700)
    whole = view(page, result)
    page.evaluate("scrollTo(0, 100)")
    map_of(page).hover(position={"x": 300, "y": 300})
    page.evaluate("scrollTo(0, 100)")
    page.mouse.wheel(0, -60)
    until(page, "scrollY < 60")
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


def test_zooming_and_panning(look):
    page, result = look("grid", after="#task=0")
    size = map_of(page).bounding_box()
    middle = (58 + 0.5 * (size["width"] - 68), 10 + 0.5 * (size["height"] - 52))
    whole = view(page, result)
    # Cells are a sixth of the map wide: at a quarter and three quarters stand the columns 1 and 4, rows from below.
    assert whole == [1 + 6 * 4, 4 + 6 * 1]
    page.get_by_role("button", name="zoom in").click()
    page.get_by_role("button", name="zoom in").click()
    # Of 6 cells, 6 / 1.5**2 = 2.67 are left, from 1.67 to 4.33: the columns at 2.33 and 3.67.
    assert view(page, result) == [2 + 6 * 3, 3 + 6 * 2]
    frame = map_of(page).bounding_box()
    start = (frame["x"] + middle[0], frame["y"] + middle[1])
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(start[0] - 100, start[1], steps=4)
    step = (size["width"] - 68) / (6 / 1.5**2)
    page.mouse.move(start[0] - step, start[1], steps=4)
    page.mouse.up()
    assert chosen(page) == 0  # a drag chooses nothing
    assert view(page, result) == [3 + 6 * 3, 4 + 6 * 2]  # a column further
    page.get_by_role("button", name="zoom out").click()
    page.get_by_role("button", name="zoom out").click()
    assert view(page, result) == whole
    map_of(page).dblclick(position={"x": middle[0] + 3, "y": middle[1] + 3})
    assert view(page, result) == [2 + 6 * 3, 3 + 6 * 2]


def test_arrows_go_to_the_neighbour_in_their_direction(look):
    page, _ = look("grid", after="#task=14")
    map_of(page).focus()
    for key, number in (("ArrowRight", 15), ("ArrowUp", 21), ("ArrowLeft", 20), ("ArrowDown", 14)):
        page.keyboard.press(key)
        assert chosen(page) == number
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    assert chosen(page) == 12  # the end of its row


def test_arrows_keep_within_an_eighth_of_a_turn(look):
    page, result = look("arm", after="#task=0")
    places = spots(page, points_of(result)) * [1, -1]  # upwards
    map_of(page).focus()
    number = 0
    for key, (right, up) in 4 * [("ArrowRight", (1, 0)), ("ArrowUp", (0, 1)), ("ArrowLeft", (-1, 0))]:
        away = places - places[number]
        along, across = away @ [right, up], np.abs(away @ [up, right])
        cost = np.where((along > 0) & (across <= along), along + 2 * across, np.inf)
        number = int(cost.argmin()) if np.isfinite(cost).any() else number
        page.keyboard.press(key)
        assert chosen(page) == number


def test_keys_zoom_the_map(look):
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


def test_a_tap_on_a_narrow_screen_chooses(look):
    page, result = look("arm", width=375, height=700, touch=True, after="#task=0")
    map_of(page).scroll_into_view_if_needed()
    place = spots(page, points_of(result))[60]
    map_of(page).tap(position={"x": float(place[0]), "y": float(place[1])})
    assert chosen(page) == 60


def test_the_maps_of_a_comparison_go_together(look):
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


def test_dark_by_preference_and_by_button(look):
    light, _ = look("grid", after="#task=0")
    dark, _ = look("grid", scheme="dark", after="#task=0")
    assert background(light) == "rgb(255, 255, 255)"
    assert background(dark) == "rgb(20, 23, 27)"
    corner = (58, 300)  # on the frame of the map, which is as thin as a pixel
    pale, deep = pixel(light, corner), pixel(dark, corner)
    assert pale[0] > deep[0] + 50
    for page, wanted, frame in ((light, "rgb(20, 23, 27)", deep), (dark, "rgb(255, 255, 255)", pale)):
        page.get_by_role("button", name="light or dark").click()
        assert background(page) == wanted
        assert pixel(page, corner) == frame
