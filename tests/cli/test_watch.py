"""Films and drawings of elites, the command `watch`, and the analysis of a walk."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import imageio_ffmpeg
import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

import taskelites as te
from taskelites.cli import main
from taskelites.cli.run_request import RunRequest
from taskelites.cli.watch_command import choose_elites, parse_size
from taskelites.domains.hexapod import rendering
from taskelites.domains.hexapod.analysis import analyse, body_model, shown_engine
from taskelites.domains.hexapod.body import NOMINAL, as_damage
from taskelites.domains.hexapod.episode import Rules
from taskelites.domains.hexapod.gait import FORWARD
from taskelites.runs import RunFolder
from taskelites.show import film as films

WEIGHT = 2.495 * 9.81
DOMAIN = """
import numpy as np
import taskelites as te

def fitness(x, t):
    return -np.abs(x - t[:, :1]).sum(axis=1)

class Film(list):
    fitness = None

def film(solution, task, *, width, height, fps):
    frames = Film(np.full((height, width, 3), 10 * i, np.uint8) for i in range(int(fps)))
    frames.fitness = float(fitness(solution[None], np.asarray(task)[None])[0])
    return frames

def draw(solution, task, ax=None):
    ax.plot(solution)

common = dict(fitness=fitness, tasks=te.tasks.grid((30,), [0], [1]), bounds=(0, 1), dim=2, call="batch")
filmed = te.Domain(name="filmed", film=film, draw=draw, **common)
drawn = te.Domain(name="drawn", draw=draw, **common)
unseen = te.Domain(name="unseen", **common)
"""


@pytest.fixture(scope="session")
def gl():
    """Skip the test where no rendering backend works."""
    try:
        return rendering.backend()
    except ImportError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "seen.py").write_text(DOMAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "seen", raising=False)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    return tmp_path


@pytest.fixture(scope="module")
def walkers(tmp_path_factory):
    """A run with fewer evaluations than bodies, so that some bodies are never tried."""
    out = tmp_path_factory.mktemp("runs") / "walkers"
    arguments = ["run", "hexapod", "--tasks", 20, "--evaluations", 12, "--algorithm", "random", "--out", out, "--quiet"]
    assert main([str(argument) for argument in [*arguments, "--set", "damage={2:'dead'}"]]) == 0
    return out


def run(*arguments):
    return main([str(argument) for argument in arguments])


def made(tasks, dim=2, **settings):
    """Return an artificial result in which task 5 is not solved."""
    fitness = np.random.default_rng(0).random(len(tasks))
    fitness[5] = np.nan
    return te.Result(
        solutions=np.full((len(tasks), dim), 0.3),
        fitness=fitness,
        tasks=tasks,
        evaluations=100,
        task_evaluations=np.ones(len(tasks), dtype=int),
        last_improved=np.ones(len(tasks), dtype=int),
        settings=settings,
    )


def keep(name, path):
    """Write a folder like `taskelites run`, for a domain in seen.py."""
    path.mkdir()
    run_folder = RunFolder.part(path)
    request = RunRequest(domain=f"seen:{name}", set=[], evaluations=100, folder=str(Path.cwd()))
    run_folder.write_plan({"request": request.plain(), "plan": {"evaluations": 100}})
    run_folder.write(made(te.tasks.grid((30,), [0], [1]), problem=name, options={}))


def read_mp4(path):
    """Return the properties of a film, as reported by ffmpeg, and its frames."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    found = subprocess.run(command, capture_output=True, check=True)
    about = re.search(r"Video: (\w+).*? (yuv\w+).*? (\d+)x(\d+).*? ([\d.]+) fps", found.stderr.decode()).groups()
    width, height = int(about[2]), int(about[3])
    frames = np.frombuffer(found.stdout, np.uint8).reshape(-1, height, width, 3)
    return {"codec": about[0], "colours": about[1], "size": (width, height), "fps": float(about[4])}, list(frames)


def size_of(path):
    with Image.open(path) as image:
        return image.size


def read_gif(path):
    with Image.open(path) as image:
        frames = []
        for i in range(image.n_frames):
            image.seek(i)
            frames.append((np.asarray(image.convert("RGB")), image.info["duration"]))
    return frames


def ramp(number, height=24, width=32):
    """Return grey frames, each brighter than the previous one."""
    return [np.full((height, width, 3), (20 * i + 10) % 256, np.uint8) for i in range(number)]


# Analysis of a walk.


