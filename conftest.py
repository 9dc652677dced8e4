"""Doctests are looked for in every module, and a module of a simulator that is not installed can't be imported."""

from importlib.util import find_spec

# PyBullet has no wheels for newer Pythons; MuJoCo is among what developers install.
collect_ignore = [] if find_spec("pybullet") else ["src/taskelites/domains/hexapod/pybullet_engine.py"]
