"""Solve tasks that are words, with a custom distance: spell each word backwards, as numbers."""

import itertools

import numpy as np

import taskelites as te

words = ["".join(letters) for letters in itertools.product("abcdef", repeat=3)]


def fitness(solution, word):
    """Return minus the distance of the solution from the letters of the word in reverse order."""
    wanted = [(ord(letter) - ord("a")) / 5 for letter in reversed(word)]
    return -float(np.abs(solution - wanted).sum())


def distance(one, other):
    """Return the sum of the distances between the letters of two words."""
    return sum(abs(ord(a) - ord(b)) for a, b in zip(one, other, strict=True))


result = te.solve(fitness, te.Tasks(words, distance=distance), bounds=(0, 1), dim=3, evaluations=20_000)
best = int(np.nanargmax(result.fitness))
print(result)
print("best solved:", words[best], result.solutions[best].round(2))
