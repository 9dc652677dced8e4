import base64
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taskelites as te
from taskelites.algorithms import about_algorithm
from taskelites.cli import main
from taskelites.show.report import tasks as page_tasks
from taskelites.show.report.blob import Blob
from taskelites.show.report.page import as_json, render
from taskelites.show.report.pictures import Pictures
from taskelites.show.report.pixels import render_drawing
from taskelites.show.report.run import again, settings_rows, tiles
from taskelites.show.report.sketch_data import SketchData
from taskelites.show.report.tasks import Room, put_plane, put_solutions, put_tasks


def make_result(tasks, fitness, solutions=None, **more):
    """Return a result with the given tasks, fitness and solutions."""
    number = len(fitness)
    return te.Result(
        solutions=np.full((number, 3), 0.5) if solutions is None else solutions,
        fitness=np.asarray(fitness, dtype=float),
        tasks=tasks if isinstance(tasks, te.Tasks) else te.Tasks(descriptors=tasks),
        evaluations=1000,
        task_evaluations=np.full(number, 3),
        last_improved=np.arange(1, number + 1),
        **more,
    )


def contents(path):
    """Return the JSON of a page, and a function that returns the array of a reference."""
    text = path.read_text(encoding="utf-8")
    about = json.loads(re.search(r'id="about">(.*?)</script>', text, re.DOTALL)[1])
    data = base64.b64decode(re.search(r'id="numbers">(.*?)</script>', text, re.DOTALL)[1])
    return about, lambda reference: read(data, reference)


def read(data, reference):
    count = int(np.prod(reference["shape"]))
    return np.frombuffer(data, f"<{reference['type']}", count, reference["at"]).reshape(reference["shape"])


# Arrays and JSON


def test_arrays_are_aligned_and_read_back():
    blob = Blob()
    arrays = [(np.arange(3), "u1"), (np.array([[0.1], [-2.5]]), "f8"), (np.array([7]), "u2"), (np.array([-7]), "i4")]
    references = [blob.add(array, kind) for array, kind in arrays]
    data = base64.b64decode(blob.encoded())
    assert blob.size == len(data) == 8 + 16 + 2 + 2 + 4
    for (array, kind), reference in zip(arrays, references, strict=True):
        assert reference["at"] % int(kind[1]) == 0
        assert np.array_equal(read(data, reference), array)


def test_empty_array_takes_no_space():
    blob = Blob()
    assert blob.add(np.empty((0, 3)), "f8") == {"at": 0, "type": "f8", "shape": [0, 3]}
    assert (blob.size, blob.encoded()) == (0, "")


def test_remaining_size_shrinks_with_arrays_and_texts():
    blob = Blob()
    empty = Room(5000).left(blob, {})
    assert empty == (5_700_000 - 150_000 - 2) * 3 // 4
    blob.add(np.zeros(100), "f8")
    assert Room(5000).left(blob, {}) == empty - 800
    assert Room(5000).left(blob, {"a": "x" * 93}) == empty - 800 - 75
    assert Room(1).total == Room(5000).total
    assert Room(100_000).total == 24_000_000
    blob.add(np.zeros(10_000_000), "u1")
    assert Room(5000).left(blob, {}) == 0


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(PLAIN)
@settings(max_examples=60, deadline=None)
def test_json_is_read_back_and_cannot_end_the_script_element(value):
    text = as_json(value)
    assert json.loads(text) == value
    assert not set(text) & set("<>&\u2028\u2029")
    assert text.isascii()


def test_json_of_numpy_values_and_surrogates():
    value = {"a": np.float32(0.5), 3: [np.int64(7), float("inf"), np.nan], "half \ud800": "\udfff", "t": (1, np.True_)}
    assert json.loads(as_json(value)) == {
        "a": 0.5,
        "3": [7, None, None],
        "half \ufffd": "\ufffd",
        "t": [1, True],
    }


def test_content_security_policy_allows_only_own_script_and_style():
    page = render("a\ud800" + "b" * 500, {"name": "x"}, Blob())
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)[1]
    for tag in ("script", "style"):
        text = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1]
        hashed = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{hashed}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert not re.search(r"(?:src|href)=", page.split("<script>")[0])
    title = re.search("<title>(.*)</title>", page)[1]
    assert title == "a\ufffd" + "b" * 198 + "..."


# Sizes


def test_5000_solutions_of_36_numbers_fit_without_rounding(tmp_path):
    random = np.random.default_rng(0)
    result = make_result(random.random((5000, 2)), -random.random(5000), random.random((5000, 36)))
    path = te.show.report(result, tmp_path / "a.html")
    assert path.stat().st_size < 6e6
    about, numbers = contents(path)
    assert about["solutions"]["exact"]
    assert np.array_equal(numbers(about["solutions"]["numbers"]), result.solutions)
    assert np.array_equal(numbers(about["values"][0]["numbers"]), result.fitness)


