"""What runs a fitness: this process, workers, executors, Ray."""
