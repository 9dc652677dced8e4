from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.path import Path

import taskelites as te
from taskelites import show
from taskelites.show import projection as plane


@pytest.fixture(scope="module")
def result(small_arm):
    return te.solve(small_arm, evaluations=300)


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


def make_result(descriptors, fitness, **kwargs):
    """Return a result with the given descriptors and fitness."""
    number = len(descriptors)
    return te.Result(
        solutions=np.zeros((number, 1)),
        fitness=np.array(fitness, dtype=float),
        tasks=te.Tasks(descriptors=descriptors, **kwargs),
        evaluations=number,
        task_evaluations=np.ones(number, dtype=int),
        last_improved=np.ones(number, dtype=int),
    )


@pytest.fixture
def wide():
    """A result with six descriptors of different spread, the first the widest; every fifth task is unsolved."""
    descriptors = np.random.default_rng(1).normal(size=(60, 6)) * [3, 1, 2, 0.1, 0.1, 0.1] + 7
    return make_result(descriptors, np.where(np.arange(60) % 5, descriptors[:, 1], np.nan), names=list("abcdef"))


def test_map_has_one_coloured_cell_per_task(result):
    axes = show.map(result)
    (cells,) = axes.collections
    polygons = [path.vertices for path in cells.get_paths()]
    points = result.tasks.descriptors
    assert len(polygons) == len(points)
    assert all(Path(polygon).contains_point(point) for polygon, point in zip(polygons, points, strict=True))
    colours = cells.get_array()
    assert np.array_equal(colours.mask, ~result.solved)
    assert np.array_equal(colours.compressed(), result.fitness[result.solved].astype(float))
    assert axes.get_xlabel() == "alpha_max"
    area = sum(polygon_area(polygon) for polygon in polygons)
    width, height = np.diff(axes.get_xlim())[0], np.diff(axes.get_ylim())[0]
    assert area == pytest.approx(width * height)  # the cells fill the axes


def polygon_area(polygon):
    x, y = polygon.T
    return 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))


def test_cells_fill_axes_far_from_origin_and_at_any_scale():
    points = np.random.default_rng(0).random((100, 2)) * [1.0, 1e9] + [1e6, 0.0]
    width, height = np.subtract(*plane.frame(points, plane.half_a_cell(points))[::-1])
    assert sum(polygon_area(cell - points.mean(axis=0)) for cell in plane.cells(points)) == pytest.approx(
        width * height
    )


def test_map_uses_given_axes_limits_and_values(result):
    _, axes = plt.subplots()
    gap = result.optimum - result.fitness
    assert result.plot(ax=axes, values=gap, label="gap", vmin=0, vmax=1) is axes
    assert axes.collections[0].get_clim() == (0, 1)
    assert axes.figure.axes[1].get_ylabel() == "gap"


def test_map_draws_duplicates_and_few_tasks():
    tasks = te.Tasks(descriptors=[[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    result = te.solve(lambda x, t: x[0], tasks, bounds=(0, 1), dim=1, evaluations=20)
    assert len(show.map(result).collections[0].get_paths()) == 3


def test_map_can_swap_two_descriptors(result):
    axes = show.map(result, axes=("length", 0))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("length", "alpha_max")
    polygons = [path.vertices for path in axes.collections[0].get_paths()]
    points = result.tasks.descriptors[:, ::-1]
    assert all(Path(polygon).contains_point(point) for polygon, point in zip(polygons, points, strict=True))


def test_map_without_colour_bar(result):
    assert len(show.map(result, colorbar=False).figure.axes) == 1


def test_map_projects_many_descriptors_on_principal_components(wide):
    axes = show.map(wide)
    coloured, grey = axes.collections
    descriptors, solved = wide.tasks.descriptors, wide.solved
    left, singular, _ = np.linalg.svd(descriptors - descriptors.mean(axis=0), full_matrices=False)
    expected = (left * singular)[:, :2]
    expected *= np.sign((expected * plane.principal_components(descriptors)[0]).sum(axis=0))
    np.testing.assert_allclose(coloured.get_offsets(), expected[solved], atol=1e-12)
    np.testing.assert_allclose(grey.get_offsets(), expected[~solved], atol=1e-12)
    assert np.array_equal(coloured.get_array(), wide.fitness[solved])
    percent = 100 * singular**2 / (singular**2).sum()
    assert axes.get_xlabel() == f"principal component 1 ({percent[0]:.0f} % of the variance)"
    assert axes.get_ylabel() == f"principal component 2 ({percent[1]:.0f} % of the variance)"


def test_unsolved_tasks_are_grey_points_in_the_background(wide):
    axes = show.map(wide)
    coloured, grey = axes.collections
    assert grey.get_facecolor().tolist() == [[0.7, 0.7, 0.7, 1.0]]
    assert grey.get_zorder() < coloured.get_zorder()
    assert axes.figure.axes[1].get_xlabel() == "grey:\nunsolved"
    axes = show.map(wide, values=np.arange(60), label="number")
    assert len(axes.collections) == 1
    assert axes.figure.axes[1].get_xlabel() == ""


def test_principal_components_use_scale_of_tasks():
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1000) for z in (0, 1)])[:6]
    first = show.map(make_result(corners, np.zeros(6))).get_xlabel()
    assert first == "principal component 1 (100 % of the variance)"
    scaled = show.map(make_result(corners, np.zeros(6), scale="range"))
    expected, shares = plane.principal_components(corners / [1, 1000, 1])
    np.testing.assert_allclose(scaled.collections[0].get_offsets(), expected)
    assert scaled.get_xlabel() == f"principal component 1 ({100 * shares[0]:.0f} % of the variance)"
    assert shares[0] < 0.6


