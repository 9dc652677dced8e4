"""Helpers that find elements of a page. Positions are computed from the result, not by the script of the page."""

import numpy as np

# Margins of the map, as in map.js.
RIGHT, TOP, BOTTOM = 10, 10, 42
READY = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def wait_until(page, asked):
    """Wait until a JavaScript expression is true; the policy of the page forbids Playwright's `wait_for_function`."""
    for _ in range(200):
        if page.evaluate(asked):
            return
        page.wait_for_timeout(25)
    raise AssertionError(asked)


def about(page):
    """Return the JSON that Python wrote to the page."""
    return page.evaluate("() => JSON.parse(document.getElementById('about').textContent)")


def map_of(page):
    return page.locator(".map canvas").first


def canvas_positions(page, points):
    """Return the positions of points on the canvas of the map, without zoom, shape `(n, 2)`."""
    size = map_of(page).bounding_box()
    plane = about(page)["plane"]
    left = 46 if size["width"] < 500 else 58
    low, high = np.array(plane["low"]), np.array(plane["high"])
    across, up = ((np.asarray(points) - low) / (high - low)).T
    x = left + across * (size["width"] - left - RIGHT)
    y = TOP + (1 - up) * (size["height"] - TOP - BOTTOM)
    return np.stack([x, y], axis=1)


def pixel(page, spot):
    """Return the colour of the map at a position on its canvas."""
    page.evaluate(READY)
    return map_of(page).evaluate(
        """(canvas, [x, y]) => {
          // Read a copy, since browsers render canvases that are read often in another way.
          const copy = new OffscreenCanvas(1, 1).getContext("2d");
          copy.drawImage(canvas, Math.round(x), Math.round(y), 1, 1, 0, 0, 1, 1);
          return Array.from(copy.getImageData(0, 0, 1, 1).data);
        }""",
        [float(spot[0]), float(spot[1])],
    )[:3]


def hover(page, spot):
    map_of(page).hover(position={"x": float(spot[0]), "y": float(spot[1])})


def click(page, spot, **more):
    map_of(page).click(position={"x": float(spot[0]), "y": float(spot[1])}, **more)


def selected_task(page):
    """Return the index of the selected task."""
    return int(page.locator("#task-heading").inner_text().removeprefix("Task "))


def facts(page):
    """Return the facts about the selected task."""
    names, values = page.locator(".facts dt").all_inner_texts(), page.locator(".facts dd").all_inner_texts()
    return dict(zip(names, values, strict=True))


def background(page, selector="body"):
    return page.locator(selector).first.evaluate("(element) => getComputedStyle(element).backgroundColor")
