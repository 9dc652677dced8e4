import copy
from dataclasses import FrozenInstanceError, replace

import cloudpickle
import numpy as np
import pytest
from scipy.spatial import KDTree

import taskelites as te


def test_tasks_have_descriptors_or_objects_or_both():
    points = np.array([[0.0, 1.0], [2.0, 3.0]])
    assert te.Tasks(descriptors=points).pick(np.array([1])).tolist() == [[2.0, 3.0]]
    assert te.Tasks(["a", "b"]).pick(np.array([1, 1, 0])) == ["b", "b", "a"]
    both = te.Tasks(["a", "b"], descriptors=points)
    assert both.pick(np.array([0])) == ["a"]
    assert both.neighbours.tolist() == [[0, 1], [1, 0]]
    assert te.Tasks(points).descriptors.tolist() == points.tolist()


def test_descriptors_are_a_read_only_copy():
    points = np.random.default_rng(0).random((10, 2))
    tasks = te.Tasks(descriptors=points)
    points[:] = 0
    assert tasks.descriptors.max() > 0
    with pytest.raises(ValueError, match="read-only"):
        tasks.descriptors[0] = 1


def test_neighbours_are_sorted_by_distance():
    points = np.random.default_rng(0).random((300, 3))
    neighbours = te.Tasks(descriptors=points).neighbours
    expected = np.argsort(np.linalg.norm(points[:, None] - points[None], axis=-1), axis=1, kind="stable")
    assert np.array_equal(neighbours, expected)


def test_distance_function_is_called_once_per_ordered_pair():
    calls = []

    def distance(a, b):
        calls.append((a, b))
        return abs(len(a) - len(b))

    words = ["a", "bb", "cccc", "dd"]
    tasks = te.Tasks(words, distance=distance)
    assert tasks.neighbours.tolist() == [[0, 1, 3, 2], [1, 3, 0, 2], [2, 1, 3, 0], [3, 1, 0, 2]]
    assert tasks.neighbours.shape == (4, 4)
    assert sorted(calls) == sorted((a, b) for a in words for b in words if a != b)


def test_distance_matrix_may_be_asymmetric():
    matrix = np.array([[0, 1, 2], [5, 0, 1], [1, 2, 0]])
    tasks = te.Tasks("xyz"[i] for i in range(3))
    assert not tasks.has_distance
    tasks = te.Tasks(list("xyz"), distance=matrix)
    assert tasks.neighbours.tolist() == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]


def test_scale_changes_positions_but_not_descriptors():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1000.0]])
    assert te.Tasks(descriptors=points).neighbours[0].tolist() == [0, 1, 2]
    scaled = te.Tasks(descriptors=points * [1, 1], scale="range")
    assert scaled.positions.tolist() == [[0, 0], [1, 0], [0, 1]]
    assert scaled.descriptors.tolist() == points.tolist()


def test_cvt_is_evenly_spaced_seeded_and_within_bounds():
    lower, upper = [0, -5], [1, 5]
    tasks = te.tasks.cvt(400, lower, upper, seed=3)
    points = tasks.descriptors
    assert ((points > lower) & (points < upper)).all()
    assert np.array_equal(points, te.tasks.cvt(400, lower, upper, seed=3).descriptors)
    assert not np.array_equal(points, te.tasks.cvt(400, lower, upper, seed=4).descriptors)

    def least_spacing(points):
        unit = (points - lower) / np.subtract(upper, lower)
        return KDTree(unit).query(unit, k=2)[0][:, 1].min()

    assert least_spacing(points) > 3 * least_spacing(te.tasks.uniform(400, lower, upper, seed=3).descriptors)


def test_grid_and_uniform():
    grid = te.tasks.grid((2, 3), [0, 0], [2, 3], names=["a", "b"])
    assert grid.descriptors.tolist() == [[0.5, 0.5], [0.5, 1.5], [0.5, 2.5], [1.5, 0.5], [1.5, 1.5], [1.5, 2.5]]
    assert grid.names == ("a", "b")
    uniform = te.tasks.uniform(1000, [1], [2], seed=0).descriptors
    assert abs(uniform.mean() - 1.5) < 0.05
    assert 1 <= uniform.min() < uniform.max() <= 2


def test_tasks_are_read_from_files(tmp_path):
    points = np.array([[0.5, 1.0], [2.0, -3.0]])
    np.save(tmp_path / "tasks.npy", points)
    assert te.tasks.read(tmp_path / "tasks.npy").descriptors.tolist() == points.tolist()
    (tmp_path / "tasks.csv").write_text("0.5,1.0\n2.0,-3.0\n")
    assert te.tasks.read(tmp_path / "tasks.csv").descriptors.tolist() == points.tolist()
    (tmp_path / "named.csv").write_text("load, speed\n0.5,1.0\n\n2.0,-3.0\n")
    named = te.tasks.read(str(tmp_path / "named.csv"))
    assert named.names == ("load", "speed")
    assert named.descriptors.tolist() == points.tolist()


