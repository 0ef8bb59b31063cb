"""People's own images: a folder with a sub-folder of images for each class, brought to one size and kind."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, BinaryIO, Self

import numpy as np
from PIL import Image, ImageOps

from engram.errors import DataError, InputError

LEAST_SIDE, MOST_SIDE = 8, 1024
LARGEST_CHOSEN = 64
"""pixels of the longer side where nobody has chosen a size: more are averaged down again by closed-form learning"""
LOOKED_AT = 1000
"""files, evenly spread over all, that say what the images are like"""
ORIENTATION = 0x0112
"""the EXIF entry that says how a camera was held"""
GREY_MODES = ("1", "L", "LA", "La", "I", "F")


@dataclass(frozen=True)
class ImageForm:
    """The size and kind that all images are brought to; fixed by the first task."""

    height: int
    width: int
    colour: bool

    @classmethod
    def of(cls, files: Sequence[Path], size: tuple[int, int] | None) -> Self:
        """The usual size of these images unless one is given, and grey if all of them are."""
        some = files[:: -(-len(files) // LOOKED_AT)]
        looks = [look for look in map(_look, some) if look is not None]
        colour = not all(grey for _, _, grey in looks)
        if size is None:
            if not looks:
                raise InputError(f"None of the files is an image, such as {files[0]}: name a folder of images.")
            size = _usual_size([height for height, _, _ in looks], [width for _, width, _ in looks])
        if not all(LEAST_SIDE <= side <= MOST_SIDE for side in size):
            raise InputError(f"--image-size must be two sides of {LEAST_SIDE} to {MOST_SIDE} pixels, not {size}.")
        return cls(*size, colour)

    def read(self, path: Path | BinaryIO) -> np.ndarray:
        """Of a file or its content: height x width, or height x width x 3, as uint8."""
        try:
            with warnings.catch_warnings(), Image.open(path) as image:
                warnings.simplefilter("ignore")  # of what is odd in a file and harmless
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                return self.prepare(image)
        except DataError:
            raise
        except Exception as error:  # what pillow's many decoders raise for broken files is not to be foreseen
            reason = getattr(error, "strerror", None) or _without_path(error, path)
            raise DataError(f"cannot be read as an image ({reason})") from error

    def prepare(self, image: Image.Image) -> np.ndarray:
        """Upright, without transparency, cut at the longer side to the same proportions, and resized."""
        mode = "RGB" if self.colour else "L"
        longest = 2 * max(self.height, self.width)
        image.draft(None, (longest, longest))  # large photographs are decoded at a part of their size
        image = _without_transparency(_eight_bits(ImageOps.exif_transpose(image))).convert(mode)
        return np.asarray(ImageOps.fit(image, (self.width, self.height), Image.Resampling.LANCZOS))

    def state(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return f"{'colour' if self.colour else 'grey'} images of {self.height} x {self.width} pixels"


def images_by_class(folder: Path) -> tuple[dict[str, list[Path]], list[str]]:
    """Each class's files, and sentences on what was left out."""
    inside = _listed(folder)
    classes = {path.name: _listed(path) for path in inside if path.is_dir()}
    if not classes:
        raise DataError(
            f"{folder} {'has no sub-folders' if inside else 'is empty'}: put the images of each class into a "
            "sub-folder that has the class's name."
        )
    if not any(_may_be_read(path) for files in classes.values() for path in files):
        raise DataError(
            f"The sub-folders of {folder}, such as {next(iter(classes))!r}, hold no files, only folders or "
            "nothing: name the folder whose sub-folders are the classes."
        )
    found = {name: [path for path in files if _may_be_read(path)] for name, files in classes.items()}
    left_out = [f"{path} lies in no class's folder" for path in inside if not path.is_dir()]
    left_out += [
        f"{path} is a folder within a class's" for files in classes.values() for path in files if path.is_dir()
    ]
    left_out += [f"{folder / name} holds no files" for name, files in found.items() if not files]
    return {name: files for name, files in found.items() if files}, left_out


def images_in(folder: Path) -> Iterator[Path]:
    """All files, at any depth, in the order of their names."""
    for path in _listed(folder):
        if path.is_dir() and not path.is_symlink():
            yield from images_in(path)
        elif _may_be_read(path):
            yield path


def _may_be_read(path: Path) -> bool:
    """Pipes would be waited for; a link to nothing is to be named as broken."""
    return path.is_file() or (path.is_symlink() and not path.exists())


def _listed(folder: Path) -> list[Path]:
    """What is not hidden, as .DS_Store is."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder} cannot be read ({error.strerror}): check the path and its permissions.") from error


def _look(path: Path) -> tuple[int, int, bool] | None:
    """Height, width and whether it is grey, from the file's first bytes; None for what is no image."""
    try:
        with warnings.catch_warnings(), Image.open(path) as image:
            warnings.simplefilter("ignore")
            width, height = image.size
            if image.getexif().get(ORIENTATION, 1) >= 5:  # held on its side
                width, height = height, width
            return height, width, image.mode.startswith("I;") or image.mode in GREY_MODES
    except Exception:  # reading the whole file tells later what is wrong with it
        return None


def _usual_size(heights: list[int], widths: list[int]) -> tuple[int, int]:
    height, width = median(heights), median(widths)
    shrink = min(1.0, LARGEST_CHOSEN / max(height, width))
    return max(LEAST_SIDE, round(height * shrink)), max(LEAST_SIDE, round(width * shrink))


def _eight_bits(image: Image.Image) -> Image.Image:
    """Pillow cuts 16 bits off at 255 instead of scaling them."""
    if image.mode == "F":
        raise DataError("has pixels that are fractions, of which nobody knows what is white: save it as PNG")
    if not image.mode.startswith("I"):
        return image
    return Image.fromarray((np.asarray(image).astype(np.int64).clip(0, 65535) >> 8).astype(np.uint8))


def _without_transparency(image: Image.Image) -> Image.Image:
    if not image.has_transparency_data:
        return image
    white = Image.new("RGBA", image.size, "white")
    white.alpha_composite(image.convert("RGBA"))
    return white


def _without_path(error: Exception, path: Path | BinaryIO) -> str:
    if isinstance(error, Image.UnidentifiedImageError):
        return "pillow knows no such format, or it is damaged or empty"
    return str(error).replace(str(path), "it").rstrip(".") or type(error).__name__
