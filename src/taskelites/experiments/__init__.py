"""Replicates, comparisons, statistics, and the experiments of the paper."""