def test_standing_robot_rests_on_six_feet():
    found = analyse(shown_engine(), np.zeros(36), NOMINAL)
    assert found.touching.all()
    assert found.forces.sum(axis=1) == pytest.approx(np.full(720, WEIGHT), rel=0.01)
    assert (found.flight, found.switches, found.seconds) == (0.0, 0.0, 3.0)
    assert found.duty.tolist() == [1.0] * 6
    assert not found.base_touches.any()
    assert found.penetration.max() < 1e-3
    assert found.speed.max() < 0.01
    assert found.power.max() < 0.1
    assert abs(found.distance) < 1e-3


def test_mean_ground_force_of_walking_robot_equals_its_weight():
    found = analyse(shown_engine(), FORWARD, NOMINAL)
    assert found.distance == shown_engine().walk(FORWARD, NOMINAL).distance > 0.4
    assert found.forces.sum(axis=1).mean() == pytest.approx(WEIGHT, rel=0.02)
    assert 0 < found.flight < 0.6
    assert found.switches > 2  # each foot touches down and lifts at least once per second
    assert found.power.mean() > 1
    assert (found.forces >= 0).all()
    assert ((found.forces > 0) == found.touching).all()


def test_body_model_has_given_lengths_and_leaves_engine_unchanged():
    lengths = NOMINAL + np.linspace(-0.03, 0.03, 12)
    engine = shown_engine()
    before = engine.model.body_pos.copy()
    model = body_model(engine, lengths)
    tibia = model.body("tibia_3").pos
    assert abs(tibia[1]) == pytest.approx(lengths[9])
    assert np.array_equal(engine.model.body_pos, before)  # the engine's own model is unchanged


def test_robot_without_legs_lies_on_its_base():
    engine = shown_engine(Rules(), as_damage(dict.fromkeys(range(6), "no-leg")))
    found = analyse(engine, np.zeros(36), NOMINAL)
    assert found.base_touches.all()
    assert found.flight == 0


# Drawings.


def test_draw_shows_body_path_and_contacts():
    hexapod = te.domain("hexapod", tasks=3)
    axes = hexapod.draw(FORWARD, NOMINAL)
    above, below = axes.child_axes
    assert axes.get_title().endswith("m in 3.00 s")
    assert next(tick.get_text() for tick in below.get_yticklabels()) == "front left"
    distance = shown_engine().walk(FORWARD, NOMINAL).distance
    assert any(line.get_xdata()[-1:] == pytest.approx([distance]) for line in above.lines if len(line.get_xdata()))
    assert len(below.collections) == 6
    axes.figure.canvas.draw()


def test_draw_accepts_axes_and_damaged_robots(tmp_path):
    hexapod = te.domain("hexapod", tasks=3, damage={0: "no-leg", 1: "no-tibia", 2: "dead", 3: "stuck"})
    axes = plt.figure(layout="constrained").add_subplot(2, 2, 3)
    assert hexapod.draw(np.random.default_rng(0).random(36), hexapod.tasks.descriptors[0], ax=axes) is axes
    axes.figure.savefig(tmp_path / "broken.svg")


# Films.


@pytest.mark.parametrize("shape", [(24, 32), (25, 33)], ids=["even", "odd"])
def test_mp4_can_be_read_back(tmp_path, shape):
    path = films.write_film(tmp_path / "ramp.mp4", ramp(12, *shape), fps=12)
    about, frames = read_mp4(path)
    assert about["codec"] == "h264"
    assert about["colours"] == "yuv420p"
    assert about["fps"] == 12
    assert about["size"] == tuple(side + side % 2 for side in shape[::-1])
    assert [round(float(frame.mean()), -1) for frame in frames] == pytest.approx(
        [20 * i + 10 for i in range(12)], abs=10
    )
    assert list(tmp_path.iterdir()) == [path]  # no temporary file is left


def test_gif_can_be_read_back(tmp_path):
    frames = read_gif(films.write_film(tmp_path / "ramp.GIF", iter(ramp(6, 25, 33)), fps=30))
    assert [int(picture[0, 0, 0]) for picture, _ in frames] == pytest.approx([20 * i + 10 for i in range(6)], abs=2)
    assert frames[0][0].shape == (25, 33, 3)
    assert sum(duration for _, duration in frames) == 200  # ms, although 1/30 s is not a multiple of 1/100 s


