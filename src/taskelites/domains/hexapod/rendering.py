"""Films of a walk and images of a body with MuJoCo's renderer, with or without a display.

A film shows the positions that the simulator recorded when it measured the fitness. The floor has a scale that starts
where the robot starts, and a bar under the robot points to the current distance. Feet on the ground are highlighted.
"""

import importlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from taskelites.domains.hexapod.analysis import Analysis, analyse, shown_engine
from taskelites.domains.hexapod.body import BASE, LEGS, links, mjcf
from taskelites.domains.hexapod.episode import CORRIDOR, Rules
from taskelites.domains.hexapod.gait import DIM, RATE
from taskelites.errors import MissingPackageError

PACKAGES = "`apt install libegl1 libgl1-mesa-dri` (EGL), or `apt install libosmesa6` (OSMesa)"
# Backends without a window come first, because a display may be remote and slow.
_BACKENDS = {"linux": ("egl", "osmesa", "glfw"), "darwin": ("cgl", "glfw"), "win32": ("glfw",)}
_PROBE = """
import mujoco
from mujoco.{backend} import GLContext
window = GLContext(16, 16)
window.make_current()
context = mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), mujoco.mjtFontScale.mjFONTSCALE_100.value)
works = context.offFBO != 0
context.free()
window.free()
print("drawn" if works else "it has no offscreen buffer")
"""
_PROBE_SECONDS = 60

_COLOURS = {
    "base": (0.40, 0.44, 0.50, 1.0),
    "coxa": (0.55, 0.59, 0.64, 1.0),
    "femur": (0.00, 0.45, 0.70, 1.0),
    "tibia": (0.90, 0.62, 0.00, 1.0),
    "foot": (0.30, 0.33, 0.37, 1.0),
}
_TOUCHING = (0.84, 0.10, 0.35, 1.0)
_POINTER = (0.84, 0.10, 0.35, 1.0)
# Azimuth, elevation and distance of the camera, in degrees and metres.
_WALK_VIEW, _PORTRAIT_VIEW = (105.0, -30.0, 1.3), (115.0, -32.0, 0.68)
_SMOOTH = 0.25  # standard deviation of the smoothing of its path, s
# The scale on the floor: start, end and width in m, and pixels per metre.
_FROM, _TO, _ACROSS, _DOTS = -1.0, 4.0, 0.11, 480


@dataclass(frozen=True)
class HexapodFilm:
    """Films a walk of the robot.

    Args:
        rules: rules that end a walk early.
        damage: as returned by `as_damage`.
    """

    rules: Rules
    damage: tuple[tuple[int, str], ...] = ()

    def __call__(self, solution: Any, task: Any, *, width: int = 640, height: int = 480, fps: float = 30) -> "Film":
        """Return the film of a gait on a body, an iterable of frames.

        Args:
            solution: the gait, `(36,)`.
            task: lengths of the body, m, `(12,)`.
            width: width of a frame, pixels.
            height: height of a frame, pixels.
            fps: frames per second of the walk.

        Example:
            >>> from taskelites.domains.hexapod.body import NOMINAL
            >>> from taskelites.domains.hexapod.gait import FORWARD
            >>> len(HexapodFilm(Rules())(FORWARD, NOMINAL, fps=30))  # 3 s, including both ends
            91
        """
        found = analyse(shown_engine(self.rules, self.damage), solution, task)
        return Film(found, np.asarray(task, float), self.damage, int(width), int(height), float(fps))


