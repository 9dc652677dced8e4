"""Solve the arm of the paper and draw a map of all tasks, with three of the solutions. Writes arm.png.

python examples/arm_map.py --evaluations 1e6
"""

import argparse

import matplotlib.pyplot as plt

import taskelites as te

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--evaluations", type=float, default=2e5)
parser.add_argument("--out", default="arm.png")
options = parser.parse_args()

domain = te.domain("arm")
result = te.solve(domain, evaluations=options.evaluations, seed=0)
print(result.summary())

figure = plt.figure(figsize=(9, 4.2), layout="constrained")
grid = figure.add_gridspec(3, 2, width_ratios=[3, 1])
axes = result.plot(ax=figure.add_subplot(grid[:, 0]), label="fitness: minus the distance to the target (m)")
axes.set_title(f"{len(result):,} tasks, {result.evaluations:,} evaluations")
for place, (name, wanted) in enumerate({"A": (0.9, 0.95), "B": (0.5, 0.6), "C": (0.15, 0.9)}.items()):
    number = ((result.tasks.descriptors - wanted) ** 2).sum(axis=1).argmin()
    task = result.tasks.descriptors[number]
    axes.plot(*task, "o", markerfacecolor="none", markeredgecolor="black", markersize=9)
    axes.annotate(name, task, (8, 4), textcoords="offset points", fontweight="bold")
    drawing = domain.draw(result.solutions[number], task, ax=figure.add_subplot(grid[place, 1]))
    drawing.set(title="", xlabel="", ylabel="", xticks=[0, 1], yticks=[0, 1], xlim=(-0.1, 1.15), ylim=(-0.1, 1.15))
    drawing.get_legend().remove()
    drawing.set_title(name, loc="left", fontweight="bold", fontsize=10)
figure.savefig(options.out, dpi=130)
