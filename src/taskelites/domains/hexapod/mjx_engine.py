"""Simulation of walks in MJX, MuJoCo's physics in JAX, which compiles search and simulation into one program.

Model, motors and rules are the same as in `mujoco_engine`; the precision is JAX's current one. All walks of a batch run
for the full number of steps; the steps after a broken rule do not count.
"""

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
from jax import Array, lax
from jax.custom_batching import sequential_vmap
from mujoco import mjx

from taskelites.domains.hexapod import mujoco_engine
from taskelites.domains.hexapod.body import spawn_height
from taskelites.domains.hexapod.episode import SETTLE, Rules
from taskelites.domains.hexapod.gait import HOLD, STEPS, joint_angles, motor, signals


@lru_cache(maxsize=8)
def _model(damage: tuple[tuple[int, str], ...], precision: Any) -> tuple[mujoco.MjModel, Any]:
    """Return the model for MuJoCo and for MJX; `precision` is part of the cache key only."""
    model = mujoco_engine.compile_model(damage, mujoco_engine.FEW_ITERATIONS)
    # The cached model must not hold tracers of the program that is being traced.
    with jax.ensure_compile_time_eval():
        return model, mjx.put_model(model, impl="jax")


def _derived(model: Any, data: Any) -> dict[str, Array]:
    """Return the inverse weights of bodies and joints, which scale contacts and limits, as in `mj_setConst`."""
    data = mjx.crb(model, mjx.com_pos(model, mjx.kinematics(model, data)))
    inverse = jnp.linalg.inv(mjx.full_m(model, data))

    def of_body(body: Array) -> Array:
        along, about = mjx.jac(model, data, data.xipos[body], body)  # (nv, 3) each
        jacobian = jnp.concatenate([along, about], axis=1)
        return jnp.sum(jacobian * (inverse @ jacobian), axis=0).reshape(2, 3).mean(axis=1)

    bodies = jax.vmap(of_body)(jnp.arange(1, model.nbody))
    joints = jnp.diag(inverse)
    base = jnp.repeat(joints[:6].reshape(2, 3).mean(axis=1), 3)  # averaged over x, y and z
    return {
        "body_invweight0": jnp.concatenate([jnp.zeros((1, 2), bodies.dtype), bodies]),
        "dof_invweight0": jnp.concatenate([base, joints[6:]]),
    }


def distance(gait: Array, lengths: Array, rules: Rules, damage: tuple[tuple[int, str], ...]) -> Array:
    """Return the distance that a gait walks on a body, m, a scalar; NaN if the simulation diverged.

    Args:
        gait: `(36,)`.
        lengths: `(12,)`, m.
        rules: rules that end a walk early.
        damage: as returned by `as_damage`.
    """
    walk: Any = partial(_distance, rules=rules, damage=damage)
    # On CPUs, XLA programs that vectorise many walks deadlock (seen with 64 walks, jaxlib 0.10), so walks run one after
    # another there.
    if jax.default_backend() == "cpu":
        walk = sequential_vmap(walk)  # type: ignore[no-untyped-call]
    return walk(gait, lengths)


def _distance(gait: Array, lengths: Array, rules: Rules, damage: tuple[tuple[int, str], ...]) -> Array:
    original, model = _model(damage, jnp.zeros(()).dtype)
    model = model.replace(**mujoco_engine.fields(original, lengths, damage, jnp))
    data = mjx.make_data(model)
    data = data.replace(qpos=data.qpos.at[2].set(spawn_height(lengths, damage, jnp)))
    model = model.replace(**_derived(model, data))
    joints, moved = mujoco_engine.powered_joints(damage)
    step = partial(mjx.step, model)
    data = lax.fori_loop(0, SETTLE, lambda _, now: step(now), data)
    period = signals(gait, jnp)
    start = data.qpos[:7]

    def go(carry: Any, now: Array) -> tuple[Any, None]:
        data, angle, speed, walking, x = carry
        angle, speed = motor(period[now // HOLD % len(period)], angle, speed, jnp)
        targets = joint_angles(angle + (mujoco_engine.KV / mujoco_engine.KP) * speed, jnp)[joints] * moved
        before = data.qpos[:7]
        data = step(data.replace(ctrl=targets))
        pose = data.qpos[:7]
        x = jnp.where(walking, jnp.where(rules.plausible(pose, before, jnp), pose[0], jnp.nan), x)
        walking = walking & jnp.isfinite(x) & ~rules.broken(pose, start, jnp)
        return (data, angle, speed, walking, x), None

    rest = jnp.zeros(period.shape[1:], period.dtype)
    begin = (data, rest, rest, jnp.isfinite(start).all(), start[0])
    (_, _, _, _, x), _ = lax.scan(go, begin, jnp.arange(STEPS))
    return x - start[0]