@dataclass(frozen=True, eq=False)
class Film:
    """An iterable of the frames of a walk, `(height, width, 3)` of uint8, rendered on iteration.

    Attributes:
        analysis: analysis of the walk.
        lengths: lengths of the body, m, `(12,)`.
        damage: as returned by `as_damage`.
        width: width of a frame, pixels.
        height: height of a frame, pixels.
        fps: frames per second of the walk.
    """

    analysis: Analysis
    lengths: np.ndarray
    damage: tuple[tuple[int, str], ...]
    width: int
    height: int
    fps: float

    @property
    def fitness(self) -> float:
        """The distance of the walk, m."""
        return self.analysis.distance

    @property
    def note(self) -> str:
        """Why the walk ended early, and the damage of the robot, in words."""
        ended = f"ended after {self.analysis.seconds:.2f} s: {self.analysis.reason}" if self.analysis.reason else ""
        broken = ", ".join(f"leg {leg} {kind}" for leg, kind in self.damage)
        return "; ".join(filter(None, [ended, f"damage: {broken}" if broken else ""]))

    @cached_property
    def moments(self) -> np.ndarray:
        """The step of the walk that each frame shows; the last frame shows the last step."""
        last = len(self.analysis.walk.positions) - 1
        regular = np.round(np.arange(0, last, RATE / self.fps)).astype(int)
        return np.append(regular[regular < last], last)

    def __len__(self) -> int:
        return len(self.moments)

    def __iter__(self) -> Iterator[np.ndarray]:
        camera = Camera(self.lengths, self.damage, self.analysis, self.width, self.height)
        try:
            for step in self.moments:
                yield camera.picture(int(step))
        finally:
            camera.close()


class Camera:
    """Renders single steps of a walk.

    Args:
        lengths: lengths of the body, m, `(12,)`.
        damage: as returned by `as_damage`.
        analysis: analysis of the walk.
        width: width of an image, pixels.
        height: height of an image, pixels.
    """

    def __init__(
        self, lengths: np.ndarray, damage: tuple[tuple[int, str], ...], analysis: Analysis, width: int, height: int
    ) -> None:
        import mujoco

        self._walk = analysis.walk
        self._touching = _widen_contacts(analysis.touching)
        self._path = _camera_path(self._walk.positions[:, :3])
        self._model = _model(lengths, damage, self._walk.positions[0], width, height)
        self._feet = [self._model.geom(f"foot_{leg}").id for leg in range(LEGS)]
        self._sun = float(self._model.light_pos[0, 0])
        self._data = mujoco.MjData(self._model)
        self._canvas = Canvas(self._model, width, height)

    def picture(self, step: int) -> np.ndarray:
        """Render the robot at a step of the walk, `(height, width, 3)`."""
        import mujoco

        self._data.qpos[:] = self._walk.positions[step]
        self._model.light_pos[0, 0] = self._sun + self._path[step, 0]  # the light follows the robot
        mujoco.mj_forward(self._model, self._data)
        for leg, foot in enumerate(self._feet):
            touches = self._touching[min(step, len(self._touching) - 1), leg]
            self._model.geom_rgba[foot] = _TOUCHING if touches else _COLOURS["foot"]
        return self._canvas.draw(self._data, _camera(self._path[step], _WALK_VIEW), [self._pointer(step)])

    def _pointer(self, step: int) -> tuple[np.ndarray, np.ndarray, tuple[float, ...]]:
        """Return position, half size and colour of a bar on the floor from under the robot to the scale."""
        start, here = self._walk.positions[0], self._walk.positions[step]
        edge = start[1] - CORRIDOR
        middle = np.array([here[0], (here[1] + edge) / 2, 0.002])
        return middle, np.array([0.004, (here[1] - edge) / 2, 0.0005]), _POINTER

    def close(self) -> None:
        """Free the rendering context."""
        self._canvas.close()


def portrait(lengths: Any, *, width: int = 480, height: int = 400) -> np.ndarray:
    """Render a body in its settled posture, `(height, width, 3)` of uint8.

    Args:
        lengths: lengths of the body, m, `(12,)`.
        width: width of the image, pixels.
        height: height of the image, pixels.

    Raises:
        ImportError: if no rendering backend works on this machine.
    """
    import mujoco

    lengths = np.asarray(lengths, float)
    settled = shown_engine().walk(np.zeros(DIM), lengths).positions[0]
    model = _model(lengths, (), None, width, height)
    data = mujoco.MjData(model)
    data.qpos[:] = settled
    mujoco.mj_forward(model, data)
    canvas = Canvas(model, width, height)
    try:
        return canvas.draw(data, _camera([settled[0], settled[1], 0.06], _PORTRAIT_VIEW), [])
    finally:
        canvas.close()


