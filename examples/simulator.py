"""Optimise with a simulator that is slow, diverges and crashes, using worker processes, a timeout and checkpoints.

Run it, kill it and run it again: it resumes from its last checkpoint.
"""

import os
import time
import warnings

import numpy as np

import taskelites as te


class Pendulum:
    """A pendulum with a controller, simulated for half a second. Real simulators are slow to construct."""

    def __init__(self):
        self.step = 0.01

    def swing(self, gains, length, friction):
        """Return how close to upright the pendulum comes to rest with these gains of the controller; 0 is perfect."""
        angle, speed = np.pi, 0.0
        for _ in range(50):
            torque = gains[0] * np.sin(angle) - gains[1] * speed + gains[2]
            speed += self.step * (np.sin(angle) / length - friction * speed + 40 * torque)
            angle += self.step * speed
            if abs(speed) > 60:
                raise ArithmeticError("the simulation diverged")
        if -0.3 < gains[0] < -0.295:
            os.abort()  # a crash, as in real simulators
        if 0.4 < gains[2] < 0.401:
            time.sleep(3600)  # or an endless loop
        return -abs(np.cos(angle) - 1) - 0.01 * abs(speed)


def fitness(gains, pendulum, simulator):
    """Return the fitness; the last argument is the object returned by `setup`."""
    return simulator.swing(gains, *pendulum)


if __name__ == "__main__":
    pendulums = te.tasks.grid((20, 20), lower=[0.5, 0.0], upper=[2.0, 1.0], names=["length", "friction"])
    warnings.simplefilter("ignore", te.errors.FitnessWarning)  # the summary shows the number of failures
    result = te.solve(
        fitness,
        pendulums,
        bounds=(-1, 1),
        dim=3,
        evaluations=2000,
        setup=Pendulum,
        workers=2,
        timeout=0.5,  # seconds per evaluation
        out="pendulums",
        resume=True,
        checkpoint_every="2s",
    )
    print(result.summary())
    for failure in te.analysis.failures("pendulums")[:3]:
        print(f"{failure.kind}: task {failure.task}, gains {failure.solution.round(2)}: {failure.message}")