def test_invalid_number_in_first_line_is_not_a_header(tmp_path):
    (tmp_path / "typo.csv").write_text("0.5,x\n2.0,-3.0\n")
    with pytest.raises(ValueError, match=r"typo.csv', line 1: expected 2 numbers, not '0.5,x'"):
        te.tasks.read(tmp_path / "typo.csv")
    (tmp_path / "latin.csv").write_bytes(b"a,\xe9\n1,2\n")
    with pytest.raises(ValueError, match=r"latin.csv' is not a readable .csv file: 'utf-8' codec"):
        te.tasks.read(tmp_path / "latin.csv")


def test_dataframe_gives_descriptors():
    import pandas as pd

    frame = pd.DataFrame({"load": [0.1, 0.2], "speed": [1.0, 2.0]})
    assert te.Tasks(frame).descriptors.tolist() == [[0.1, 1.0], [0.2, 2.0]]


def test_digest_depends_on_descriptors():
    points = np.random.default_rng(0).random((10, 2))
    assert te.Tasks(descriptors=points).digest == te.Tasks(descriptors=points.copy()).digest
    assert te.Tasks(descriptors=points).digest != te.Tasks(descriptors=points.reshape(5, 4)).digest
    assert te.Tasks(list("ab")).digest == ""


def sphere(x, t):
    return -np.abs(x - t[:, :1]).sum(axis=1)


@pytest.mark.thorough
def test_few_tasks_and_unequal_ranges_give_one_warning_each():
    points = np.random.default_rng(0).random((50, 2)) * [1, 100]
    with pytest.warns(te.errors.TaskWarning) as caught:
        te.solve(sphere, points, bounds=(0, 1), dim=2, call="batch", evaluations=10, replicates=2)
    texts = [str(item.message) for item in caught]
    assert len(texts) == 2
    assert texts[0].startswith("50 tasks are few for many-task search")
    assert "differ by a factor of" in texts[1]
    assert "scale='range'" in texts[1]
    assert caught[0].filename == __file__


@pytest.mark.thorough
def test_many_scaled_tasks_give_no_warning(recwarn):
    points = te.Tasks(descriptors=np.random.default_rng(0).random((200, 2)) * [1, 100], scale="range")
    te.solve(sphere, points, bounds=(0, 1), dim=2, call="batch", evaluations=10)
    assert len(recwarn) == 0


# The optimum of a domain.


def line(**options):
    return te.Domain(name="line", fitness=lambda x, t: 0.0, tasks=np.zeros((3, 1)), bounds=(0, 1), dim=1, **options)


def counted_function(values):
    calls = []
    return (lambda: calls.append(1) or values), calls


def test_optimum_function_is_called_once_when_first_read():
    values = np.arange(3.0)
    function, calls = counted_function(values)
    domain = line(optimum=function)
    other = line(optimum=function)
    assert not calls
    assert getattr(domain, "optimum", None) is values
    assert domain.optimum is values
    assert len(calls) == 1
    assert other.optimum is values
    assert len(calls) == 2


def test_optimum_may_be_values_or_none():
    values = np.arange(3.0)
    assert line(optimum=values).optimum is values
    assert line(optimum=1.5).optimum == 1.5
    assert line().optimum is None
    assert hasattr(line(), "optimum")
    with pytest.raises(FrozenInstanceError):
        line().optimum = values


def test_replace_copy_and_repr_of_domain_with_optimum():
    function, calls = counted_function(np.arange(3.0))
    domain = line(optimum=function)
    assert replace(domain, tasks=np.zeros((2, 1)), optimum=None).optimum is None
    assert replace(domain, optimum=lambda: 2.0).optimum == 2.0
    assert not calls
    assert copy.copy(domain).optimum.tolist() == [0, 1, 2]
    assert replace(domain, name="other").optimum.tolist() == [0, 1, 2]
    assert "optimum=array([0., 1., 2.])" in repr(domain)
    assert "optimum=None" in repr(line())


@pytest.mark.parametrize("read", [False, True])
def test_pickled_domain_keeps_optimum(read):
    values = np.arange(3.0)
    domain = line(optimum=lambda: values)
    if read:
        assert hasattr(domain, "optimum")
    assert cloudpickle.loads(cloudpickle.dumps(domain)).optimum.tolist() == [0, 1, 2]
    assert cloudpickle.loads(cloudpickle.dumps(line(optimum=values))).optimum.tolist() == [0, 1, 2]
    assert cloudpickle.loads(cloudpickle.dumps(line())).optimum is None