def _camera(target: Any, view: tuple[float, float, float]) -> Any:
    """Return MuJoCo's camera that looks at a target `(3,)` from an azimuth, an elevation and a distance."""
    import mujoco

    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE
    camera.lookat[:] = target
    camera.azimuth, camera.elevation, camera.distance = view
    return camera


class Canvas:
    """An offscreen renderer of a model.

    MuJoCo's own `Renderer` chooses its backend by the variable MUJOCO_GL when `mujoco` is imported. That is too early
    to choose one that works, so this class makes a context of its own.

    Args:
        model: MuJoCo model, whose `vis.global_.offwidth` and `offheight` are at least the size of the image.
        width: width of the image, pixels.
        height: height of the image, pixels.

    Raises:
        ImportError: if no rendering backend works on this machine.
    """

    def __init__(self, model: Any, width: int, height: int) -> None:
        import mujoco

        self._model, self._width, self._height = model, width, height
        self._scene = mujoco.MjvScene(model, maxgeom=200)
        self._option = mujoco.MjvOption()
        self._window = importlib.import_module(f"mujoco.{backend()}").GLContext(width, height)
        self._window.make_current()
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)

    def draw(self, data: Any, camera: Any, boxes: list[Any]) -> np.ndarray:
        """Render the scene and additional boxes, given as (position, half size, colour), `(height, width, 3)`."""
        import mujoco

        every = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(self._model, data, self._option, None, camera, every, self._scene)
        for place, size, colour in boxes:
            geom = self._scene.geoms[self._scene.ngeom]
            kind = mujoco.mjtGeom.mjGEOM_BOX.value
            mujoco.mjv_initGeom(geom, kind, size, place, np.eye(3).ravel(), np.array(colour, np.float32))
            self._scene.ngeom += 1
        self._window.make_current()  # another canvas may be current
        rectangle = mujoco.MjrRect(0, 0, self._width, self._height)
        picture = np.empty((self._height, self._width, 3), np.uint8)
        mujoco.mjr_render(rectangle, self._scene, self._context)
        mujoco.mjr_readPixels(picture, None, rectangle, self._context)
        return np.ascontiguousarray(picture[::-1])

    def close(self) -> None:
        """Free memory and context; otherwise OSMesa prints an error when Python exits."""
        self._window.make_current()
        self._context.free()
        self._window.free()


@lru_cache(maxsize=1)
def backend() -> str:
    """Return the rendering backend that works on this machine: "egl", "osmesa", "glfw" or "cgl".

    Each backend is tried in a process of its own, because a backend that fails may crash its process, and a loaded one
    prevents others from loading. If the variable MUJOCO_GL names a backend, only that one is tried.

    Raises:
        ImportError: if none works, with the backends that were tried and the packages to install.
    """
    chosen = os.environ.get("MUJOCO_GL", "").strip().lower()
    known = _BACKENDS.get(sys.platform, ("glfw",))
    candidates = (chosen,) if chosen in known else known
    errors = {}
    for name in candidates:
        if name == "glfw" and sys.platform == "linux" and not _has_display():
            errors[name] = "there is no display"
            continue
        errors[name] = _backend_error(name)
        if not errors[name]:
            return name
    tried = "; ".join(f"{name}: {error}" for name, error in errors.items())
    remedy = f"on Debian and Ubuntu, run {PACKAGES}" if sys.platform == "linux" else "install OpenGL"
    if chosen in known:
        remedy += "; or unset MUJOCO_GL, which chose this backend"
    raise MissingPackageError(f"no OpenGL backend works on this machine: {remedy} (tried: {tried})")