def test_largest_loading_is_positive():
    positions = np.outer(np.arange(4.0), [1, -2, 0]) + np.outer([1, -1, -1, 1], [0, 0, -0.5])
    for turned in (positions, -positions):
        components, shares = plane.principal_components(turned)
        # The second descriptor has the largest loading of component 1, and the third the only one of component 2.
        assert np.all(np.diff(components[:, 0]) * np.diff(turned[:, 1]) > 0)
        np.testing.assert_allclose(components[:, 1], turned[:, 2], atol=1e-12)
        np.testing.assert_allclose(shares, [25 / 26, 1 / 26])


@pytest.mark.parametrize("number", [1, 3])
def test_tasks_without_variance_are_drawn_at_origin(number):
    axes = show.map(make_result(np.full((number, 3), 0.1), np.zeros(number)))
    assert np.array_equal(axes.collections[0].get_offsets(), np.zeros((number, 2)))
    assert axes.get_xlabel() == "principal component 1 (0 % of the variance)"
    assert axes.get_xlim() == pytest.approx((-0.05, 0.05))


@pytest.mark.parametrize("axes", [("c", "a"), (2, 0), ["c", 0]])
def test_axes_chooses_two_descriptors(wide, axes):
    drawn = wide.plot(axes=axes)
    assert (drawn.get_xlabel(), drawn.get_ylabel()) == ("c", "a")
    coloured, grey = drawn.collections
    points = wide.tasks.descriptors[:, [2, 0]]
    assert np.array_equal(coloured.get_offsets(), points[wide.solved])
    assert np.array_equal(grey.get_offsets(), points[~wide.solved])


def test_one_descriptor_is_plotted_against_fitness():
    result = make_result([[1.0], [2.0], [3.0]], [5.0, np.nan, 6.0], names=["load"])
    axes = show.map(result)
    coloured, grey = axes.collections
    assert coloured.get_offsets().tolist() == [[1, 5], [3, 6]]
    assert coloured.get_array().tolist() == [5, 6]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("load", "fitness")
    # An unsolved task has no fitness, so it is drawn at the bottom, below all others.
    axes.figure.draw_without_rendering()
    x, y = axes.transData.inverted().transform(grey.get_offset_transform().transform(grey.get_offsets()))[0]
    assert x == pytest.approx(2)
    assert axes.get_ylim()[0] < y < 5


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_map_of_unsolved_result_is_drawn(dim):
    axes = show.map(make_result(np.random.default_rng(0).random((5, dim)), np.full(5, np.nan)))
    axes.figure.draw_without_rendering()


def test_maps_share_colour_limits_and_colour_bar(result, small_arm):
    later = te.solve(small_arm, evaluations=900)
    drawn = show.maps({"early": result, "late": later})
    assert [axes.get_title() for axes in drawn] == ["early", "late"]
    known = np.concatenate([result.fitness[result.solved], later.fitness[later.solved]]).astype(float)
    assert [axes.collections[0].get_clim() for axes in drawn] == [(known.min(), known.max())] * 2
    (figure,) = {axes.figure for axes in drawn}
    assert len(figure.axes) == 3
    assert figure.axes[2].get_ylabel() == "fitness"
    assert [axes.get_ylabel() for axes in drawn] == ["length", ""]  # shared y-axis label, since the tasks are the same
    for axes, own in zip(drawn, (result, later), strict=True):
        assert np.array_equal(axes.collections[0].get_array().compressed(), own.fitness[own.solved].astype(float))


def test_maps_use_given_axes_limits_values_and_titles(result):
    figure, axs = plt.subplots(1, 2)
    gap = result.optimum - result.fitness
    drawn = show.maps([result, result], axs=axs, values=[gap, 2 * gap], titles=["one", "two"], label="gap", vmin=0)
    assert drawn == list(axs)
    assert [axes.get_title() for axes in drawn] == ["one", "two"]
    assert [axes.get_ylabel() for axes in drawn] == ["length"] * 2  # given axes may be anywhere, so each has its label
    assert {axes.collections[0].get_clim() for axes in drawn} == {(0, 2 * np.nanmax(gap).astype(float))}
    assert figure.axes[2].get_ylabel() == "gap"
    (alone,) = show.maps([result], colorbar=False, vmin=-1, vmax=1)
    assert alone.collections[0].get_clim() == (-1, 1)
    assert len(alone.figure.axes) == 1


def test_maps_of_one_descriptor_share_y_limits():
    low, high = (make_result([[0.0], [1.0]], fitness) for fitness in ([0, 1], [9, 10]))
    first, second = show.maps([low, high])
    assert first.get_ylim() == second.get_ylim()
    assert first.get_ylim()[0] < 0
    assert first.get_ylim()[1] > 10