def test_failed_film_keeps_old_file(tmp_path):
    path = films.write_film(tmp_path / "ramp.mp4", ramp(3), fps=10)
    before = path.read_bytes()

    def broken():
        yield from ramp(2)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        films.write_film(path, broken(), fps=10)
    with pytest.raises(ValueError, match="all of one size, not uint8"):
        films.write_film(path, [*ramp(2), *ramp(1, 10, 10)], fps=10)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_error_includes_failure_of_ffmpeg(tmp_path, monkeypatch):
    monkeypatch.setattr(
        films, "_ffmpeg_command", lambda *_: [imageio_ffmpeg.get_ffmpeg_exe(), "-i", "nowhere", "-f", "mp4"]
    )
    with pytest.raises(OSError, match=r"could not write .*ffmpeg failed: "):
        films.write_film(tmp_path / "a.mp4", ramp(200, 480, 640), fps=10)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "fps", "message"),
    [
        ("a.avi", 30, "must end in .mp4 or .gif, not 'a.avi'"),
        ("a", 30, "must end in .mp4 or .gif, not 'a'"),
        ("a.gif", 60, "fps must be at most 50 for a .gif, not 60"),
        ("a.mp4", 0, "fps must be above 0"),
        ("no/a.mp4", 30, "there is no folder"),
    ],
)
def test_invalid_film_arguments_are_rejected(tmp_path, monkeypatch, name, fps, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        films.write_film(name, ramp(2), fps=fps)
    with pytest.raises(ValueError, match="at least one frame"):
        films.write_film("a.gif", [], fps=10)


def test_gif_is_written_without_ffmpeg(tmp_path, monkeypatch):
    monkeypatch.setattr(films.importlib.util, "find_spec", lambda name: None)
    assert films.film_suffix() == ".gif"
    with pytest.raises(
        ImportError, match=r"pip install 'taskelites\[hexapod\]'.* write a .gif, which needs no extra package"
    ):
        films.write_film(tmp_path / "a.mp4", ramp(2), fps=10)
    assert films.write_film(tmp_path / "a.gif", ramp(2), fps=10).exists()


def test_films_side_by_side_last_as_long_as_the_longest():
    both = films.SideBySide([ramp(2), ramp(5), ramp(3)])
    assert both.__length_hint__() == 5
    frames = list(both)
    assert [frame.shape for frame in frames] == [(52, 68, 3)] * 5
    assert [int(frame[0, 0, 0]) for frame in frames] == [10, 30, 30, 30, 30]
    assert [int(frame[0, 67, 0]) for frame in frames] == [10, 30, 50, 70, 90]
    assert int(frames[-1][51, 67, 0]) == 255  # the fourth cell is empty


def test_film_shows_evaluated_walk(gl):
    hexapod = te.domain("hexapod", tasks=3, damage={4: "no-leg"})
    lengths = hexapod.tasks.descriptors[1]
    film = hexapod.film(FORWARD, lengths, width=96, height=64, fps=4)
    assert film.fitness == hexapod.fitness(FORWARD[None], lengths[None])[0]
    frames = list(film)
    assert len(frames) == len(film) == len(film.moments)
    assert film.moments[-1] == len(film.analysis.walk.controls)
    assert all(frame.shape == (64, 96, 3) and frame.dtype == np.uint8 for frame in frames)
    assert all(np.abs(a.astype(int) - b).max() > 50 for a, b in pairwise(frames))
    assert np.array_equal(frames[2], list(film)[2])
    later = list(hexapod.film(FORWARD, lengths, width=96, height=64, fps=8))
    assert np.array_equal(frames[1], later[2])  # both frames show the same moment


def test_feet_on_the_ground_are_highlighted(gl):
    film = te.domain("hexapod", tasks=3).film(np.zeros(36), NOMINAL, width=160, height=120, fps=1)
    stands = next(iter(film)).astype(int)
    analysis = replace(film.analysis, forces=np.zeros_like(film.analysis.forces))
    floats = next(iter(replace(film, analysis=analysis))).astype(int)
    red = [int(((frame[..., 0] > 150) & (frame[..., 1] < 60)).sum()) for frame in (stands, floats)]
    assert red[0] > red[1] + 20


def test_films_rendered_together_equal_films_rendered_alone(gl):
    hexapod = te.domain("hexapod", tasks=3)
    one, two = (hexapod.film(FORWARD, row, width=64, height=48, fps=2) for row in hexapod.tasks.descriptors[:2])
    alone = [list(one)[1], list(two)[1]]
    together = list(films.SideBySide([one, two]))[1]
    assert np.array_equal(together, films.tile(alone))


def test_error_names_packages_when_no_backend_works(monkeypatch):
    rendering.backend.cache_clear()
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(rendering, "_backend_error", lambda name: f"no {name} here")
    try:
        with pytest.raises(ImportError, match=r"libegl1 libgl1-mesa-dri.*libosmesa6.*egl: no egl here; osmesa: .*glfw"):
            rendering.backend()
        monkeypatch.setenv("MUJOCO_GL", "osmesa")
        with pytest.raises(ImportError, match=r"MUJOCO_GL.*tried: osmesa: no osmesa here\)"):
            rendering.backend()
        monkeypatch.setattr(rendering, "_backend_error", lambda name: "")
        assert rendering.backend() == "osmesa"
    finally:
        rendering.backend.cache_clear()


def test_backend_error_names_unknown_backend():
    assert "no_such_backend" in rendering._backend_error("no_such_backend")


# The command.


def test_choose_elites_by_rank_task_number_or_at_random():
    result = made(te.tasks.grid((300,), [0], [1]))
    solved = result.fitness[result.solved]
    best, median, worst = choose_elites(result, ["best,median", "worst"])
    assert result.fitness[best.task] == solved.max()
    assert result.fitness[worst.task] == solved.min()
    assert (solved < result.fitness[median.task]).sum() == (len(solved) - 1) // 2
    assert [elite.task for elite in choose_elites(result, ["17", "3,17"])] == [17, 3]
    several = choose_elites(result, ["random,random,random"], seed=1)
    assert several == choose_elites(result, ["random"] * 3, seed=1)
    assert len({elite.task for elite in several}) == 3
    assert best.title(result).startswith(f"task {best.task} (best)\nfitness ")
    for word, message in (
        ("300", "must be 0 to 299"),
        ("5", "task 5 has no solution"),
        ("bets", "best, median, worst or random, not 'bets'"),
        (",".join(map(str, range(10, 40))), "at most 25 tasks"),
    ):
        with pytest.raises(ValueError, match=message):
            choose_elites(result, [word])
    with pytest.raises(ValueError, match="no task of this run is solved"):
        choose_elites(replace(result, fitness=np.full(300, np.nan)), ["best"])


def test_parse_size():
    assert parse_size("64x48") == (64, 48)
    for wrong in ("64", "64x", "8x8", "axb", "64x48x3", "-64x48", "99999x100"):
        with pytest.raises(Exception, match="such as 640x480"):
            parse_size(wrong)


def test_watch_user_defined_domain(folder, capsys):
    assert (
        run(
            "run",
            "seen:filmed",
            "--evaluations",
            200,
            "--algorithm",
            "random",
            "--out",
            "out",
            "--quiet",
            "--replicates",
            2,
        )
        == 0
    )
    capsys.readouterr()
    assert run("watch", "out/replicate-1", "--trust", "--size", "64x48", "--fps", 10) == 0
    lines = capsys.readouterr().out.splitlines()
    result = te.load("out/replicate-1")
    best = int(np.nanargmax(result.fitness))
    assert lines[0].startswith(f"task {best} (best): fitness ")
    assert lines[2] == f"  fitness in the film: {float(result.fitness[best])!r}, same as in the run"
    assert lines[3] == f"saved        out/replicate-1/task-{best}.mp4 (10 frames, 1 s)"
    assert len(read_mp4(folder / "out" / "replicate-1" / f"task-{best}.mp4")[1]) == 10
    # Half the speed gives twice the frames at the same frame rate.
    slow = ("--speed", 0.5, "--fps", 10, "--out", "slow.gif", "--task", "3,4,best", "--size", "64x48", "--quiet")
    assert run("watch", "out/replicate-1/result.npz", "--trust", *slow) == 0
    frames = read_gif(folder / "slow.gif")
    assert len(frames) == 20
    assert frames[0][0].shape == (100, 132, 3)
    assert run("watch", "out/replicate-0", "--trust", "--task", "1,2", "--size", "64x48", "--out", "still.png") == 0
    assert size_of("still.png") == (132, 48)


def test_watch_draws_domain_without_film(folder, capsys):
    keep("drawn", folder / "out")
    assert run("watch", "out", "--trust", "--task", 4) == 0
    assert size_of("out/task-4.png") == (640, 480)
    assert "saved        out/task-4.png (a drawing)" in capsys.readouterr().out
    assert run("watch", "out", "--trust", "--task", "4,6,8", "--out", "three.png", "--size", "200x160") == 0
    assert size_of("three.png") == (400, 320)
    assert run("watch", "out", "--trust", "--out", "a.mp4") == 2
    assert "--out must end in .png, not 'a.mp4': drawn can be drawn but not filmed" in capsys.readouterr().err


def test_watch_result_saved_from_python(folder, capsys):
    tasks = te.tasks.grid((5, 5), [0.2, 0.2], [1, 1])
    options = te.domain("arm", tasks=tasks, target=(0.3, 0.4)).options
    made(tasks, dim=4, problem="arm", options=options).save("arm.npz")
    assert run("watch", "arm.npz", "--task", "best,7") == 0
    assert len(list(folder.glob("tasks-*-7.png"))) == 1
    (folder / "own").mkdir()
    made(tasks, problem="mine", options={}).save("own/result.npz")
    assert run("watch", "own") == 2
    assert "the result in 'own' is of 'mine', which is not a built-in domain" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "there is no result 'nowhere'"),
        (("empty",), "there is no result 'empty/result.npz'"),
        (("out", "--task", 30), "--task must be 0 to 29 for this run, not 30"),
        (("out", "--task", "-1"), "best, median, worst or random, not '-1'"),
        (("out", "--out", "a.avi"), "the name of a film must end in .mp4, .gif or .png, not 'a.avi'"),
        (("out", "--speed", 0), "--speed must be between 0.01 and 100, not 0"),
        (("out", "--out", "no/a.gif"), "there is no folder"),
        (("out",), "unseen cannot be shown, since it has neither film nor draw"),
    ],
)
def test_invalid_watch_arguments_give_one_line_error(folder, capsys, arguments, message):
    (folder / "empty").mkdir()
    keep("unseen", folder / "out")
    assert run("watch", *arguments, "--trust") == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert message in said[0]


