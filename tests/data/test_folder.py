import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engram.data.folder import ImageForm, images_by_class, images_in
from engram.errors import DataError, InputError

ROWS = np.arange(16 * 12, dtype=np.uint8).reshape(16, 12)


def picture(path: Path, pixels: np.ndarray | None = None, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(ROWS if pixels is None else pixels).save(path, **options)
    return path


def colours(height: int = 16, width: int = 12, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, channels)).astype(np.uint8)


# --- the form ---


def test_the_form_is_the_usual_size_of_the_first_images_and_grey_if_all_are(tmp_path: Path) -> None:
    grey = [picture(tmp_path / f"{side}.png", np.zeros((side, 2 * side), np.uint8)) for side in (10, 12, 40)]
    assert ImageForm.of(grey, None) == ImageForm(12, 24, False)
    coloured = picture(tmp_path / "colour.png", colours(12, 24))
    assert ImageForm.of([*grey, coloured], None) == ImageForm(12, 24, True)
    assert ImageForm.of(grey, (9, 30)) == ImageForm(9, 30, False)


def test_large_images_are_brought_to_at_most_64_pixels_in_their_proportions(tmp_path: Path) -> None:
    assert ImageForm.of([picture(tmp_path / "x.png", np.zeros((300, 600), np.uint8))], None) == ImageForm(32, 64, False)
    assert ImageForm.of([picture(tmp_path / "y.png", np.zeros((1, 900), np.uint8))], None) == ImageForm(8, 64, False)


def test_a_camera_held_on_its_side_counts_as_it_is_seen(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise by 90 degrees
    pixels = np.zeros((10, 20), np.uint8)
    pixels[:, 10:] = 255  # the right half is white: seen upright, the lower one
    path = picture(tmp_path / "turned.png", pixels, exif=exif)
    form = ImageForm.of([path], None)
    assert (form.height, form.width) == (20, 10)
    seen = form.read(path)
    assert seen.shape == (20, 10)
    assert (seen[:9] == 0).all()
    assert (seen[11:] == 255).all()


@pytest.mark.parametrize("size", [(7, 9), (9, 7), (2000, 9), (0, 0)])
def test_a_size_that_makes_no_sense_is_refused(tmp_path: Path, size: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="--image-size must be two sides of 8 to 1024"):
        ImageForm.of([picture(tmp_path / "x.png")], size)


# --- reading ---


@pytest.mark.parametrize("ending", ["png", "bmp", "tif", "gif", "webp", "ppm"])
def test_an_image_of_the_right_size_keeps_its_pixels_in_any_lossless_format(tmp_path: Path, ending: str) -> None:
    options: dict[str, Any] = {"lossless": True} if ending == "webp" else {}
    path = picture(tmp_path / f"x.{ending}", **options)
    np.testing.assert_array_equal(ImageForm(16, 12, False).read(path), ROWS)


def test_colour_and_grey_become_what_the_first_task_was(tmp_path: Path) -> None:
    grey, coloured = picture(tmp_path / "grey.png"), picture(tmp_path / "colour.jpg", colours())
    as_colour = ImageForm(16, 12, True).read(grey)
    assert as_colour.shape == (16, 12, 3)
    assert (as_colour == ROWS[..., None]).all()
    assert ImageForm(16, 12, False).read(coloured).shape == (16, 12)
    with Image.open(coloured) as image:
        expected = np.asarray(image.convert("L"))
    np.testing.assert_array_equal(ImageForm(16, 12, False).read(coloured), expected)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "I"])
@pytest.mark.parametrize("colour", [True, False])
def test_any_number_of_channels_is_brought_to_the_form(tmp_path: Path, mode: str, colour: bool) -> None:
    image = Image.new(mode, (30, 20))
    path = tmp_path / "x.tif"
    try:
        image.save(path)
    except (OSError, KeyError, ValueError):
        image.convert("RGB").save(path)
    assert ImageForm(8, 9, colour).read(path).shape == ((8, 9, 3) if colour else (8, 9))


def test_16_bits_are_scaled_and_not_cut_off(tmp_path: Path) -> None:
    path = picture(tmp_path / "deep.png", (ROWS.astype(np.uint16) << 8))
    np.testing.assert_array_equal(ImageForm(16, 12, False).read(path), ROWS)


def test_what_is_transparent_is_white_and_not_what_lies_beneath(tmp_path: Path) -> None:
    pixels = np.zeros((16, 12, 4), np.uint8)
    pixels[:8, :, 3] = 255
    seen = ImageForm(16, 12, True).read(picture(tmp_path / "half.png", pixels))
    assert (seen[:8] == 0).all()
    assert (seen[8:] == 255).all()


def test_proportions_are_kept_by_cutting_the_longer_side(tmp_path: Path) -> None:
    pixels = np.full((16, 48), 200, np.uint8)
    pixels[:, 16:32] = 10  # the middle square
    assert (ImageForm(16, 16, False).read(picture(tmp_path / "wide.png", pixels)) == 10).all()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[60] ^= 0xFF
    path.write_bytes(bytes(content))


def no_pixels(path: Path) -> None:
    """A PNG that says it is 0 pixels wide."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 0, 5, 8, 0, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b""))


def enormous(path: Path) -> None:
    """A few bytes that ask for 3.6 GB."""
    path.write_bytes(b"P5 60000 60000 255\n" + b"\0" * 100)


BROKEN: list[Callable[[Path], object]] = [
    cut,
    flip,
    no_pixels,
    enormous,
    lambda path: path.write_bytes(b""),
    lambda path: path.write_text("not an image"),
    lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n"),
    lambda path: Image.new("F", (9, 9)).save(path, "tiff"),
    Path.unlink,
]


@pytest.mark.parametrize("harm", BROKEN)
def test_a_broken_image_is_one_sentence(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    path = picture(tmp_path / "x.png", colours())
    harm(path)
    with pytest.raises(DataError) as caught:
        ImageForm(16, 12, True).read(path)
    assert "\n" not in str(caught.value)
    assert str(path) not in str(caught.value)  # whoever reads many files names it


# --- folders ---


def test_sub_folders_are_classes_and_hidden_files_are_none(tmp_path: Path) -> None:
    for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
        picture(tmp_path / name)
    (tmp_path / ".git").mkdir()
    (tmp_path / "cat" / ".DS_Store").touch()
    (tmp_path / "cat" / "deeper").mkdir()
    (tmp_path / "readme.txt").touch()
    (tmp_path / "none").mkdir()
    found, left_out = images_by_class(tmp_path)
    assert {name: [path.name for path in paths] for name, paths in found.items()} == {
        "cat": ["1.png", "2.png"],
        "dog": ["1.png"],
    }
    assert len(left_out) == 3
    for part in ("readme.txt lies in no class's folder", "deeper is a folder within", "none holds no files"):
        assert any(part in sentence for sentence in left_out)


def test_folders_of_folders_are_not_taken_for_classes(tmp_path: Path) -> None:
    picture(tmp_path / "train" / "cat" / "1.png")
    with pytest.raises(DataError, match="name the folder whose sub-folders are the classes"):
        images_by_class(tmp_path)


def test_all_images_at_any_depth_are_found_to_predict(tmp_path: Path) -> None:
    for name in ("b/1.png", "a/deep/2.png", "3.png"):
        picture(tmp_path / name)
    (tmp_path / "a" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "b" / "nothing").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert [path.name for path in images_in(tmp_path)] == ["3.png", "2.png", "1.png", "nothing"]
