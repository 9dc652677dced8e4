"""Run the search with your own ask-and-tell loop, for a fitness that is evaluated elsewhere."""

import numpy as np

import taskelites as te

BUDGET = 10_000

tasks = te.tasks.cvt(500, lower=[0, 0], upper=[1, 1], seed=0)
optimizer = te.Optimizer(tasks, bounds=(0, 1), dim=6, seed=0)
while optimizer.evaluations < BUDGET:
    candidates = optimizer.ask(at_most=BUDGET - optimizer.evaluations)
    errors = candidates.solutions.reshape(-1, 3, 2).mean(axis=1) - candidates.tasks
    optimizer.tell(candidates, -np.linalg.norm(errors, axis=1))
print(optimizer.result())