def test_maps_of_many_descriptors_wrap_labels_and_accept_axes(wide):
    first, second = show.maps([wide, wide])
    assert first.get_xlabel().startswith("principal component 1\n(")
    assert np.array_equal(first.collections[0].get_offsets(), second.collections[0].get_offsets())
    assert [axes.get_xlabel() for axes in show.maps([wide, wide], axes=("c", 0))] == ["c", "c"]


@pytest.mark.parametrize(("number", "rows", "columns"), [(1, 1, 1), (4, 1, 4), (5, 2, 3), (9, 3, 3)])
def test_maps_are_in_rows_of_at_most_four(wide, number, rows, columns):
    drawn = show.maps([wide] * number)
    assert drawn[0].get_gridspec().get_geometry() == (rows, columns)
    assert [bool(axes.get_ylabel()) for axes in drawn] == [i % columns == 0 for i in range(number)]


def test_maps_of_unsolved_results_are_drawn(wide):
    nothing = replace(wide, fitness=np.full(60, np.nan))
    show.maps([nothing, nothing])[0].figure.draw_without_rendering()
    with_one = show.maps([nothing, wide])
    assert with_one[0].collections[0].get_clim() == with_one[1].collections[0].get_clim()


def test_tasks_without_descriptors_raise_error(wide):
    result = replace(wide, tasks=te.Tasks(list(range(60)), distance=1 - np.eye(60)))
    message = r"must have descriptors .*, but they have none; add them with te.Tasks\(objects, descriptors=...\)"
    with pytest.raises(ValueError, match=message):
        result.plot()
    with pytest.raises(ValueError, match=message):
        show.maps([wide, result])


@pytest.mark.parametrize(
    ("axes", "error", "message"),
    [
        ("ab", ValueError, "axes must be two descriptors, by name or column number, not 'ab'"),
        (["a"], ValueError, r"axes must be two descriptors, .* not \['a'\]"),
        (3, ValueError, "axes must be two descriptors, .* not 3"),
        (("a", "g"), ValueError, r"axes\[1\] must be one of 'a', 'b', .* not 'g'"),
        ((6, 0), ValueError, r"axes\[0\] must be a whole number of at least 0 and at most 5, not 6"),
        ((0.5, 0), TypeError, r"axes\[0\] must be a whole number of at least 0 and at most 5, not 0.5"),
        (("b", 1), ValueError, "axes must be two different descriptors, not 'b' twice"),
    ],
)
def test_axes_must_be_two_descriptors(wide, axes, error, message):
    with pytest.raises(error, match=message):
        show.map(wide, axes=axes)


def test_invalid_arguments_of_map(wide):
    with pytest.raises(ValueError, match="axes must be left out for these tasks, which have only 1 descriptor"):
        show.map(make_result([[0.0], [1.0]], [0, 1]), axes=(0, 1))
    with pytest.raises(ValueError, match=r"values must have shape \(60,\), one number per task, not \(3,\)"):
        show.map(wide, values=[1, 2, 3])
    with pytest.raises(TypeError, match=r"result must be a Result, not list; use show.maps for several"):
        show.map([wide, wide])
    assert plt.get_fignums() == []  # raised before a figure is opened


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"titles": ["one"]}, ValueError, r"titles must be a list with one title per result \(2\), but it has 1"),
        ({"titles": "ab"}, TypeError, r"titles must be a list with one title per result \(2\), not str"),
        ({"values": [[1]] * 3}, ValueError, "values must be a list with one array per result .* but it has 3"),
        ({"values": [[1]] * 2}, ValueError, r"values\[0\] must have shape \(60,\), one number per task"),
        ({"axs": []}, ValueError, r"axs must hold one matplotlib axes per result \(2\), not 0 of nothing"),
        ({"axs": [1, 2]}, ValueError, "axs must hold one matplotlib axes per result .* not 2 of int"),
    ],
)
def test_arguments_of_maps_have_one_entry_per_result(wide, arguments, error, message):
    with pytest.raises(error, match=message):
        show.maps([wide, wide], **arguments)
    assert plt.get_fignums() == []


def test_invalid_results_of_maps(wide):
    with pytest.raises(TypeError, match=r"results must be a list of Result .* not Result; use show.map for a single"):
        show.maps(wide)
    with pytest.raises(ValueError, match="results must hold at least one Result, but it is empty"):
        show.maps([])
    with pytest.raises(TypeError, match=r"results\[1\] must be a Result, not int"):
        show.maps([wide, 3])
    with pytest.raises(ValueError, match="titles must be left out if results is a dict"):
        show.maps({"one": wide}, titles=["two"])


def test_axes_of_two_figures_cannot_share_a_colour_bar(wide):
    axs = [plt.subplots()[1], plt.subplots()[1]]
    with pytest.raises(ValueError, match=r"axs must belong to one figure, .* use cbar=None"):
        show.maps([wide, wide], axs=axs)
    assert show.maps([wide, wide], axs=axs, cbar=None) == axs