def test_long_solutions_are_rounded_and_truncated(tmp_path):
    solutions = np.random.default_rng(0).random((5000, 2000), dtype=np.float32)
    result = make_result(
        np.random.default_rng(1).random((5000, 2)), -np.ones(5000), solutions, settings={"bounds": [0, 1]}
    )
    path = te.show.report(result, tmp_path / "a.html")
    assert 5e6 < path.stat().st_size < 6e6
    about, numbers = contents(path)
    kept = numbers(about["solutions"]["numbers"])
    assert (about["solutions"]["exact"], about["solutions"]["dim"], kept.dtype) == (False, 2000, np.uint16)
    assert 250 < kept.shape[1] < 2000
    np.testing.assert_allclose(kept / 65534, solutions[:, : kept.shape[1]], atol=0.5 / 65534 + 1e-7)


@pytest.mark.parametrize("dim", [180, 700])
def test_drawings_of_long_arms_are_limited_by_size(tmp_path, dim):
    random = np.random.default_rng(0)
    arm = te.domain("arm", tasks=random.random((2000, 2)), dim=dim)
    result = make_result(arm.tasks, -random.random(2000), random.random((2000, dim)), settings={"bounds": [0, 1]})
    path = te.show.report(result, tmp_path / "a.html", domain=arm)
    assert path.stat().st_size < 6e6
    about, numbers = contents(path)
    rows = numbers(about["pictures"]["rows"])
    assert rows[:2].tolist() == [result.fitness.argmax(), result.fitness.argmin()]
    assert about["undrawn"]["full"] == (len(rows) < 2000)
    assert len(set(rows)) == len(rows) > 100


def test_long_labels_are_truncated(tmp_path):
    tasks = te.Tasks(["\U0001f600" * 300 + str(i) for i in range(5000)])
    path = te.show.report(make_result(tasks, np.arange(5000.0), np.zeros((5000, 36))), tmp_path / "a.html")
    assert path.stat().st_size < 6e6
    labels = contents(path)[0]["tasks"]["labels"]
    assert all(re.fullmatch("\U0001f600{8,}\\.\\.\\.", label) for label in labels)
    short = te.Tasks(["x" * 200, "y" * 201, "z"])
    assert put_tasks(make_result(short, np.zeros(3)), np.arange(3), Blob())["labels"] == [
        "x" * 200,
        "y" * 200 + "...",
        "z",
    ]


# Tasks


def test_16_bit_solutions_keep_bounds_and_unsolved_tasks():
    solutions = np.array([[-5.0, 2.0], [5.0, 2.0], [0.0, 2.0], [np.nan, np.nan]])
    result = make_result([[0.0], [1], [2], [3]], [1, 2, 3, np.nan], solutions, settings={"bounds": [[-5, 5], [2, 2]]})
    blob = Blob()
    about = put_solutions(result, np.arange(4), blob, room=20)
    kept = read(base64.b64decode(blob.encoded()), about["numbers"])
    assert kept.tolist() == [[0, 0], [65534, 0], [32767, 0], [65535, 65535]]
    assert not about["exact"]


def test_page_scales_distances_like_tasks():
    tasks = te.Tasks(descriptors=[[0.0, 100.0], [2.0, 500.0], [1.0, 500.0]], scale="range", names=["a", "b"])
    about = put_tasks(make_result(tasks, [1, 2, 3]), np.arange(3), Blob())
    assert (about["widths"], about["dim"], about["distance"]) == ([2.0, 400.0], 2, False)
    assert "neighbours" not in about


def test_too_many_descriptors_are_truncated():
    blob = Blob()
    about = put_tasks(make_result(np.zeros((5000, 400)), np.zeros(5000)), np.arange(5000), blob)
    assert about["dim"] == 400
    assert len(about["names"]) == len(about["widths"]) == about["descriptors"]["shape"][1] == 85
    assert blob.size < 2e6


def test_neighbours_are_ordered_by_given_distance():
    tasks = te.Tasks(["a", "bbbb", "cc"], distance=lambda a, b: abs(len(a) - len(b)))
    blob = Blob()
    about = put_tasks(make_result(tasks, [1, 2, 3]), np.arange(3), blob)
    found = read(base64.b64decode(blob.encoded()), about["neighbours"])
    assert found.tolist() == [[2, 1, -1, -1, -1, -1], [2, 0, -1, -1, -1, -1], [0, 1, -1, -1, -1, -1]]
    matrix = te.Tasks(list("abc"), distance=np.array([[0, 3, 1], [3, 0, 2], [1, 2, 0.0]]))
    blob = Blob()
    about = put_tasks(make_result(matrix, [1, 2, 3]), np.arange(3), blob)
    assert read(base64.b64decode(blob.encoded()), about["neighbours"]).tolist() == found.tolist()


