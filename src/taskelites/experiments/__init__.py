"""Replicates, comparisons, statistics, and the experiments of the paper."""

from taskelites.experiments.arm import reproduce_arm
from taskelites.experiments.benching import bench
from taskelites.experiments.benchmark import Bench
from taskelites.experiments.comparison import Comparison
from taskelites.experiments.hexapod import reproduce_hexapod
from taskelites.experiments.running import compare

__all__ = ["Bench", "Comparison", "bench", "compare", "reproduce_arm", "reproduce_hexapod"]
