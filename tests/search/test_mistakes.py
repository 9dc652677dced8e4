"""Error messages of invalid arguments: one line with the argument, what was expected, what was given, what to do."""

import re

import numpy as np
import pytest

import taskelites as te

TASKS = np.linspace(0, 1, 250)[:, None]
NAN_TASKS = np.array([[0.0, 1.0], [2.0, np.nan]])


def ok(solution, task):
    return 0.0


def solve(fitness=ok, tasks=TASKS, **options):
    options = {"bounds": (0, 1), "dim": 2, "evaluations": 20 if options.get("call") is None else 100} | options
    return te.solve(fitness, tasks, **options)


def raises(solution, task):
    raise RuntimeError("no simulator")


def one_argument(solution):
    return 0.0


def jax_if(solution, task):
    return solution[0] if solution[0] > 0 else 0.0


RESULT = te.Optimizer(TASKS, bounds=(0, 1), dim=2).result()
OPTIMIZER = te.Optimizer(TASKS, bounds=(0, 1), dim=2)


def tell(values):
    optimizer = te.Optimizer(TASKS, bounds=(0, 1), dim=2)
    optimizer.tell(optimizer.ask(), values)


def ask_twice():
    optimizer = te.Optimizer(TASKS, bounds=(0, 1), dim=2)
    optimizer.ask()
    optimizer.ask()


def tell_twice():
    optimizer = te.Optimizer(TASKS, bounds=(0, 1), dim=2)
    candidates = optimizer.ask()
    optimizer.tell(candidates, np.zeros(64))
    optimizer.tell(candidates, np.zeros(64))


