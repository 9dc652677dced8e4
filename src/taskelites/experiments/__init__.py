"""Replicates, comparisons, statistics, and the experiments of the paper."""

from taskelites.experiments.arm import reproduce_arm
from taskelites.experiments.comparison import Comparison
from taskelites.experiments.hexapod import reproduce_hexapod
from taskelites.experiments.running import compare

__all__ = ["Comparison", "compare", "reproduce_arm", "reproduce_hexapod"]
