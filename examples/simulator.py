"""A simulator that is slow, diverges and crashes: all cores, a time limit, and a run that can be killed at any moment.

Run it, kill it, run it again: it goes on where it was.
"""

import os
import time
import warnings

import numpy as np

import taskelites as te


class Pendulum:
    """Swings for half a second of its own time; building it is what takes long in real ones."""

    def __init__(self):
        self.step = 0.01

    def swing(self, gains, length, friction):
        """How near to upright it comes to rest, with these gains of its controller; 0 is perfect."""
        angle, speed = np.pi, 0.0
        for _ in range(50):
            torque = gains[0] * np.sin(angle) - gains[1] * speed + gains[2]
            speed += self.step * (np.sin(angle) / length - friction * speed + 40 * torque)
            angle += self.step * speed
            if abs(speed) > 60:
                raise ArithmeticError("the simulation diverged")
        if -0.3 < gains[0] < -0.295:
            os.abort()  # a crash, as real simulators have them
        if 0.4 < gains[2] < 0.401:
            time.sleep(3600)  # or an endless loop
        return -abs(np.cos(angle) - 1) - 0.01 * abs(speed)


def fitness(gains, pendulum, simulator):
    """What `setup` returns, the simulator, comes last."""
    return simulator.swing(gains, *pendulum)


if __name__ == "__main__":
    pendulums = te.tasks.grid((20, 20), lower=[0.5, 0.0], upper=[2.0, 1.0], names=["length", "friction"])
    warnings.simplefilter("ignore", te.errors.FitnessWarning)  # it says how many failed; so does the summary
    result = te.solve(
        fitness,
        pendulums,
        bounds=(-1, 1),
        dim=3,
        evaluations=2000,
        setup=Pendulum,
        workers=2,
        timeout=0.5,  # seconds for one evaluation
        out="pendulums",
        resume=True,
        checkpoint_every="2s",
    )
    print(result.summary())
    for failure in te.analysis.failures("pendulums")[:3]:
        print(f"{failure.kind}: task {failure.task}, gains {failure.solution.round(2)}: {failure.message}")