MISTAKES = [
    # tasks
    (lambda: solve(tasks=np.empty((0, 2))), "tasks must contain at least one task, but the list is empty"),
    (lambda: solve(tasks=[]), "descriptors must have shape (n, k), one row per task, not (0,)"),
    (lambda: te.Tasks([]), "tasks must contain at least one task, but the list is empty"),
    (lambda: solve(tasks=np.zeros(9)), "descriptors must have shape (n, k), one row per task, not (9,)"),
    (lambda: solve(tasks=NAN_TASKS), "descriptors must be finite, but descriptors[1, 1] is nan"),
    (
        lambda: solve(tasks=["a", "b"]),
        "tasks must be an array of descriptors of shape (n, k), not a list of str; te.Tasks(objects) takes a list of any "
        "objects",
    ),
    (lambda: solve(tasks=7), "tasks must be an array of descriptors, te.Tasks or te.Box, not int"),
    (lambda: te.Tasks(7), "tasks must be an array of descriptors or a list of objects, not int"),
    (lambda: te.Tasks(), "tasks must have objects or descriptors, but both are missing; give one of them"),
    (
        lambda: te.Tasks(["a", "b"], descriptors=[[1], [2], [3]]),
        "descriptors must have one row per object, so 2 rows, not 3",
    ),
    (
        lambda: te.Tasks(["a"], descriptors=[["x"]]),
        "descriptors must be an array of numbers of shape (n, k), one row per task, not list",
    ),
    (lambda: te.Tasks(["a", "b"], distance=np.eye(3)), "distance must have shape (2, 2), not (3, 3)"),
    (
        lambda: te.Tasks(["a", "b"], distance=[[0, -1], [1, 0]]),
        "distance must not be negative, but distance[0, 1] is -1.0",
    ),
    (
        lambda: te.Tasks(["a", "b"], distance=[[0, np.nan], [1, 0]]),
        "distance must be finite, but distance[0, 1] is nan",
    ),
    (
        lambda: solve(tasks=te.Tasks(["a", "b"], distance=lambda a, b: -1)),
        "distance must return a finite number of at least 0, but it returned -1.0 for tasks 0 and 1",
    ),
    (
        lambda: solve(tasks=te.Tasks(["a", "b"], distance=lambda a, b: float("nan"))),
        "distance must return a finite number of at least 0, but it returned nan for tasks 0 and 1",
    ),
    (
        lambda: solve(tasks=te.Tasks(["a", "b"], distance=lambda a, b: "far")),
        "distance must return a number, but it returned 'far' for tasks 0 and 1",
    ),
    (
        lambda: te.Tasks(range(5001), distance=lambda a, b: abs(a - b)),
        "distance must not be a function for more than 5,000 tasks, since it would be called 25,010,001 times for 5,001 "
        "tasks; give descriptors instead",
    ),
    (
        lambda: te.Tasks(["a"], scale="range"),
        "scale must be None for tasks without descriptors, not 'range'; give descriptors",
    ),
    (lambda: te.Tasks(TASKS, scale="rank"), "scale must be one of 'range', not 'rank'; did you mean 'range'?"),
    (lambda: te.Tasks(TASKS, names=["a", "b"]), "names must contain 1 names, one per descriptor, not ['a', 'b']"),
    (lambda: te.Box([0, 1], [1, 1]), "lower must be below upper, but lower[1] is 1.0 and upper[1] is 1.0"),
    (lambda: te.tasks.cvt(0, [0], [1]), "number must be a whole number of at least 1, not 0"),
    (lambda: te.tasks.cvt(10, [0, 0], [1]), "lower and upper must have the same length of at least 1, not 2 and 1"),
    (
        lambda: te.tasks.grid((3,), [0, 0], [1, 1]),
        "shape must contain 2 numbers of cells, one per descriptor, not (3,)",
    ),
    (lambda: te.tasks.read("nowhere.csv"), "there is no task file 'nowhere.csv'"),
    (
        lambda: te.tasks.read("tasks.txt"),
        "the extension of the task file must be one of '.csv', '.npy', not '.txt'",
    ),
    # bounds and dim
    (
        lambda: solve(bounds=(0, 1), dim=None),
        "dim is missing: bounds is one pair for all dimensions, so dim must say how many there are",
    ),
    (lambda: solve(bounds=(1, 0)), "bounds must have lower below upper, but dimension 0 has (1.0, 0.0)"),
    (lambda: solve(bounds=(0, np.nan)), "bounds must be finite, but bounds[0, 1] is nan"),
    (lambda: solve(bounds=(0, np.inf)), "bounds must be finite, but bounds[0, 1] is inf"),
    (
        lambda: solve(bounds=[(0, 1), (2, 2)]),
        "bounds must have lower below upper, but dimension 1 has (2.0, 2.0)",
    ),
    (
        lambda: solve(bounds=[(0, 1), (0, 1)], dim=3),
        "bounds has 2 pairs, but dim is 3; leave dim out, or make them agree",
    ),
    (
        lambda: solve(bounds=[0, 1, 2]),
        "bounds must be a pair (lower, upper), or one pair for each dimension, not an array of shape (3,)",
    ),
    (
        lambda: solve(bounds="unit"),
        "bounds must be a pair (lower, upper), or one pair for each dimension, not 'unit'",
    ),
    (lambda: solve(dim=0), "dim must be a whole number of at least 1, not 0"),
    (lambda: solve(dim=2.5), "dim must be a whole number of at least 1, not 2.5"),
    (
        lambda: te.solve(ok, TASKS, evaluations=10),
        "bounds must be given with a fitness function (only a domain has its own)",
    ),
    # the budget and other numbers
    (lambda: solve(evaluations=0), "evaluations must be a whole number of at least 1 and at most 2,147,483,647, not 0"),
    (
        lambda: solve(evaluations="1e6"),
        "evaluations must be a whole number of at least 1 and at most 2,147,483,647, not '1e6'",
    ),
    (
        lambda: solve(evaluations=10**10),
        "evaluations must be a whole number of at least 1 and at most 2,147,483,647, not 10000000000",
    ),
    (lambda: solve(batch_size=0), "batch_size must be a whole number of at least 1 and at most 16,777,216, not 0"),
    (lambda: solve(seed=-1), "seed must be a whole number of at least 0 and at most 4,294,967,295, not -1"),
    (lambda: solve(seed=None), "seed must be a whole number of at least 0 and at most 4,294,967,295, not None"),
    (lambda: solve(replicates=0), "replicates must be a whole number of at least 1, not 0"),
    (lambda: solve(replicates=True), "replicates must be a whole number of at least 1, not True"),
    # the algorithm
    (
        lambda: solve(algorithm="mt-map-elite"),
        "algorithm must be one of 'auto', 'cma-es', 'map-elites-all', 'map-elites-random', 'monet', 'mt-map-elites', 'mtmb-map-elites', 'pt-map-elites', 'random', not 'mt-map-elite'; did you mean 'mt-map-elites'?",
    ),
    (
        lambda: solve(algorithm=te.MultiTaskMapElites),
        "algorithm must be a name or a settings object such as te.MultiTaskMapElites(), not "
        "<class 'taskelites.algorithms.mt_map_elites.MultiTaskMapElites'>",
    ),
    (
        lambda: te.MultiTaskMapElites(tournament=0),
        "tournament must be a whole number of at least 1 and at most 2,147,483,647, not 0",
    ),
    (lambda: te.MultiTaskMapElites(tournament=[]), "tournament must be a size or a list of sizes, not []"),
    (lambda: te.MultiTaskMapElites(tournament=[5, 5]), "tournament must not contain a size twice, but it is [5, 5]"),
    (
        lambda: te.MultiTaskMapElites(variation="sbxx"),
        "variation must be one of 'gaussian', 'iso_line', 'polynomial', 'sbx', not 'sbxx'; did you mean 'sbx'?",
    ),
    (
        lambda: te.MultiTaskMapElites(variation=te.variation.SBX),
        "variation must be a name such as 'iso_line' or an operator such as te.variation.IsoLine(), not <class 'taskelites.core.variation.SBX'>",
    ),
    (
        lambda: te.MultiTaskMapElites(random_start=1.5),
        "random_start must be a whole number of solutions or a share of the tasks between 0 and 1, not 1.5",
    ),
    (lambda: te.MultiTaskMapElites(reward="gain"), "reward must be one of 'count', 'rate', not 'gain'"),
    # the fitness
    (lambda: solve(fitness=3), "fitness must be a function of a solution and a task, not int"),
    (lambda: solve(call="vector"), "call must be one of 'batch', 'each', 'jax', not 'vector'"),
    (
        lambda: solve(fitness=lambda x, t: None),
        "all 20 evaluations failed; the first: fitness must be one number, but the function returned None [task ",
    ),
    (
        lambda: solve(fitness=lambda x, t: "good"),
        "all 20 evaluations failed; the first: fitness must be one number, but the function returned 'good' [task ",
    ),
    (
        lambda: solve(fitness=lambda x, t: x),
        "all 20 evaluations failed; the first: fitness must return one number, but it returned an array of shape (2,) [task ",
    ),
    (
        lambda: solve(fitness=lambda x, t: 1j),
        "all 20 evaluations failed; the first: fitness must be one number, but the function returned 1j [task ",
    ),
    (
        lambda: solve(fitness=raises),
        "all 20 evaluations failed; the first: fitness raised RuntimeError: no simulator (test_mistakes.py, line ",
    ),
    (
        lambda: solve(fitness=one_argument),
        "all 20 evaluations failed; the first: fitness raised TypeError: one_argument() takes 1 positional argument but 2 were given [task ",
    ),
    (
        lambda: solve(fitness=lambda x, t: np.zeros(len(x) - 1), call="batch"),
        "all 20 evaluations failed; the first: fitness must be numbers of shape (64,), but the function returned shape (63,) [task ",
    ),
    (
        lambda: solve(fitness=lambda x, t: np.zeros((len(x), 1)), call="batch"),
        "all 20 evaluations failed; the first: fitness must be numbers of shape (64,), but the function returned shape (64, 1) [task ",
    ),
    (
        lambda: solve(fitness=lambda x, t: None, call="batch"),
        "all 20 evaluations failed; the first: fitness must be numbers of shape (64,), but the function returned None [task ",
    ),
    (
        lambda: solve(fitness=lambda x, t: x, call="jax"),
        "fitness must return a scalar, of shape () for one solution and one task, not (2,)",
    ),
    (
        lambda: solve(fitness=jax_if, call="jax"),
        "fitness could not be traced by JAX: TracerBoolConversionError: Attempted boolean conversion of traced array with "
        "shape bool[].; call='batch' or call='each' take any Python function",
    ),
    (
        lambda: solve(tasks=te.Tasks(range(300)), call="jax"),
        "call='jax' gives descriptors to the fitness, so te.Tasks needs descriptors=...",
    ),
    # initial and target
    (lambda: solve(initial=np.zeros((3, 5))), "initial must have shape (m, 2), m at least 1, not (3, 5)"),
    (lambda: solve(initial=[[0.5, 2.0]]), "initial must be within bounds, but initial[0] is not; clip or drop it"),
    (lambda: solve(initial=([[0.5, 0.5]], [250])), "initial must have task numbers from 0 to 249, not 250 to 250"),
    (
        lambda: solve(initial=([[0.5, 0.5]], [0.5])),
        "initial must have one task number per solution, so 1, not [0.5]",
    ),
    (
        lambda: solve(target=[1.0, 2.0]),
        "target must be one number, or one for each of the 250 tasks, not of shape (2,)",
    ),
    (lambda: solve(target=np.nan), "target must not be NaN, but target[0] is"),
    (lambda: te.Target(1.0, share=0), "share must be above 0 and at most 1, not 0"),
    # domains
    (
        lambda: te.domain("armm"),
        "name must be one of 'archery', 'arm', 'cartpole', 'hexapod', 'postures', 'valleys', not 'armm'; did you mean 'arm'?",
    ),
    (
        lambda: te.domain("arm", task=3),
        "an option of 'arm' must be one of 'dim', 'form', 'seed', 'target', 'tasks', not 'task'; did you mean 'tasks'?",
    ),
    (
        lambda: te.solve(te.domain("arm", tasks=10), TASKS, evaluations=10),
        "a domain has its own tasks; leave it out",
    ),
    (
        lambda: te.domain("arm", tasks=[[0.5, 2.0]]),
        "tasks of the arm must be a number, or an array (n, 2) of [alpha_max, length], each in [0, 1], or a file, but tasks[0] is [0.5, 2.0]",
    ),
    (
        lambda: te.domain("arm", tasks=[[0.5], [0.2]]),
        "tasks of the arm must be a number, or an array (n, 2) of [alpha_max, length], each in [0, 1], or a file, not of shape (2, 1)",
    ),
    (
        lambda: te.domain("arm", tasks=te.Box([0, 0], [1, 1])),
        "tasks of the arm must be a number, or an array (n, 2) of [alpha_max, length], each in [0, 1], or a file, not a family without descriptors; te.tasks.cvt spreads a list over a te.Box",
    ),
    (
        lambda: te.domain("arm", tasks=10, form="exponent"),
        "form must be one of 'distance', 'exponential', not 'exponent'; did you mean 'exponential'?",
    ),
    (lambda: te.domain("arm", tasks=10, target=(1, 2, 3)), "target must be a point (x, y), not (1, 2, 3)"),
    (
        lambda: te.solve("arm", evaluations=9),
        "fitness must be a function or a domain, not 'arm'; did you mean te.domain('arm')?",
    ),
    (lambda: solve(target="high"), "target must be one number, or one for each task, not 'high'"),
    (lambda: te.MultiTaskMapElites(replacement="no"), "replacement must be True or False, not 'no'"),
    (
        lambda: te.MultiTaskMapElites(variation=te.variation.IsoLine(sigma1=float("nan"))),
        "sigma1 of IsoLine must be a finite number, not nan",
    ),
    (
        lambda: te.MultiTaskMapElites(random_start=1.0),
        "random_start must be a whole number of solutions or a share of the tasks between 0 and 1, not 1.0",
    ),
    (lambda: te.Tasks({1, 2}), "tasks must be ordered, but a set has no order; give a list"),
    (
        lambda: te.Tasks(TASKS, names=["fitness"]),
        "names must be unique and different from task_id, task, fitness, optimum, evaluations, last_improved, corrected, deviation, algorithm, replicate, solution_0, ..., but 'fitness' is not; choose another name",
    ),
    (
        lambda: te.Tasks(TASKS, names=["solution_3"]),
        "names must be unique and different from task_id, task, fitness, optimum, evaluations, last_improved, corrected, deviation, algorithm, replicate, solution_0, ..., but 'solution_3' is not; choose another name",
    ),
    (
        lambda: solve(fitness=lambda x, t: x[0] * 1j, call="jax"),
        "fitness must return a real number, but it returned a complex one",
    ),
    # ask and tell
    (ask_twice, "tell() the fitness of the 64 candidates of the last ask() before you ask() for more"),
    (tell_twice, "candidates must be the return value of the last ask(), and each is told once"),
    (lambda: tell(np.zeros(63)), "fitness must have shape (64,), one row per candidate, not (63,)"),
    (lambda: tell(None), "fitness must be an array of numbers of shape (64,), not None"),
    (lambda: solve(workers=0), "workers must be a whole number of at least 1 and at most 10,000, not 0"),
    (lambda: solve(workers="many"), "workers must be a number, 'auto' or None, not 'many'"),
    (
        lambda: solve(executor="ray"),
        "executor must be a concurrent.futures.Executor, not str; for Dask give client.get_executor(), for Ray te.RayExecutor()",
    ),
    (lambda: solve(timeout=-1), "timeout must be a number of seconds above 0, not -1"),
    (lambda: solve(timeout="5"), "timeout must be a number of seconds above 0, not '5'"),
    (lambda: solve(on_error="ignore"), "on_error must be one of 'raise', 'retry', 'skip', not 'ignore'"),
    (lambda: solve(retries=3), "retries=3 needs on_error='retry', not 'skip'"),
    (
        lambda: solve(on_error="retry", retries=0),
        "retries must be a whole number of at least 1 and at most 1,000, not 0",
    ),
    (lambda: solve(setup=3), "setup must be a function without arguments, not 3"),
    # names of keywords
    (
        lambda: te.compare(ok, TASKS, algorithms=["random"], evalutions=10),
        "compare() got an unexpected keyword argument 'evalutions'; did you mean 'evaluations'?",
    ),
    (
        lambda: te.reevaluate(RESULT, ok, wrokers=2),
        "reevaluate() got an unexpected keyword argument 'wrokers'; did you mean 'workers'?",
    ),
    (
        lambda: te.cover(RESULT, ok, candidate=9),
        "cover() got an unexpected keyword argument 'candidate'; did you mean 'candidates'?",
    ),
    (lambda: te.transfer(RESULT, ok, mode="async"), "transfer() got an unexpected keyword argument 'mode'"),
    (
        lambda: solve(mode="asynchronous"),
        "mode must be one of 'async', 'sync', not 'asynchronous'; did you mean 'async'?",
    ),
    (lambda: solve(mode="async"), "mode='async' needs several concurrent evaluations; give workers= or executor="),
    (
        lambda: solve(mode="async", workers=1, algorithm="cma-es"),
        "mode='async' tells results in any order, but cma-es learns from whole steps; use mode='sync'",
    ),
    (
        lambda: solve(fitness=lambda x, t: x[0], call="jax", workers=2),
        "workers is for Python functions; leave it out. With call='jax' the whole run is one compiled program, which uses all cores or the accelerator by itself",
    ),
    (
        lambda: solve(callback=3),
        "callback must be a function that takes a row of the history, or a list of them, not 3",
    ),
    (lambda: OPTIMIZER.ask(at_most=0), "at_most must be a whole number of at least 1, not 0"),
    # results
    (lambda: te.load("nowhere"), "there is no result 'nowhere'"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES, ids=[message[:60] for _, message in MISTAKES])
def test_invalid_argument_raises_its_message(mistake, message):
    with pytest.raises(
        (ValueError, TypeError, RuntimeError, FileNotFoundError), match="^" + re.escape(message)
    ) as caught:
        mistake()
    if not message.endswith(("[task ", "line ")):
        assert str(caught.value) == message
    assert "\n" not in str(caught.value)