def test_watch_rejects_domain_changed_since_run(folder, capsys):
    keep("filmed", folder / "out")
    (folder / "seen.py").write_text(DOMAIN.replace("(30,)", "(31,)"))
    assert run("watch", "out", "--trust") == 2
    assert "the tasks of the domain are not those of the run" in capsys.readouterr().err


def test_watch_hexapod(gl, walkers, tmp_path, capsys):
    result = te.load(walkers)
    solved = np.flatnonzero(result.solved)
    out = tmp_path / "walks.mp4"
    tasks = ",".join(map(str, solved[:3]))
    assert run("watch", walkers, "--task", tasks, "--size", "96x72", "--fps", 4, "--out", out, "--quiet") == 0
    said = capsys.readouterr().out
    about, frames = read_mp4(out)
    assert said.count("same as in the run") == 3
    assert "femur_5" in said
    assert about["size"] == (196, 148)
    assert len(frames) <= 13
    assert all(np.abs(a.astype(int) - b).max() > 30 for a, b in pairwise(frames))
    unsolved = np.flatnonzero(~result.solved)[0]
    assert run("watch", walkers, "--fps", 0) == 2
    assert "fps must be above 0 and at most 1000, not 0" in capsys.readouterr().err
    assert run("watch", walkers, "--task", unsolved) == 2
    assert f"task {unsolved} has no solution in this run" in capsys.readouterr().err


