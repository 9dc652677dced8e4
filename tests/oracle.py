"""Multi-task MAP-Elites after the paper's pseudo-code, in plain loops over single candidates.

Only the raw random numbers come from the library; everything else is implemented again.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from taskelites.core import random


def word_to_integer(word, count):
    return (int(word) * int(count)) >> 32


def rank_by_definition(word, tasks, size):
    """Return the rank whose probability interval contains the word, from P(rank < r) = 1 - (1 - r/n)^s."""
    rank = 0
    while rank < tasks - 1 and int(word) >= math.ceil((1 - (1 - (rank + 1) / tasks) ** size) * 2**32):
        rank += 1
    return rank


def order_from(descriptors, task):
    def key(other):
        distance = sum((a - b) ** 2 for a, b in zip(descriptors[task], descriptors[other], strict=True))
        return (-1.0 if other == task else distance, other)

    return sorted(range(len(descriptors)), key=key)


class PaperLoop:
    def __init__(self, descriptors, lower, upper, sizes, sigma1, sigma2, batch_size, random_start, seed):
        self.descriptors = descriptors
        self.order = [order_from(descriptors, task) for task in range(len(descriptors))]
        self.lower, self.upper = lower, upper
        self.sizes, self.sigma1, self.sigma2 = sizes, sigma1, sigma2
        self.batch_size = batch_size
        self.random_steps = math.ceil(random_start / batch_size)
        self.key = jax.random.key(seed)
        self.step = 0
        self.elites = {}  # task -> (solution, fitness), in the order of first insertion
        self.selected = [0] * len(sizes)
        self.successes = [0] * len(sizes)
        self.evaluations = [0] * len(descriptors)
        self.last_improved = [0] * len(descriptors)
        self.told = 0

    def choose_size(self):
        for arm, count in enumerate(self.selected):
            if count == 0:
                return arm
        generation = sum(self.selected)
        bounds = [
            success / count + math.sqrt(2 * math.log(generation) / count)
            for success, count in zip(self.successes, self.selected, strict=True)
        ]
        return bounds.index(max(bounds))

    def draws(self):
        """Return the random numbers of this step, drawn like those of the library."""
        dim, rows = len(self.lower), self.batch_size
        key = random.fold_in(self.key, self.step)
        keys = random.split(random.fold_in(key, 1), 3)
        parents = np.asarray(random.words(keys[0], (2, rows)))
        key_iso, key_line = random.split(keys[1])
        isotropic = np.asarray(random.normal(key_iso, (rows, dim), jnp.dtype(float)))
        line = np.asarray(random.normal(key_line, (rows, 1), jnp.dtype(float)))
        ranks = np.asarray(random.words(keys[2], (rows,)))
        key_solution, key_task = random.split(random.fold_in(key, 0))
        uniform = np.asarray(random.uniform(key_solution, (rows, dim), jnp.dtype(float)))
        anywhere = np.asarray(random.words(key_task, (rows,)))
        return parents, isotropic, line, ranks, uniform, anywhere

    def ask(self):
        parents, isotropic, line, ranks, uniform, anywhere = self.draws()
        starting = self.step < self.random_steps or not self.elites
        arm = None if starting else self.choose_size()
        solved = list(self.elites)
        tasks, children = [], []
        for i in range(self.batch_size):
            if starting:
                tasks.append(word_to_integer(anywhere[i], len(self.descriptors)))
                children.append(self.lower + uniform[i] * (self.upper - self.lower))
                continue
            first = solved[word_to_integer(parents[0, i], len(solved))]
            second = solved[word_to_integer(parents[1, i], len(solved))]
            x1, x2 = self.elites[first][0], self.elites[second][0]
            child = x1 + self.sigma1 * isotropic[i] * (self.upper - self.lower) + self.sigma2 * (x2 - x1) * line[i]
            children.append(np.clip(child, self.lower, self.upper))
            rank = rank_by_definition(ranks[i], len(self.descriptors), self.sizes[arm])
            tasks.append(self.order[first][rank])
        self.step += 1
        return arm, tasks, children

    def tell(self, arm, tasks, children, fitness):
        if arm is not None:
            self.selected[arm] += 1
        for task, child, value in zip(tasks, children, fitness, strict=True):
            self.told += 1
            self.evaluations[task] += 1
            if not math.isfinite(value):
                continue
            if task not in self.elites or value > self.elites[task][1]:
                self.elites[task] = (child, value)
                self.last_improved[task] = self.told
                if arm is not None:
                    self.successes[arm] += 1


def insert_one_by_one(elites, solutions, niches, fitness, number, ties=False):
    """Insert rows in order into `elites`, a dict niche -> (solution, fitness), and return the success of each row."""
    success = []
    for solution, niche, value in zip(solutions, niches, fitness, strict=True):
        better = niche < number and math.isfinite(value)
        if better and niche in elites:
            better = value >= elites[niche][1] if ties else value > elites[niche][1]
        if better:
            elites[niche] = (solution, value)
        success.append(better)
    return success
