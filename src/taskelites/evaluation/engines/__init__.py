"""Engines that evaluate chunks of candidates: this process, local workers, executors and Ray."""