def test_walks_from_other_simulators_are_shown_in_mujoco(gl, walkers, tmp_path, capsys):
    result = te.load(walkers)
    options = result.settings["options"] | {"engine": "mjx", "simulator": "mujoco.mjx 3.17.0"}
    assert options["damage"] == {"2": "dead"}
    task = int(np.flatnonzero(result.solved)[0])
    other = replace(result, fitness=result.fitness + 1, settings=result.settings | {"options": options})
    other.save(tmp_path / "other.npz")
    film = tmp_path / "film.gif"
    assert run("watch", tmp_path / "other.npz", "--task", task, "--size", "64x48", "--fps", 2, "--out", film) == 0
    said = capsys.readouterr().out.splitlines()
    expected = f"  fitness in the film: {float(result.fitness[task])!r}, in the run {float(other.fitness[task])!r}"
    assert said[-3] == f"{expected} (simulated with mujoco.mjx 3.17.0)"
    assert said[-2].endswith("damage: leg 2 dead")
    assert len(read_gif(film)) > 1


def test_error_without_mujoco_says_what_to_install(walkers, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    assert run("watch", walkers) == 2
    assert "install it with `pip install 'taskelites[hexapod]'`" in capsys.readouterr().err


def test_error_names_invalid_mujoco_gl(walkers):
    command = [sys.executable, "-m", "taskelites", "watch", str(walkers)]
    found = subprocess.run(
        command, env=os.environ | {"MUJOCO_GL": "nonsense"}, capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert "the environment variable MUJOCO_GL is 'nonsense', which does not work here: unset it" in found.stderr
