"""Comparisons, benchmarks, statistics, and the experiments of the paper."""

from taskelites.experiments.benchmark.benchmark import Bench
from taskelites.experiments.benchmark.run import bench
from taskelites.experiments.comparison.comparison import Comparison
from taskelites.experiments.comparison.run import compare
from taskelites.experiments.paper.arm.reproduce import reproduce_arm
from taskelites.experiments.paper.hexapod.reproduce import reproduce_hexapod

__all__ = ["Bench", "Comparison", "bench", "compare", "reproduce_arm", "reproduce_hexapod"]
