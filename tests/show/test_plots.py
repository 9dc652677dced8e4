"""The data that the plots of a run draw."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgba

import taskelites as te
from taskelites import show
from taskelites.show.comparison_plots import COLOURS
from taskelites.show.history import bandit_arms, bandit_table


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


def make_result(fitness, solutions=None, history=None, **settings):
    """Return a result with the given fitness."""
    number = len(fitness)
    return te.Result(
        solutions=np.zeros((number, 3)) if solutions is None else np.array(solutions, dtype=float),
        fitness=np.array(fitness, dtype=float),
        tasks=te.Tasks(descriptors=np.arange(number, dtype=float)[:, None]),
        evaluations=number,
        task_evaluations=np.ones(number, dtype=int),
        last_improved=np.ones(number, dtype=int),
        history={name: np.array(column) for name, column in (history or {}).items()},
        settings=settings,
    )


def rows(coverage, mean, evaluations=(10, 20, 40)):
    """Return a history."""
    mean = np.array(mean, dtype=float)
    return {
        "evaluations": evaluations,
        "coverage": coverage,
        "mean": mean,
        "median": mean + 0.5,
        "q05": mean - 2,
        "q95": mean + 3,
    }


HALF = rows([0.25, 0.5, 0.5], [1, 2, 4])
FULL = rows([1, 1, 1], [1, 2, 4])


def line(axes, label):
    (found,) = (one for one in axes.lines if one.get_label() == label)
    return found


def test_curves_of_run_are_mean_median_and_band():
    axes = show.curves(make_result([1, 2], history=FULL))
    assert line(axes, "mean").get_xydata().tolist() == [[10, 1], [20, 2], [40, 4]]
    assert line(axes, "median").get_xydata().tolist() == [[10, 1.5], [20, 2.5], [40, 4.5]]
    (band,) = axes.collections
    corners = {tuple(point) for point in band.get_paths()[0].vertices.tolist()}
    assert corners == {(10, -1), (20, 0), (40, 2), (10, 4), (20, 5), (40, 7)}
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale()) == ("evaluations", "fitness", "log")
    assert axes.figure.axes == [axes]  # all tasks are solved, so there is no axis for the coverage
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["5 to 95 % of tasks", "mean", "median"]


def test_coverage_below_one_has_a_second_axis_behind_fitness():
    axes = show.curves(make_result([1, np.nan], history=HALF), xscale="linear")
    left, right = axes.figure.axes
    assert left is axes
    assert axes.get_ylabel() == "fitness of the solved tasks"
    assert right.lines[0].get_xydata().tolist() == [[10, 0.25], [20, 0.5], [40, 0.5]]
    assert right.get_ylim() == (0, 1.02)
    assert left.get_zorder() > right.get_zorder()
    assert axes.get_legend().get_texts()[-1].get_text() == "coverage (right)"
    assert axes.get_xscale() == "linear"
    assert len(show.curves(make_result([1], history=HALF), coverage=False).figure.axes) == 1
    assert len(show.curves(make_result([1], history=FULL), coverage=True).figure.axes) == 2


def test_curves_of_replicates_have_thin_lines_and_median():
    others = [FULL, rows([1, 1, 1], [3, 5, 6]), rows([1, 1], [2, 9], evaluations=(10, 30))]
    axes = show.curves([make_result([1], history=history) for history in others])
    *each, median = axes.lines
    assert [one.get_ydata().tolist() for one in each] == [[1, 2, 4], [3, 5, 6], [2, 9]]
    assert {to_hex(one.get_color()).upper() for one in each} == {COLOURS[0]}
    # A run keeps its value between logged points.
    assert median.get_xydata().tolist() == [[10, 2], [20, 2], [30, 5], [40, 6]]
    assert median.get_label() == "median of 3 runs"


def test_curves_have_one_colour_per_label():
    runs = {"a": make_result([1], history=FULL), "b": make_result([1], history=HALF)}
    axes = show.curves(runs)
    assert [(one.get_label(), to_hex(one.get_color()).upper()) for one in axes.lines] == [
        ("a", COLOURS[0]),
        ("b", COLOURS[1]),
    ]
    right = axes.figure.axes[1]
    assert [to_hex(one.get_color()).upper() for one in right.lines] == list(COLOURS[:2])
    (only,) = show.curves(runs, labels=["b"]).lines
    assert only.get_label() == "b"
    assert [one.get_label() for one in show.curves(list(runs.values()), labels=["x", "y"]).lines] == ["x", "y"]


def test_history_of_one_point_has_markers():
    axes = show.curves(make_result([1], history=rows([0.5], [1], evaluations=(64,))))
    assert line(axes, "mean").get_marker() == "o"
    assert axes.figure.axes[1].lines[0].get_marker() == "."


def test_curves_of_unsolved_results_are_drawn():
    nothing = make_result([np.nan], history=rows([0, 0, 0], [np.nan] * 3))
    show.curves(nothing).figure.draw_without_rendering()
    show.curves([nothing, nothing]).figure.draw_without_rendering()


@pytest.mark.parametrize(
    ("given", "options", "error", "message"),
    [
        ([], {}, ValueError, "result must hold at least one Result"),
        (3, {}, TypeError, "result must be a Result, a list or dict of Result, or a Comparison, not int"),
        ([3], {}, TypeError, r"result\[0\] must be a Result, not int"),
        (make_result([1]), {}, ValueError, r"must have a history, but it has none; results of te\.solve have one"),
        (make_result([1], history=FULL), {"measure": "gap"}, ValueError, "measure is for a comparison"),
        (make_result([1], history=FULL), {"labels": ["a"]}, ValueError, "labels is for several results"),
        (make_result([1], history=FULL), {"xscale": "lin"}, ValueError, "did you mean 'linear'"),
        (make_result([1], history=FULL), {"ax": 3}, TypeError, "ax must be matplotlib axes or None, not int"),
        ({"a": make_result([1], history=FULL)}, {"labels": ["b"]}, ValueError, "labels must be among a, not 'b'"),
        (
            [make_result([1], history=FULL)],
            {"labels": "ab"},
            ValueError,
            r"labels must have one entry per result \(1\), not 2",
        ),
        (
            [make_result([1], history=FULL)],
            {"colours": []},
            ValueError,
            r"colours must have one entry per result \(1\), not 0",
        ),
    ],
)
def test_invalid_arguments_of_curves(given, options, error, message):
    with pytest.raises(error, match=message):
        show.curves(given, **options)


# Tournament sizes 2 and 10, in columns in alphabetical order; the first batch is random.
BANDIT = rows([1, 1, 1, 1], [1, 2, 3, 4], evaluations=(8, 16, 24, 40)) | {
    "successes_10": [0, 0, 2, 4],
    "successes_2": [0, 4, 4, 4],
    "tried_10": [0, 0, 8, 16],
    "tried_2": [0, 8, 8, 16],
}


def test_bandit_table_per_interval_of_history():
    evaluations, arms, shares, rates = bandit_table(BANDIT)
    assert evaluations.tolist() == [8, 16, 24, 40]
    assert arms.tolist() == ["2", "10"]
    np.testing.assert_array_equal(shares, [[np.nan] * 2, [1, 0], [0, 1], [0.5, 0.5]])
    np.testing.assert_array_equal(rates, [[np.nan] * 2, [0.5, np.nan], [np.nan, 0.25], [0, 0.25]])


def test_bandit_table_with_window_sums_counts_around_each_point():
    # Windows of width 16 around the centres 4, 12, 20 and 32: 0 to 12, 4 to 20, 12 to 28, 24 to 40.
    _, _, shares, rates = bandit_table(BANDIT, window=0.4)
    tried = np.array([[4, 0], [8, 4], [4 + 2, 8 + 2], [8, 8]])
    np.testing.assert_allclose(shares, tried / tried.sum(axis=1, keepdims=True))
    successes = np.array([[2, 0], [4, 1], [2, 2 + 0.5], [0, 2]])
    np.testing.assert_allclose(rates[:, 0], successes[:, 0] / tried[:, 0])
    np.testing.assert_allclose(rates[1:, 1], successes[1:, 1] / tried[1:, 1])
    assert np.isnan(rates[0, 1])


def test_bandit_table_needs_columns_of_choices():
    assert bandit_arms(FULL) == []
    with pytest.raises(ValueError, match="history has no columns tried_"):
        bandit_table(FULL)
    with pytest.raises(ValueError, match=r"window must be a share of the run, from 0 to 1, not 1\.5"):
        bandit_table(BANDIT, window=1.5)


def test_bandit_plot_draws_shares_and_rates():
    times = np.arange(400)
    many = rows(np.ones(400), np.ones(400), evaluations=8 * (times + 1))
    many |= {"tried_2": 4 * times, "tried_10": 12 * times, "successes_2": times, "successes_10": 6 * times}
    upper, lower = show.bandit(make_result([1], history=many))
    first, second = (area.get_paths()[0].vertices for area in upper.collections)
    assert first[:, 1].max() == pytest.approx(0.25)  # of size 2
    assert second[:, 1].max() == pytest.approx(1)  # of size 10, stacked on it
    assert [one.get_label() for one in lower.lines] == ["2", "10"]
    assert lower.lines[0].get_ydata()[20] == pytest.approx(0.25)
    assert lower.lines[1].get_ydata()[20] == pytest.approx(0.5)
    assert [to_hex(area.get_facecolor()[0]).upper() for area in upper.collections] == list(COLOURS[:2])
    assert [to_hex(one.get_color()).upper() for one in lower.lines] == list(COLOURS[:2])
    assert [text.get_text() for text in upper.get_legend().get_texts()] == ["10", "2"]  # in the order of the stack
    assert (upper.get_ylim(), lower.get_xlim()) == ((0, 1), (0, 3200))
    assert lower.get_yscale() == "linear"


def test_bandit_uses_given_axes():
    _, own = plt.subplots(1, 2)
    assert list(show.bandit(make_result([1], history=BANDIT), own)) == list(own)
    with pytest.raises(ValueError, match=r"ax must be a pair of matplotlib axes, .* not Axes"):
        show.bandit(make_result([1], history=BANDIT), ax=own[0])


def test_success_rates_of_different_magnitude_have_logarithmic_axis():
    history = BANDIT | {"tried_10": [0, 0, 800, 1600], "successes_10": [0, 0, 2, 4]}
    _, lower = show.bandit(make_result([1], history=history))
    assert lower.get_yscale() == "log"


def test_bandit_draws_ways_of_auto():
    history = rows([1, 1], [1, 2], evaluations=(8, 16))
    history |= {"tried_step": [2, 6], "tried_copy": [6, 10], "successes_step": [1, 1], "successes_copy": [0, 4]}
    upper, lower = show.bandit(make_result([1], history=history))
    assert [one.get_label() for one in lower.lines] == ["copy", "step"]
    assert upper.get_legend().get_title().get_text() == "ways"


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (make_result([1], history=FULL, algorithm={"name": "cma-es"}), "; cma-es has no bandit"),
        (
            make_result(
                [1], history=FULL | {"tried_50": [1] * 3, "successes_50": [1] * 3}, algorithm={"name": "mt-map-elites"}
            ),
            "; mt-map-elites had a single choice, 50",
        ),
        (
            make_result(
                [1], history=FULL | dict.fromkeys(["tried_1", "successes_1", "tried_5", "successes_5"], [0] * 3)
            ),
            "the run ended before the first one; give it more evaluations",
        ),
        (make_result([1]), "must have a history"),
    ],
)
def test_run_without_bandit_raises_error(result, message):
    with pytest.raises(ValueError, match=message):
        show.bandit(result)


SOLUTIONS = [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [np.nan] * 3, [0.7, 0.8, 0.9]]


def test_parallel_coordinates_draw_best_solution_last():
    axes = show.parallel_coordinates(make_result([5, 7, np.nan, 6], SOLUTIONS, bounds=[0.0, 1.0]))
    lines = axes.collections[0]
    assert [segment[:, 1].tolist() for segment in lines.get_segments()] == [SOLUTIONS[0], SOLUTIONS[3], SOLUTIONS[1]]
    assert all(segment[:, 0].tolist() == [0, 1, 2] for segment in lines.get_segments())
    assert lines.get_array().tolist() == [5, 6, 7]
    assert lines.get_clim() == (5, 7)
    assert axes.get_ylim() == (0, 1)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "1", "2"]
    assert lines.get_rasterized()
    bar = axes.figure.axes[1]
    assert bar.get_ylabel() == "fitness"
    assert bar.get_ylim() == (5, 7)


def test_dimensions_with_different_bounds_are_scaled_to_them():
    solutions = [[-1.0, 50.0], [1.0, 75.0]]
    axes = show.parallel_coordinates(make_result([1, 2], solutions, bounds=[[-1, 1], [0, 100]]))
    assert [segment[:, 1].tolist() for segment in axes.collections[0].get_segments()] == [[0, 0.5], [1, 0.75]]
    assert {text.get_text() for text in axes.texts} == {"-1", "1", "0", "100"}
    assert axes.get_ylim() == (0, 1)
    ordered = show.parallel_coordinates(
        make_result([1, 2], solutions, bounds=[[-1, 1], [0, 100]]), order=[(1, "gain"), (0, "offset")]
    )
    assert [segment[:, 1].tolist() for segment in ordered.collections[0].get_segments()] == [[0.5, 0], [0.75, 1]]
    assert [tick.get_text() for tick in ordered.get_xticklabels()] == ["gain", "offset"]


def test_unknown_bounds_are_range_of_solutions():
    assert show.parallel_coordinates(make_result([5, 7, np.nan, 6], SOLUTIONS)).get_ylim() == (0.1, 0.9)


def test_one_dimension_gives_horizontal_lines():
    (segment,) = show.parallel_coordinates(make_result([1], [[0.3]], bounds=[0, 1])).collections[0].get_segments()
    assert segment[:, 1].tolist() == [0.3, 0.3]
    assert segment[0, 0] < 0 < segment[1, 0]


def test_many_lines_are_thinner_and_more_transparent():
    def style(number):
        lines = show.parallel_coordinates(make_result(np.arange(number), bounds=[0, 1])).collections[0]
        return lines.get_linewidth()[0], lines.get_alpha()

    few, many = style(10), style(2000)
    assert few == (1.5, 0.9)
    assert many == (0.35, 0.25)


def test_outliers_do_not_determine_colour_limits():
    fitness = np.append(np.linspace(0, 1, 199), -1000.0)
    axes = show.parallel_coordinates(make_result(fitness, bounds=[0, 1]))
    low, high = axes.collections[0].get_clim()
    assert -1 < low < 0.1
    assert high == 1
    fixed = show.parallel_coordinates(make_result(fitness, bounds=[0, 1]), vmin=-5, vmax=2, cbar=None)
    assert fixed.collections[0].get_clim() == (-5, 2)
    assert fixed.figure.axes == [fixed]


def test_parallel_coordinates_use_given_values_and_colour_bar_axes():
    figure, (own, bar) = plt.subplots(1, 2)
    result = make_result([5, 7, np.nan, 6], SOLUTIONS, bounds=[0, 1])
    drawn = show.parallel_coordinates(
        result,
        own,
        values=[3, 2, 9, np.inf],
        label="gap",
        cbar=bar,
        linewidth=2,
        alpha=1,
        cbar_kwargs={"ticks": [2, 3]},
    )
    assert drawn is own
    lines = own.collections[0]
    assert lines.get_array().tolist() == [2, 3]  # the third task is unsolved, the fourth has no value
    assert (lines.get_linewidth()[0], lines.get_alpha()) == (2, 1)
    assert bar.get_ylabel() == "gap"
    assert bar.get_yticks().tolist() == [2, 3]
    assert figure.axes == [own, bar]


def test_parallel_coordinates_of_unsolved_result_are_drawn():
    axes = show.parallel_coordinates(make_result([np.nan], [[np.nan] * 3]))
    axes.figure.draw_without_rendering()
    assert len(axes.collections[0].get_segments()) == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"order": [3]}, ValueError, r"order\[0\] must be a whole number of at least 0 and at most 2, not 3"),
        ({"order": "012"}, TypeError, "order must be a list of dimensions"),
        ({"values": [1]}, ValueError, r"values must have shape \(4,\), one number per task, not \(1,\)"),
        ({"cbar": True}, ValueError, "cbar must be 'auto', None for no colour bar, or matplotlib axes"),
    ],
)
def test_invalid_arguments_of_parallel_coordinates(options, error, message):
    with pytest.raises(error, match=message):
        show.parallel_coordinates(make_result([5, 7, np.nan, 6], SOLUTIONS), **options)


def test_distribution_counts_solved_tasks():
    axes = show.distribution(make_result([0, 0, 1, 3, np.nan]), bins=3)
    assert [bar.get_height() for bar in axes.patches] == [2, 1, 1]
    assert axes.patches[0].get_facecolor() == to_rgba(COLOURS[0], 0.75)
    assert [one.get_label() for one in axes.lines] == ["mean 1", "median 0.5"]
    assert [one.get_xdata()[0] for one in axes.lines] == [1, 0.5]
    assert axes.get_title() == "4 of 5 tasks solved"
    assert show.distribution(make_result([np.nan])).get_title() == "0 of 1 task solved"


def test_map_accepts_arguments_of_pyribs():
    result = te.Result(
        solutions=np.zeros((3, 1)),
        fitness=np.array([1.0, 2.0, 3.0]),
        tasks=te.Tasks(descriptors=[[0, 0], [1, 0], [0, 1]]),
        evaluations=3,
        task_evaluations=np.ones(3, dtype=int),
        last_improved=np.ones(3, dtype=int),
    )
    figure, (own, bar) = plt.subplots(1, 2)
    assert show.map(result, own, cbar=bar, cbar_kwargs={"ticks": [1, 3]}, rasterized=False) is own
    assert figure.axes == [own, bar]
    assert bar.get_yticks().tolist() == [1, 3]
    assert not own.collections[0].get_rasterized()
    assert len(show.map(result, cbar=None).figure.axes) == 1
    assert len(show.maps([result], cbar=None)[0].figure.axes) == 1
    with pytest.raises(ValueError, match="cbar must be 'auto', None for no colour bar"):
        show.map(result, cbar="right")
