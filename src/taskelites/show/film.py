"""Write films that browsers can play, add labels to them and tile several into one."""

import importlib.util
import itertools
import math
import operator
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from taskelites.errors import InvalidValueError, MissingFileError, MissingPackageError
from taskelites.storage import write_whole

FILM_SUFFIXES, PICTURE_SUFFIXES = (".mp4", ".gif"), (".png",)
# The delay of a GIF frame is a multiple of 1/100 s, and players slow down films with a delay below 2/100 s.
_MAX_GIF_FPS = 50
_PALETTE_FRAMES = 6
_GAP = 4  # pixels between films side by side
_BACKGROUND = 255


def film_suffix() -> str:
    """Return the suffix of the best available format: ".mp4", or ".gif" if imageio-ffmpeg is not installed."""
    return ".mp4" if importlib.util.find_spec("imageio_ffmpeg") is not None else ".gif"


def check_film(path: str | PathLike[str], fps: float, *, pictures: bool = False) -> None:
    """Raise, before anything is drawn, if a film cannot be written to a path.

    Args:
        path: file to write; the suffix determines the format.
        fps: frames per second.
        pictures: whether to allow the suffixes of pictures as well.

    Raises:
        ValueError: if the suffix or the frame rate is not supported.
        ImportError: if the format needs a package that is not installed.
        FileNotFoundError: if the folder does not exist.

    Example:
        >>> check_film("walk.avi", 30)
        Traceback (most recent call last):
        taskelites.errors.InvalidValueError: the name of a film must end in .mp4 or .gif, not 'walk.avi'
    """
    path = Path(path)
    suffix = path.suffix.lower()
    allowed = FILM_SUFFIXES + PICTURE_SUFFIXES if pictures else FILM_SUFFIXES
    if suffix not in allowed:
        kinds = ", ".join(allowed[:-1]) + f" or {allowed[-1]}"
        raise InvalidValueError(f"the name of a film must end in {kinds}, not {path.name!r}")
    if not 0 < fps <= 1000:
        raise InvalidValueError(f"fps must be above 0 and at most 1000, not {fps!r}")
    if suffix == ".gif" and fps > _MAX_GIF_FPS:
        raise InvalidValueError(f"fps must be at most {_MAX_GIF_FPS} for a .gif, not {fps:g}; write an .mp4 instead")
    if suffix == ".mp4" and film_suffix() != ".mp4":
        raise MissingPackageError(
            "an .mp4 needs imageio-ffmpeg, which is not installed: `pip install 'taskelites[hexapod]'`, "
            "or write a .gif, which needs no extra package"
        )
    if not path.absolute().parent.is_dir():
        raise MissingFileError(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")


def write_film(path: str | PathLike[str], frames: Iterable[np.ndarray], fps: float = 30) -> Path:
    """Write a film atomically: after an error there is no partial file.

    Args:
        path: file to write, ending in `.mp4` (H.264) or `.gif`.
        frames: uint8 arrays `(height, width, 3)`, all of the same size.
        fps: frames per second.

    Returns:
        The path.

    Example:
        >>> import tempfile, numpy as np
        >>> path = tempfile.mkdtemp() + "/fade.gif"
        >>> write_film(path, (np.full((16, 16, 3), 40 * i, np.uint8) for i in range(5)), fps=10).name
        'fade.gif'
    """
    check_film(path, fps)
    path = Path(path)
    stream = iter(frames)
    first = next(stream, None)
    if first is None:
        raise InvalidValueError("frames must hold at least one frame, but it is empty")
    every = (_check_frame(frame, first.shape) for frame in itertools.chain([first], stream))
    write = _write_gif if path.suffix.lower() == ".gif" else _write_mp4
    write_whole(path, lambda file: write(file, every, fps))
    return path


def write_picture(path: str | PathLike[str], picture: np.ndarray) -> Path:
    """Write a uint8 array `(height, width, 3)` atomically to a `.png` file and return its path.

    Example:
        >>> import tempfile, numpy as np
        >>> write_picture(tempfile.mkdtemp() + "/white.png", np.full((8, 8, 3), 255, np.uint8)).name
        'white.png'
    """
    from PIL import Image

    path = Path(path)
    if path.suffix.lower() not in PICTURE_SUFFIXES:
        raise InvalidValueError(f"the name of a picture must end in .png, not {path.name!r}")
    image = Image.fromarray(np.ascontiguousarray(picture))
    write_whole(path, lambda file: image.save(file, format="png"))
    return path


def label(picture: np.ndarray, text: str) -> np.ndarray:
    """Return a picture `(height, width, 3)` with a text in its upper left corner.

    Example:
        >>> import numpy as np
        >>> bool((label(np.full((60, 80, 3), 200, np.uint8), "task 3") == 0).any())
        True
    """
    from matplotlib import font_manager
    from PIL import Image, ImageDraw, ImageFont

    image = Image.fromarray(np.ascontiguousarray(picture))
    size = max(9, image.height // 24)
    font = ImageFont.truetype(font_manager.findfont("DejaVu Sans"), size)
    pen = ImageDraw.Draw(image)
    corner = (size // 2, size // 2)
    left, top, right, bottom = pen.multiline_textbbox(corner, text, font=font)
    pen.rectangle((left - size // 3, top - size // 3, right + size // 3, bottom + size // 3), fill=(255, 255, 255))
    pen.multiline_text(corner, text, font=font, fill=(0, 0, 0))
    return np.asarray(image)


class Labelled:
    """A film with a text in the upper left corner of each frame.

    Args:
        film: uint8 arrays `(height, width, 3)`.
        text: text to add.

    Example:
        >>> import numpy as np
        >>> len(list(Labelled([np.zeros((60, 80, 3), np.uint8)] * 3, "task 3")))
        3
    """

    def __init__(self, film: Iterable[np.ndarray], text: str) -> None:
        self.film, self.text = film, text

    def __length_hint__(self) -> int:
        return operator.length_hint(self.film)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (label(frame, self.text) for frame in self.film)


class SideBySide:
    """Several films tiled into one. A film that has ended shows its last frame until all have ended.

    Args:
        films: films whose frames all have the same size.

    Example:
        >>> import numpy as np
        >>> black, white = np.zeros((8, 10, 3), np.uint8), np.full((8, 10, 3), 255, np.uint8)
        >>> both = list(SideBySide([[black], [white, black]]))
        >>> len(both), both[0].shape, bool((both[1] == 0).sum() == 2 * black.size)
        (2, (8, 24, 3), True)
    """

    def __init__(self, films: Sequence[Iterable[np.ndarray]]) -> None:
        self.films = list(films)

    def __length_hint__(self) -> int:
        return max((operator.length_hint(film) for film in self.films), default=0)

    def __iter__(self) -> Iterator[np.ndarray]:
        running: list[Any] = [iter(film) for film in self.films]
        try:
            shown: list[Any] = [None] * len(running)
            while True:
                new = [next(film, None) for film in running]
                if all(frame is None for frame in new):
                    return
                shown = [old if frame is None else frame for old, frame in zip(shown, new, strict=True)]
                yield tile(shown)
        finally:
            for film in running:
                getattr(film, "close", lambda: None)()


def tile(pictures: Sequence[np.ndarray]) -> np.ndarray:
    """Return pictures of the same size tiled into one, in a grid of at least as many columns as rows.

    Unused cells are white.

    Example:
        >>> import numpy as np
        >>> tile([np.zeros((30, 40, 3), np.uint8)] * 5).shape  # two rows of three
        (64, 128, 3)
    """
    height, width = pictures[0].shape[:2]
    columns = math.ceil(math.sqrt(len(pictures)))
    rows = math.ceil(len(pictures) / columns)
    shape = (rows * (height + _GAP) - _GAP, columns * (width + _GAP) - _GAP, 3)
    whole = np.full(shape, _BACKGROUND, np.uint8)
    for number, picture in enumerate(pictures):
        top, left = (number // columns) * (height + _GAP), (number % columns) * (width + _GAP)
        whole[top : top + height, left : left + width] = _check_frame(picture, pictures[0].shape)
    return whole


def _check_frame(frame: Any, shape: tuple[int, ...]) -> np.ndarray:
    frame = np.asarray(frame)
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or frame.shape != shape:
        raise InvalidValueError(
            f"frames must be uint8 arrays of shape (height, width, 3), all of one size, not {frame.dtype} {frame.shape}"
        )
    return frame


def _write_mp4(file: BinaryIO, frames: Iterable[np.ndarray], fps: float) -> None:
    stream = iter(frames)
    first = _pad_to_even(next(stream))
    # The process is started here because imageio-ffmpeg forks, which is unsafe once JAX has started threads.
    with subprocess.Popen(
        _ffmpeg_command(file.name, first.shape[1], first.shape[0], fps), stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        try:
            for frame in itertools.chain([first], map(_pad_to_even, stream)):
                process.stdin.write(frame.tobytes())
        except BrokenPipeError:
            pass  # ffmpeg has exited; its error message is read below
        except BaseException:
            process.kill()
            raise
        _, messages = process.communicate()
    if process.returncode:
        lines = messages.decode(errors="replace").strip().splitlines()
        raise OSError(f"ffmpeg failed: {lines[-1] if lines else f'status {process.returncode}'}")


def _ffmpeg_command(name: str, width: int, height: int, fps: float) -> list[str]:
    """Return the ffmpeg command that reads raw RGB frames from its standard input and writes an .mp4 file."""
    import imageio_ffmpeg

    rate = str(Fraction(fps).limit_denominator(1000))
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", rate, "-i", "-"]
    film = ["-an", "-vcodec", "libx264", "-crf", "20", "-pix_fmt", "yuv420p"]
    # The format is explicit because the temporary file has another suffix; faststart lets players start before the
    # file is complete.
    container = ["-f", "mp4", "-movflags", "+faststart"]
    return [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *raw, *film, *container, name]


def _pad_to_even(frame: np.ndarray) -> np.ndarray:
    """Pad a frame to even width and height, as H.264 stores one colour per 2 x 2 pixels."""
    return np.pad(frame, ((0, frame.shape[0] % 2), (0, frame.shape[1] % 2), (0, 0)), mode="edge")


def _write_gif(file: BinaryIO, frames: Iterable[np.ndarray], fps: float) -> None:
    from PIL import Image

    kept = list(frames)
    # One palette for the whole film, since static parts would flicker with one palette per frame.
    chosen = np.unique(np.linspace(0, len(kept) - 1, _PALETTE_FRAMES).astype(int))
    # Maximum coverage preserves colours that few pixels have.
    palette = Image.fromarray(np.concatenate([kept[i] for i in chosen])).quantize(256, Image.Quantize.MAXCOVERAGE)
    pictures = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in kept]
    ends = np.round(100 * np.arange(len(kept) + 1) / fps).astype(int)
    pictures[0].save(
        file,
        format="gif",
        save_all=True,
        append_images=pictures[1:],
        duration=[10 * int(units) for units in np.diff(ends)],
        loop=0,
        optimize=True,
    )