def _has_display() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _backend_error(name: str) -> str:
    """Return why a rendering backend does not work; empty if it does."""
    env = {key: value for key, value in os.environ.items() if key not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    try:
        tried = subprocess.run(
            [sys.executable, "-c", _PROBE.format(backend=name)],
            env=env | {"MUJOCO_GL": name},
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer after {_PROBE_SECONDS} s"
    if tried.stdout.strip().endswith("drawn"):
        return ""
    output = (tried.stderr.strip() or tried.stdout.strip() or f"it ended with status {tried.returncode}").splitlines()
    return output[-1][:200]


def _model(
    lengths: np.ndarray, damage: tuple[tuple[int, str], ...], start: np.ndarray | None, width: int, height: int
) -> Any:
    """Return a coloured model of the robot on a floor, with a scale if a start position is given."""
    import mujoco

    spec = mujoco.MjSpec.from_string(mjcf(links(lengths, damage), "", "", drawn=True))
    spec.visual.global_.offwidth, spec.visual.global_.offheight = width, height
    for geom in spec.geoms:
        colour = _COLOURS.get(geom.name.split("_")[0])
        if colour is not None:
            geom.rgba = colour
    _add_front(spec)
    if start is not None:
        _add_scale(spec, start)
    return spec.compile()


def _add_front(spec: Any) -> None:
    """Add a bright stripe at the front of the base."""
    import mujoco

    length, width, height = BASE
    spec.body("base").add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=[0.012, width / 2 - 0.02, 0.002],
        pos=[length / 2 - 0.03, 0, height / 2],
        rgba=[0.95, 0.96, 0.97, 1.0],
        contype=0,
        conaffinity=0,
    )


def _add_scale(spec: Any, start: np.ndarray) -> None:
    """Add the edges of the corridor, a start line, and a scale with numbers along the corridor."""
    import mujoco

    x, y = start[:2]
    middle, half = (_FROM + _TO) / 2, (_TO - _FROM) / 2
    spec.assets = {"scale.png": _scale_picture()}
    spec.add_texture(name="scale", type=mujoco.mjtTexture.mjTEXTURE_2D, file="scale.png")
    material = spec.add_material(name="scale", texuniform=False, texrepeat=[1, 1], specular=0.0)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "scale"
    quiet = {"contype": 0, "conaffinity": 0}
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[half, _ACROSS / 2, 0.1],
        pos=[x + middle, y - CORRIDOR - _ACROSS / 2, 0.001],
        material="scale",
        **quiet,
    )
    dark = [0.35, 0.38, 0.42, 1.0]
    for place, size in (
        ([x + middle, y + CORRIDOR, 0.0], [half, 0.004, 0.001]),
        ([x, y, 0.0], [0.004, CORRIDOR, 0.001]),
    ):
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=size, pos=place, rgba=dark, **quiet)


@lru_cache(maxsize=1)
def _scale_picture() -> bytes:
    """Return a PNG file of a scale with marks every 0.1 m and numbers every 0.5 m."""
    from matplotlib import font_manager
    from PIL import Image, ImageDraw, ImageFont

    wide, high = round((_TO - _FROM) * _DOTS), round(_ACROSS * _DOTS)
    picture = Image.new("RGB", (wide, high), (245, 246, 247))
    pen = ImageDraw.Draw(picture)
    font = ImageFont.truetype(font_manager.findfont("DejaVu Sans"), round(0.058 * _DOTS))
    ink = (60, 66, 74)
    pen.line([(0, 0), (wide, 0)], fill=ink, width=4)
    for tenth in range(round(10 * _FROM), round(10 * _TO) + 1):
        across = (tenth / 10 - _FROM) * _DOTS
        whole = tenth % 5 == 0
        pen.line([(across, 0), (across, high * (0.34 if whole else 0.2))], fill=ink, width=5 if whole else 3)
        if whole:
            pen.text((across, high * 0.68), f"{tenth / 10:g} m", fill=ink, font=font, anchor="mm")
    file = io.BytesIO()
    picture.save(file, format="png")
    return file.getvalue()


def _camera_path(places: np.ndarray) -> np.ndarray:
    """Return the points that the camera looks at, `(steps + 1, 3)`: the smoothed path of the base."""
    from scipy.ndimage import gaussian_filter1d

    smooth = gaussian_filter1d(places, _SMOOTH * RATE, axis=0, mode="nearest")
    smooth[:, 1] = places[0, 1] - 0.15  # to the side of the scale
    smooth[:, 2] = 0.04
    return np.asarray(smooth)


def _widen_contacts(touching: np.ndarray) -> np.ndarray:
    """Extend each contact by 1/60 s in both directions, because contacts change faster than a film can show."""
    from scipy.ndimage import maximum_filter1d

    return np.asarray(maximum_filter1d(touching.astype(np.uint8), RATE // 30 + 1, axis=0)).astype(bool)