def test_close_points_far_from_zero_stay_distinct():
    blob = Blob()
    seconds = 1.7e9 + np.arange(100.0)
    plane = put_plane(make_result(np.stack([seconds, seconds % 7], axis=1), np.zeros(100)), np.arange(100), blob)
    assert len(np.unique(read(base64.b64decode(blob.encoded()), plane["points"])[:, 0])) == 100


def test_tasks_without_descriptors_are_arranged_in_rows():
    blob = Blob()
    plane = put_plane(make_result(te.Tasks(list("abcde")), np.zeros(5)), np.arange(5), blob)
    points = read(base64.b64decode(blob.encoded()), plane["points"])
    low, high = np.array(plane["low"]), np.array(plane["high"])
    assert (low + points * (high - low)).round(6).tolist() == [[0, 0], [1, 0], [2, 0], [0, -1], [1, -1]]
    assert plane["low"] == pytest.approx([-0.55, -1.55])
    assert plane["high"] == pytest.approx([2.55, 0.55])


def test_sample_of_tasks_keeps_their_ids(tmp_path, monkeypatch):
    monkeypatch.setattr(page_tasks, "MOST_TASKS", 10)
    result = make_result(np.random.default_rng(0).random((30, 2)), np.arange(30.0))
    about, numbers = contents(te.show.report(result, tmp_path / "a.html"))
    ids = numbers(about["tasks"]["ids"])
    assert (about["tasks"]["number"], about["tasks"]["all"], len(set(ids))) == (10, 30, 10)
    assert numbers(about["values"][0]["numbers"]).tolist() == ids.tolist()
    assert np.array_equal(numbers(about["tasks"]["descriptors"]), result.tasks.descriptors[ids])
    assert about["tiles"][0] == ["tasks solved", "30 of 30"]


# Pictures


def rendered(show):
    """Return the pixels of a drawing, shape `(height, width, 3)`."""
    from PIL import Image

    png = render_drawing(lambda solution, task, ax: show(ax), np.zeros(3), None)
    assert png.startswith(b"\x89PNG")
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def ink(pixels):
    """Return a mask of the pixels that are not white."""
    return (pixels < 200).any(axis=-1)


