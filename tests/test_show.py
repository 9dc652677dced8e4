import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.path import Path

import taskelites as te
from taskelites import show


@pytest.fixture(scope="module")
def result(small_arm):
    return te.solve(small_arm, evaluations=300)


def test_each_task_has_its_cell_in_its_colour(result):
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
    area = sum(_area(polygon) for polygon in polygons)
    width, height = np.diff(axes.get_xlim())[0], np.diff(axes.get_ylim())[0]
    assert area == pytest.approx(width * height)  # the cells fill the frame
    plt.close("all")


def _area(polygon):
    x, y = polygon.T
    return 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))


def test_cells_fill_the_frame_far_from_the_origin_and_at_any_scale():
    points = np.random.default_rng(0).random((100, 2)) * [1.0, 1e9] + [1e6, 0.0]
    width, height = np.ptp([show.maps._frame(points)], axis=1)[0]
    assert sum(_area(cell - points.mean(axis=0)) for cell in show.maps._cells(points)) == pytest.approx(width * height)


def test_axes_limits_and_values_are_taken(result):
    _, axes = plt.subplots()
    gap = result.optimum - result.fitness
    assert result.plot(ax=axes, values=gap, label="gap", vmin=0, vmax=1) is axes
    assert axes.collections[0].get_clim() == (0, 1)
    assert axes.figure.axes[1].get_ylabel() == "gap"
    plt.close("all")


def test_duplicates_and_few_tasks_are_drawn():
    tasks = te.Tasks(descriptors=[[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    result = te.solve(lambda x, t: x[0], tasks, bounds=(0, 1), dim=1, evaluations=20)
    assert len(show.map(result).collections[0].get_paths()) == 3
    plt.close("all")


def test_other_numbers_of_descriptors_are_refused(line_tasks):
    result = te.solve(lambda x, t: x[0], line_tasks, bounds=(0, 1), dim=1, evaluations=20)
    with pytest.raises(ValueError, match="the map is drawn for tasks with two descriptors, and these have 1"):
        result.plot()
    with pytest.raises(ValueError, match="and these have none"):
        te.solve(lambda x, t: x[0], te.Tasks(list("ab"), distance=1 - np.eye(2)), bounds=(0, 1), dim=1,
                 evaluations=20).plot()  # fmt: skip
