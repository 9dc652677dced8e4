"""Walks in MJX, MuJoCo's physics in JAX: the whole search, simulations included, is one program on an accelerator.

The same model, motors and rules as in MuJoCo, in the precision that the user's JAX has. Walks are simulated to their
end, since all of a batch take the same steps; what happens after a rule was broken does not count.
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
from taskelites.domains.hexapod.body import NOMINAL, links, mjcf, spawn_height
from taskelites.domains.hexapod.episode import SETTLE, Rules
from taskelites.domains.hexapod.gait import HOLD, STEPS, joint_angles, motor, signals

# As many as MuJoCo needs in all but a few steps: on a GPU a batch waits for the slowest of its rows.
_SOLVER = 'iterations="10" ls_iterations="10"'


@lru_cache(maxsize=8)
def _model(damage: tuple[tuple[int, str], ...], precision: Any) -> tuple[mujoco.MjModel, Any]:
    """The model, for MuJoCo and for MJX, whose numbers have the precision that JAX has at the moment."""
    options = f"{mujoco_engine.OPTIONS} {_SOLVER}"
    text = mjcf(links(NOMINAL, damage), options, mujoco_engine.ACTUATOR, mujoco_engine.JOINT)
    model = mujoco.MjModel.from_xml_string(text)
    # A program that is being traced must not leave its tracers in what is kept.
    with jax.ensure_compile_time_eval():
        return model, mjx.put_model(model, impl="jax")


def _derived(model: Any, data: Any) -> dict[str, Array]:
    """How easily bodies and joints are moved, which scales contacts and limits, as `mj_setConst` computes it."""
    data = mjx.crb(model, mjx.com_pos(model, mjx.kinematics(model, data)))
    inverse = jnp.linalg.inv(mjx.full_m(model, data))

    def of_body(body: Array) -> Array:
        along, about = mjx.jac(model, data, data.xipos[body], body)  # (nv, 3) each
        jacobian = jnp.concatenate([along, about], axis=1)
        return jnp.sum(jacobian * (inverse @ jacobian), axis=0).reshape(2, 3).mean(axis=1)

    bodies = jax.vmap(of_body)(jnp.arange(1, model.nbody))
    joints = jnp.diag(inverse)
    base = jnp.repeat(joints[:6].reshape(2, 3).mean(axis=1), 3)  # it moves and turns in three directions alike
    return {
        "body_invweight0": jnp.concatenate([jnp.zeros((1, 2), bodies.dtype), bodies]),
        "dof_invweight0": jnp.concatenate([base, joints[6:]]),
    }


def distance(gait: Array, lengths: Array, rules: Rules, damage: tuple[tuple[int, str], ...]) -> Array:
    """How far a gait walks on a body, m, a scalar; NaN if the simulation diverged."""
    walk: Any = partial(_distance, rules=rules, damage=damage)
    # On processors, programs of XLA with many of these side by side stand still for ever (seen with 64, jaxlib 0.10);
    # there, one walk after the other is simulated.
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
        told = joint_angles(angle + (mujoco_engine.KV / mujoco_engine.KP) * speed, jnp)[joints] * moved
        before = data.qpos[:7]
        data = step(data.replace(ctrl=told))
        pose = data.qpos[:7]
        x = jnp.where(walking, jnp.where(rules.plausible(pose, before, jnp), pose[0], jnp.nan), x)
        walking = walking & jnp.isfinite(x) & ~rules.broken(pose, start, jnp)
        return (data, angle, speed, walking, x), None

    rest = jnp.zeros(period.shape[1:], period.dtype)
    begin = (data, rest, rest, jnp.isfinite(start).all(), start[0])
    (_, _, _, _, x), _ = lax.scan(go, begin, jnp.arange(STEPS))
    return x - start[0]