DRAWINGS = {
    "lines": lambda ax: (ax.plot([0, 1, np.nan, 3], [0, 1, 2, 3], "--", label=r"$\beta$"), ax.legend()),
    "image": lambda ax: ax.imshow(np.arange(6.0).reshape(2, 3)),
    "patch with hole": lambda ax: ax.add_patch(__import__("matplotlib").patches.Annulus((0.5, 0.5), 0.4, 0.2)),
    "arrows": lambda ax: ax.quiver([0, 1], [0, 1], [1, 1], [0, 1]),
    "annotation": lambda ax: ax.annotate("here", (0, 0), (1, 1), arrowprops={}),
    "inset": lambda ax: (ax.set_axis_off(), ax.inset_axes((0.5, 0.5, 0.5, 0.5)).plot([1, 10])),
    "twin axes": lambda ax: ax.twinx().set_ylabel("a second axis"),
    "polar": lambda ax: ax.figure.add_axes((0.2, 0.2, 0.6, 0.6), projection="polar"),
    "long names": lambda ax: ax.barh(["the length of the chord", "span"], [1, 2]),
    "letters without glyph": lambda ax: ax.set_title("\U0001f600"),
    "text far outside": lambda ax: ax.text(1e6, 1e6, "far away"),
    "long title": lambda ax: (ax.plot([0, 1]), ax.set_title("a title with many words " * 6)),
    "only a title": lambda ax: ax.set_title("nothing to see", loc="left"),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_any_matplotlib_drawing_becomes_png_of_fixed_size(name):
    pixels = rendered(DRAWINGS[name])
    assert pixels.shape == (320, 360, 3)
    assert ink(pixels).sum() > 300
    # If nothing is cut off, the edge of the picture is white.
    assert not ink(pixels)[[0, -1]].any()
    assert not ink(pixels)[:, [0, -1]].any()


def test_png_keeps_colour_of_small_marker_on_image():
    def show(ax):
        random = np.random.default_rng(0)
        ax.imshow(random.random((60, 60)) + np.arange(60))
        ax.plot([10], [10], ".", color="red", markersize=8)

    off = np.abs(rendered(show) - [255, 0, 0]).max(axis=-1)
    assert (off < 10).sum() >= 9


def test_typical_drawings_have_few_kilobytes():
    def curves(ax):
        x = np.linspace(0, 10, 200)
        ax.plot(x, np.sin(x), label="angle")
        ax.plot(x, np.cos(x), label="speed")
        ax.set(xlabel="time (s)", title="a walk")
        ax.legend()

    for show, most in ((curves, 10_000), (DRAWINGS["image"], 4_000), (DRAWINGS["long names"], 4_000)):
        size = len(render_drawing(lambda solution, task, ax, show=show: show(ax), np.zeros(3), None))
        assert 1_000 < size < most


def test_drawing_stops_after_twenty_errors_without_picture():
    tried = []

    def show(solution, task, ax):
        tried.append(task)
        raise KeyError("lost")

    pictures = Pictures(np.arange(100, 130))
    pictures.draw(show, [(i, np.zeros(1), i) for i in range(30)], seconds=60, most_bytes=10**6)
    assert tried == list(range(20))
    assert pictures.trouble == (
        "draw raised KeyError on task 100: 'lost' (20 tasks were tried, and none could be drawn)"
    )
    assert pictures.failed == dict.fromkeys(range(20), "draw raised KeyError: 'lost'")
    assert pictures.put(Blob()) is None


def test_errors_of_some_drawings_keep_the_others():
    def show(solution, task, ax):
        if task % 8:
            sys.exit("x" * 1000)
        ax.plot([0, 1], [0, 1])

    pictures = Pictures(np.arange(100, 140))
    # Fourteen calls fail before the first picture, and more than twenty in total.
    rows = [(i, np.zeros(1), i) for i in [*range(1, 8), *range(9, 40), 0, 8]]
    pictures.draw(show, rows, seconds=60, most_bytes=10**6)
    assert pictures.drawn == 5
    assert set(pictures.failed) == {i for i in range(40) if i % 8}
    assert pictures.failed[1] == "draw raised SystemExit: " + "x" * 176
    assert pictures.trouble.endswith("x (35 of the 40 tasks tried could not be drawn)")


def test_size_of_error_messages_is_limited():
    def show(solution, task, ax):
        if task:
            raise ValueError("x" * 300)
        ax.plot([0, 1], [0, 1])

    pictures = Pictures(np.arange(100))
    pictures.draw(show, [(i, np.zeros(1), i) for i in range(100)], seconds=60, most_bytes=10_000)
    assert pictures.full
    assert pictures.drawn == 1
    assert 15 < len(pictures.failed) < 60


def test_empty_axes_are_reported_and_extra_figures_closed():
    import matplotlib.pyplot as plt

    kept = plt.figure()

    def show(solution, task, ax):
        _, own = plt.subplots()
        own.plot([0, 1], [0, 1])

    pictures = Pictures(np.arange(2))
    pictures.draw(show, [(0, np.zeros(1), None)], seconds=60, most_bytes=10**6)
    assert plt.get_fignums() == [kept.number]
    plt.close(kept)
    assert pictures.drawn == 0
    assert pictures.trouble == "draw put nothing on ax, the axes it is given (task 0)"


def test_rendering_error_is_attributed_to_matplotlib():
    pictures = Pictures(np.arange(1))
    show = lambda solution, task, ax: ax.set_title(r"$\nosuchthing$")  # noqa: E731
    pictures.draw(show, [(0, np.zeros(1), None)], seconds=60, most_bytes=10**6)
    assert pictures.trouble.startswith("matplotlib could not show what draw put on ax (task 0): ValueError")


def test_drawing_stops_at_time_or_size_limit():
    def show(solution, task, ax):
        ax.plot([0, 1], [0, 1])

    rows = [(i, np.zeros(1), i) for i in range(10)]
    size = len(render_drawing(show, np.zeros(1), None))
    late, small = Pictures(np.arange(10)), Pictures(np.arange(10))
    late.draw(show, rows, seconds=-1, most_bytes=10**6)
    assert (late.drawn, late.full) == (0, False)
    counts = []
    small.draw(show, rows, seconds=60, most_bytes=round(3.5 * size), tell=counts.append)
    assert (small.drawn, small.full) == (3, True)
    assert counts == [1, 2, 3]
    put = small.put(Blob())
    assert sum(map(len, put["images"])) * 3 / 4 <= 3.5 * size
    every = Pictures(np.arange(10))
    every.draw(show, rows, seconds=60, most_bytes=20 * size)
    assert (every.drawn, every.full) == (10, False)


def test_report_is_written_if_draw_many_raises(tmp_path):
    def draw(solution, task, ax=None):
        raise AssertionError

    draw.many = lambda solutions, tasks: 1 / 0
    tasks = te.Tasks(descriptors=[[0.0, 1.0], [1.0, 0.0]])
    domain = te.Domain(name="a", fitness=lambda x, t: 0.0, tasks=tasks, bounds=(0, 1), dim=3, draw=draw)
    with pytest.warns(UserWarning, match=r"drawing solutions for '.*a\.html': draw.many raised ZeroDivisionError"):
        about, _ = contents(te.show.report(make_result(tasks, [0, 1]), tmp_path / "a.html", domain=domain))
    assert about["pictures"] is None
    assert about["undrawn"]["trouble"].startswith("draw.many raised ZeroDivisionError: division by zero")


def sketch_of(points, titles=("a", "b"), **look):
    strokes = [te.show.Stroke(points=each, colour="red", **look) for each in points]
    return te.show.Sketch(strokes=strokes, limits=[[0, 1, 0, 1]] * len(titles), titles=titles)


NAN, GAP = np.nan, [-32768, -32768]


def points_of(sketch):
    return SketchData.of(sketch).points.tolist()


def test_points_of_sketch_are_integer_offsets_from_centre():
    line, dot = [[[0, 0], [1, 1]], [[0.5, 1], [0.5, 0.25]]], [[0.5, 0.5]]  # the dot is shared by both pictures
    assert points_of(sketch_of([line, dot])) == [
        [[-1024, -1024], [1024, 1024], [0, 0]],
        [[0, 1024], [0, -512], [0, 0]],
    ]
    strokes = [te.show.Stroke(points=[[5, 10]], colour="red")]
    turned = te.show.Sketch(strokes=strokes, limits=[[0, 10, 10, 0], [5, 6, 0, 20]], titles=["a", "b"])
    assert points_of(turned) == [[[0, -1024]], [[-1024, 0]]]


def test_non_finite_points_are_gaps():
    way = [[[0, 0], [NAN, 0], [1, np.inf], [0.5, 0.5], [1e308, -1e308]]]
    narrow = te.show.Sketch(
        strokes=[te.show.Stroke(points=way, colour="red")], limits=[[-1e-9, 1e-9, 0, 1e-3]], titles=["a"]
    )
    assert points_of(narrow)[0][1:3] == [GAP, GAP]
    assert points_of(narrow)[0][4] == GAP  # overflows in 64 bits
    assert points_of(sketch_of([way], titles=["a"]))[0][:4] == [[-1024, -1024], GAP, GAP, [0, 0]]


def test_points_far_outside_keep_their_direction():
    for far in ([100, 50], [-3000.5, 1e12], [1e90, 0.5]):
        ((inside, outside),) = points_of(sketch_of([[[0.5, 0.5], far]], titles=["a"]))
        assert inside == [0, 0]
        assert max(map(abs, outside)) == 32563
        given, kept = np.array(far) - 0.5, np.array(outside)
        assert kept @ given / np.linalg.norm(kept) / np.linalg.norm(given) == pytest.approx(1, abs=1e-6)
    assert points_of(sketch_of([[[16, -15]]], titles=["a"])) == [[[31744, -31744]]]


def test_pictures_of_sketch_are_written_to_page():
    line, dot = [[[0, 0], [1, 1]], [[0, 1], [1, 0]]], [[0.5, 0.5]]
    pictures, blob = Pictures(np.arange(5)), Blob()
    rows = np.array([4, 2])
    sketch = sketch_of([line, dot], titles=["four", "two"], label="way")
    many = lambda solutions, tasks: sketch if len(tasks) == 2 else sketch_of([], titles=["first"])  # noqa: E731
    assert pictures.draw_many(many, rows, lambda rows: (rows, rows), most_bytes=10**6)
    assert (pictures.drawn, pictures.full) == (2, False)
    put = pictures.put(blob)
    data = base64.b64decode(blob.encoded())
    assert read(data, put["rows"]).tolist() == [4, 2]
    assert put["sketch"]["titles"] == ["four", "two"]
    assert [(stroke["points"], stroke["label"]) for stroke in put["sketch"]["strokes"]] == [(2, "way"), (1, "way")]
    assert read(data, put["sketch"]["points"]).tolist() == points_of(sketch)
    assert read(data, put["sketch"]["limits"]).tolist() == [[0, 1, 0, 1]] * 2


def test_sketch_without_strokes_has_no_points():
    data = SketchData.of(sketch_of([]))
    assert data.points.shape == (2, 0, 2)
    assert data.titles == ["a", "b"]


def test_number_of_pictures_is_limited_by_size():
    asked = []

    def many(solutions, tasks):
        asked.append(len(tasks))
        return sketch_of([np.zeros((len(tasks), 10, 2))], titles=["t"] * len(tasks))

    pictures = Pictures(np.arange(50))
    rows = np.arange(50)[::-1]
    assert pictures.draw_many(many, rows, lambda rows: (rows, rows), most_bytes=1000)
    assert asked == [1, pictures.drawn]
    assert (10 < pictures.drawn < 20, pictures.full) == (True, True)
    blob = Blob()
    put = pictures.put(blob)
    assert read(base64.b64decode(blob.encoded()), put["rows"]).tolist() == rows[: pictures.drawn].tolist()
    assert blob.size <= 1000


def test_colours_of_sketch_keep_transparency():
    strokes = [te.show.Stroke(points=[[0, 0], [1, 1]], colour=colour) for colour in ("none", "#ff000080", "red")]
    data = SketchData.of(te.show.Sketch(strokes=strokes, limits=[[0, 1, 0, 1]], titles=["a"]))
    assert [stroke["colour"] for stroke in data.look["strokes"]] == ["#00000000", "#ff000080", "#ff0000ff"]


def test_sketch_of_lists_is_drawn_on_axes():
    from matplotlib.figure import Figure

    ax = sketch_of([[[0, 0], [1, 0.5]]]).onto(Figure().add_subplot(), 1)
    assert ax.lines[0].get_ydata().tolist() == [0, 0.5]


def test_invalid_arguments_of_sketch():
    with pytest.raises(TypeError, match="points must be an array of numbers, not of <U1"):
        te.show.Stroke(points=[["a", "b"]], colour="red")
    with pytest.raises(ValueError, match="points must be an array of numbers, but its rows differ in length"):
        te.show.Stroke(points=[[0, 1], [2]], colour="red")
    with pytest.raises(ValueError, match=r"limits must be finite.*limits\[1\] is \[0\.0, 0\.0, 0\.0, 1\.0\]"):
        te.show.Sketch(strokes=[], limits=[[0.0, 1, 0, 1], [0, 0, 0, 1]], titles=["a", "b"])


@pytest.mark.parametrize(
    ("many", "trouble"),
    [
        (lambda solutions, tasks: None, "draw.many must return a te.show.Sketch, not NoneType"),
        (lambda solutions, tasks: sketch_of([]), "draw.many must return 1 pictures, one per solution, not 2"),
        (lambda solutions, tasks: sys.exit(3), "draw.many raised SystemExit: 3"),
        (
            lambda solutions, tasks: te.show.Sketch(
                strokes=[te.show.Stroke(points=[[0, 0]], colour="rot")], limits=[[0, 1, 0, 1]], titles=["a"]
            ),
            "draw.many raised ValueError: Invalid RGBA argument: 'rot'",
        ),
    ],
)
def test_pictures_are_drawn_one_by_one_after_draw_many_failed(many, trouble):
    pictures = Pictures(np.arange(3))
    rows = np.arange(3)
    assert not pictures.draw_many(many, rows, lambda rows: (rows, rows), most_bytes=10**6)
    assert pictures.trouble == trouble
    pictures.draw(lambda x, t, ax: ax.plot([0, 1]), [(i, None, i) for i in rows], seconds=60, most_bytes=10**6)
    assert pictures.drawn == 3
    assert pictures.trouble == trouble


# Texts


def test_code_that_repeats_the_run():
    settings = {"algorithm": {"name": "random"}, "seed": 4, "bounds": [0, 1], "dim": 3, "call": "batch"}
    result = make_result([[0.0]], [1.0], settings=settings)
    assert again(result, "taskelites run arm") == {"kind": "command", "text": "taskelites run arm"}
    call = "result = te.solve(\n    fitness,\n    tasks,\n    bounds=[0, 1],\n    dim=3,\n    call='batch',\n"
    call += "    evaluations=1000,\n    seed=4,\n"
    settings["algorithm"] = about_algorithm(te.algorithms.RandomSampling())
    assert again(result, None) == {"kind": "python", "text": f"{call}    algorithm='random',\n)"}
    settings |= {
        "algorithm": about_algorithm(te.MultiTaskMapElites(variation=te.variation.SBX(eta=3))),
        "samples": 2,
        "ahead": 4,
    }
    own = "    ahead=4,\n    samples=2,\n    algorithm=te.MultiTaskMapElites(variation=te.variation.SBX(eta=3)),\n"
    assert again(result, None)["text"] == f"{call}{own})"
    assert again(make_result([[0.0]], [1.0], settings=settings | {"call": "ask/tell"}), None)["kind"] == "none"
    assert again(make_result([[0.0]], [1.0]), None) == {"kind": "none", "text": ""}


def test_settings_are_rows_and_long_values_are_truncated():
    rows = settings_rows({"a": {"b": {"c": None, "d": [1, 2]}}, "e": "x" * 3000, "f": {}, "g": 0, "h": np.float32(0.5)})
    assert rows == [["a.b.d", "[1, 2]"], ["e", "x" * 2000 + "..."], ["g", "0"], ["h", '"0.5"']]


def test_tiles_of_unsolved_and_failed_results():
    found = dict(tiles(make_result([[0.0], [1.0]], [np.nan, np.nan], optimum=np.zeros(2))))
    assert found == {
        "tasks solved": "0 of 2",
        **dict.fromkeys(["mean fitness", "median", "best", "worst"], "none"),
        "evaluations": "1,000",
    }
    found = dict(tiles(make_result([[0.0], [1.0]], [-1.0, -0.0], optimum=np.zeros(2), failed=3)))
    assert (found["best"], found["mean gap to the optimum"], found["failed evaluations"]) == ("0", "0.5", "3")


def test_failures_are_counted_and_at_most_50_shown(tmp_path):
    result = make_result([[0.0, 1.0]], [1.0], failed=60, failures={"raised": 60, "nan": 0}, infeasible=np.int64(2))
    kept = [SimpleNamespace(id=i, evaluation=2000 + i, task=0, kind="raised", message="x" * 999) for i in range(60)]
    about, _ = contents(te.show.report(result, tmp_path / "a.html", failures=kept))
    assert about["failures"]["counts"] == [["raised", 60], ["infeasible (-inf)", 2]]
    assert about["failures"]["all"] == 60
    assert about["failures"]["examples"][:1] == [["0", "2,000", "0", "raised", "x" * 500]]
    assert len(about["failures"]["examples"]) == 50


def test_invalid_arguments_raise_errors(tmp_path):
    result = make_result([[0.0, 1.0]], [1.0])
    with pytest.raises(ValueError, match=r"path must end in \.html, not 'a\.pdf'"):
        te.show.report(result, tmp_path / "a.pdf")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        te.show.report(result, tmp_path / "none" / "a.html")
    with pytest.raises(ValueError, match="result must hold at least one Result, but the list is empty"):
        te.show.report([], tmp_path / "a.html")
    other = te.Domain(name="other", fitness=lambda x, t: 0.0, tasks=[[0.0, 2.0]], bounds=(0, 1), dim=3)
    with pytest.raises(ValueError, match="domain must be a domain with the result's tasks, but 'other' has other"):
        te.show.report(result, tmp_path / "a.html", domain=other)
    with pytest.raises(TypeError, match=r"domain must be a domain, such as te\.domain or te\.Domain make, not str"):
        te.show.report(result, tmp_path / "a.html", domain="arm")
    for wrong in ("banana", -1, float("nan")):
        with pytest.raises(ValueError, match="drawing_time must be a number of seconds"):
            te.show.report(result, tmp_path / "a.html", drawing_time=wrong)
    for wrong in (3, [result, 3], "text"):
        with pytest.raises(TypeError, match="result must be a Result, a list of them or a Comparison"):
            te.show.report(wrong, tmp_path / "a.html")
    assert list(tmp_path.iterdir()) == []
    notes = tmp_path / "notes.html"
    notes.write_text("mine")
    with pytest.raises(FileExistsError, match=r"path must be a new file or a report, but .* is another file; choose"):
        te.show.report(result, notes)
    assert notes.read_text() == "mine"


# The command

COMMAND = "taskelites run arm --algorithm random --tasks 200 --evaluations 500"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a run, replicates, a comparison, and their reports."""
    folder = tmp_path_factory.mktemp("runs")
    before = os.getcwd()
    os.chdir(folder)
    try:
        arm = ["arm", "--tasks", "200", "--evaluations", "500", "--quiet"]
        run = ["run", *arm, "--algorithm", "random"]  # compiles quickly
        assert main([*run, "--seed", "3", "--out", "one"]) == 0
        assert main([*run, "--replicates", "2", "--out", "two", "--no-report"]) == 0
        compare = ["--algorithms", "random,also=random", "--replicates", "2", "--out", "both"]
        assert main(["compare", *arm, *compare]) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def folder(finished, tmp_path, monkeypatch):
    shutil.copytree(finished, tmp_path / "runs")
    monkeypatch.chdir(tmp_path / "runs")
    return tmp_path / "runs"


def test_run_and_comparison_write_reports(folder):
    about, numbers = contents(folder / "one" / "report.html")
    assert about["again"] == {"kind": "command", "text": f"{COMMAND} --seed 3"}
    assert len(numbers(about["pictures"]["rows"])) == te.load("one").solved.sum()
    about, _ = contents(folder / "both" / "report.html")
    assert (about["kind"], about["labels"]) == ("comparison", ["random", "also"])
    assert about["again"]["text"].startswith("taskelites compare arm --tasks 200 --evaluations 500 --algorithms ")
    assert not (folder / "two" / "report.html").exists()


def test_report_of_folders_and_files(folder, capsys):
    for name, kind in (("one", "run"), ("two", "comparison"), ("both", "comparison"), ("one/result.npz", "run")):
        home = folder / name.split("/")[0]
        (home / "report.html").unlink(missing_ok=True)
        assert main(["report", name]) == 0
        output = capsys.readouterr()
        assert re.fullmatch(rf"report       {home.name}/report.html \(\d\.\d MB\)\n", output.out)
        assert output.err == ""
        assert contents(home / "report.html")[0]["kind"] == kind
    assert contents(folder / "two" / "report.html")[0]["tiles"][1] == ["runs per algorithm", "2"]


@pytest.mark.filterwarnings("default")
def test_report_of_replicates_warns_of_missing_results(folder, capsys):
    (folder / "two" / "replicate-old").mkdir()
    (folder / "two" / "replicate-0" / "result.npz").unlink()
    assert main(["report", "two"]) == 0
    assert "1 of 2 runs have a result; the others are ignored" in capsys.readouterr().err
    (folder / "two" / "replicate-1" / "result.npz").unlink()
    assert main(["report", "two"]) == 2
    assert "the run in 'two' has no result yet" in capsys.readouterr().err


def test_report_with_other_path_and_without_drawings(folder, capsys):
    assert main(["report", "one", "--out", "mine.html", "--draw", "none"]) == 0
    about, _ = contents(folder / "mine.html")
    assert "pictures" not in about
    assert main(["report", "one", "--out", "mine.pdf"]) == 2
    assert capsys.readouterr().err == "taskelites: error: path must end in .html, not 'mine.pdf'\n"
    assert main(["report", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["report", "one", "--draw", "some"])
    assert "expected all, none or a time such as 30s or 5min, not 'some'" in capsys.readouterr().err


def test_repeat_command_has_raised_budget(folder):
    assert main(["resume", "one", "--evaluations", "600", "--quiet"]) == 0
    about, _ = contents(folder / "one" / "report.html")
    assert about["again"]["text"] == f"{COMMAND.replace('500', '600')} --seed 3"
    assert te.load("one").evaluations == 600


def test_report_of_python_run_has_no_drawings_and_warns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tasks, options = [[0.0, 1.0], [1.0, 0.0]], {"bounds": (0, 1), "dim": 2, "algorithm": "random"}
    te.solve(lambda x, t: -x[0], tasks, evaluations=20, out="mine", **options)
    capsys.readouterr()
    assert main(["report", "mine"]) == 0
    output = capsys.readouterr()
    assert output.err.startswith("taskelites: warning: the report has no drawings of the solutions: ")
    assert len(output.err.splitlines()) == 1
    about, _ = contents(tmp_path / "mine" / "report.html")
    assert "pictures" not in about
    assert about["again"]["kind"] == "python"
    assert "evaluations=20," in about["again"]["text"]


def test_run_succeeds_if_report_cannot_be_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules["taskelites.cli.report_command"], "write_report", refuse)
    arguments = ["run", "arm", "--tasks", "200", "--evaluations", "300", "--algorithm", "random", "--out", "here"]
    assert main([*arguments, "--quiet"]) == 0
    assert te.load("here").evaluations == 300
    assert "report       not written: could not write" in capsys.readouterr().out


def refuse(*arguments, **options):
    from taskelites.errors import StorageError

    raise StorageError(28, "could not write 'here/report.html': No space left on device")


@pytest.mark.thorough
def test_command_of_comparison_has_all_algorithms(folder):
    def command_of(place):
        return (folder / place / "command.txt").read_text().strip()

    def compare(place, *arguments):
        common = ["arm", "--tasks", "200", "--out", place, "--quiet"]
        assert main(["compare", *common, *arguments]) == 0

    first = command_of("both")
    compare("both", "--add", "--algorithms", "more=random,again=random", "--no-report")
    merged = first.replace(" --replicates 2", "").replace(" --algorithms random,also=random", "")
    assert command_of("both") == f"{merged} --algorithms random,also=random,more=random,again=random --replicates 2"
    compare("both", "--add", "--algorithms", "also=random", "--replicates", "3", "--evaluations", "500")
    text = command_of("both")
    assert text.endswith(" --algorithms random,also=random,more=random,again=random --replicates 3")
    assert contents(folder / "both" / "report.html")[0]["again"]["text"] == text
    # The command makes the whole comparison again, and repeating it changes nothing.
    assert main([*shlex.split(text)[1:], "--out", "again", "--quiet", "--no-report"]) == 0
    whole, parts = te.Comparison.load("again"), te.Comparison.load("both")
    assert whole.labels == parts.labels
    assert command_of("again") == text
    # No command is known of what was begun in Python.
    with warnings.catch_warnings(action="ignore"):
        te.compare(te.domain("arm", tasks=200), algorithms=["random"], evaluations=500, replicates=1, out="python")
    compare("python", "--add", "--algorithms", "more=random", "--no-report")
    assert not (folder / "python" / "command.txt").exists()
